# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
What Python runs as sitecustomize in each process of a training: it writes the progress of a rank to a file.

It waits for PyTorch, and watches the steps of the optimizer and the forward passes of the model. It changes no result,
never waits for a GPU, and gives up at its first error. It imports nothing of this collection.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import importlib.machinery
import importlib.util
import json
import os
import sys
import time
import typing as t

DIRECTORY = "GPUCLUSTER_BEATS"
# A real-time signal, which no program of users handles. It writes the stacks of all threads.
STACKS = 42
ROOM = 512
_PAUSE = 0.2  # seconds between two notes of forward passes
# These only wrap a model: their forward pass can wait for other ranks.
_WRAPPERS = {"DistributedDataParallel", "FullyShardedDataParallel", "DataParallel", "DeepSpeedEngine", "Float16Module"}
_MOST_EVENTS = 64


class Progress:
    """The steps of this rank, and its own time: that of the forward passes, in which it waits for nobody."""

    def __init__(self, torch: t.Any, directory: str) -> None:
        self.torch, self.path = torch, os.path.join(directory, f"rank-{os.environ.get('LOCAL_RANK', '0')}")  # noqa: PTH118
        self.count, self.first, self.passes, self.file = 0, -1, 0, -1
        self.own, self.measured, self.gpu = 0.0, 0, False
        self.optimizer: t.Any = None
        self.search: Search | None = None
        self.begun: t.Any = None
        self.waiting: list[tuple[t.Any, t.Any]] = []
        self.noted = 0.0
        self.measure = quiet(self.own_time)  # without it, the steps are still counted
        # A process that a rank starts has the same variables, and comes later.
        with contextlib.suppress(FileExistsError):
            self.file = os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
            self.note()

    def step(self, optimizer: t.Any, *_args: t.Any) -> None:
        """Count a step of the first optimizer, and note it."""
        if self.file < 0:
            return
        if self.optimizer is None:
            # torch.distributed.checkpoint makes such a step before it reads a checkpoint.
            if not any(group.get("lr", 1) for group in optimizer.param_groups):
                return
            self.optimizer = id(optimizer)
            self.first = known_step(optimizer)
            with contextlib.suppress(ValueError):
                stacks = open(f"{self.path}.stacks", "w")  # noqa: PTH123, SIM115
                faulthandler.register(STACKS, stacks, all_threads=True)
        if self.optimizer == id(optimizer):
            self.count += 1
            self.measure()
        self.note()

    def own_time(self) -> None:
        """Add what is known, and find the model during the second step; the first one compiles."""
        self.drain()
        if self.count == 1:
            self.search = Search(self.torch)
        elif self.search:
            model, self.search = self.search.end(), None
            if model is not None:
                model.register_forward_pre_hook(quiet(self.before))
                model.register_forward_hook(quiet(self.after))

    def before(self, module: t.Any, *_args: t.Any) -> None:
        """Remember the begin of a forward pass."""
        self.begun = self.now() if module.training else None

    def after(self, *_args: t.Any) -> None:
        """Add the time of a forward pass; the time on a GPU is known later."""
        self.passes += 1
        if self.begun is not None:
            begun, self.begun, end = self.begun, None, self.now()
            if not self.gpu:
                self.add(1000 * (end - begun))
            elif end is not None and len(self.waiting) < _MOST_EVENTS:
                self.waiting.append((begun, end))
        if time.monotonic() - self.noted > _PAUSE:
            self.note()

    def now(self) -> t.Any:
        """Return the time, on a GPU as an event of its stream; nothing while a graph is recorded."""
        cuda = self.torch.cuda
        self.gpu = cuda.is_initialized()
        if not self.gpu:
            return time.monotonic()
        if cuda.is_current_stream_capturing():
            return None
        event = cuda.Event(enable_timing=True)
        event.record()
        return event

    def drain(self) -> None:
        """Add the passes that the GPU has done, without a wait."""
        while self.waiting and self.waiting[0][1].query():
            begun, end = self.waiting.pop(0)
            self.add(begun.elapsed_time(end))

    def add(self, milliseconds: float) -> None:
        """Add the time of one forward pass."""
        self.own += milliseconds
        self.measured += 1

    def note(self) -> None:
        """Write the state in one call, with a fixed length."""
        self.noted = time.monotonic()
        found = {"pid": os.getpid(), "rank": int(os.environ.get("RANK", "0")), "count": self.count}
        found |= {"step": self.first + self.count - 1 if self.first >= 0 and self.count else None}  # type: ignore[dict-item]
        found |= {"passes": self.passes, "own": round(self.own, 3), "measured": self.measured, "gpu": self.gpu}  # type: ignore[dict-item]
        os.pwrite(self.file, json.dumps(found).ljust(ROOM).encode(), 0)


class Search:
    """Finds the module that does the most outside of all others, which is the model."""

    def __init__(self, torch: t.Any) -> None:
        self.torch, self.inside, self.seconds, self.modules = torch, [], {}, {}  # type: ignore[var-annotated]
        module = torch.nn.modules.module
        self.hooks = [
            module.register_module_forward_pre_hook(quiet(self.enter)),
            module.register_module_forward_hook(quiet(self.leave)),
        ]

    def enter(self, module: t.Any, *_args: t.Any) -> None:
        """Remember a module and the time."""
        if not self.torch.compiler.is_compiling() and type(module).__name__ not in _WRAPPERS:
            self.inside.append((id(module), time.monotonic()))

    def leave(self, module: t.Any, *_args: t.Any) -> None:
        """Add the time of a module that no other one has called."""
        if not self.inside or self.inside[-1][0] != id(module):
            return
        key, begun = self.inside.pop()
        if not self.inside:
            self.seconds[key] = self.seconds.get(key, 0.0) + time.monotonic() - begun
            self.modules[key] = module

    def end(self) -> t.Any:
        """Stop the search; return the model, or None."""
        for hook in self.hooks:
            hook.remove()
        found = max(self.seconds, key=lambda key: self.seconds[key], default=None)
        return self.modules.get(found)


def known_step(optimizer: t.Any) -> int:
    """Return the number of the step that an optimizer has just done, as Adam counts it in a checkpoint; -1 if not."""
    for state in optimizer.state.values():
        if isinstance(state, dict) and "step" in state:
            return int(state["step"])
    return -1


def quiet(work: t.Callable[..., t.Any]) -> t.Callable[..., None]:
    """Return a function that does nothing any more after its first error: the training goes on."""
    broken: list[bool] = []

    def run(*args: t.Any) -> None:
        if broken:
            return
        try:
            work(*args)
        except Exception as error:  # whatever a version of PyTorch does
            broken.append(True)
            sys.stderr.write(f"gpucluster-torchrun: the progress of this rank is not seen any more: {error!r}\n")

    return run


def allow_no_libuv(store: t.Any) -> None:
    """Let a PyTorch without libuv, such as Debian's, use its other server where torchrun asks for libuv."""
    make = store.__init__

    def init(self: t.Any, *args: t.Any, **more: t.Any) -> None:
        try:
            make(self, *args, **more)
        except RuntimeError as error:
            if "libuv" not in str(error):
                raise
            make(self, *args, **{**more, "use_libuv": False})

    store.__init__ = init


def attach(torch: t.Any) -> None:
    """Watch PyTorch, which was just imported."""
    if torch.distributed.is_available():
        allow_no_libuv(torch.distributed.TCPStore)
    if "RANK" in os.environ:
        progress = Progress(torch, os.environ[DIRECTORY])
        # PyTorch deletes this name from its package.
        optimizer = importlib.import_module("torch.optim.optimizer")
        optimizer.register_optimizer_step_post_hook(quiet(progress.step))


class AfterTorch:
    """Looks for PyTorch like the others do, and lets a function run after its import."""

    def find_spec(self, name: str, *_args: t.Any) -> importlib.machinery.ModuleSpec | None:
        """Return what the others find."""
        if name != "torch":
            return None
        sys.meta_path.remove(self)  # type: ignore[arg-type]
        found = importlib.util.find_spec(name)
        if found and found.loader:
            execute = found.loader.exec_module

            def run(module: t.Any) -> None:
                execute(module)
                quiet(attach)(module)

            found.loader.exec_module = run  # type: ignore[method-assign]
        return found


def next_customize(own: str) -> None:
    """Run the sitecustomize that Python would have found without this one."""
    paths = [path for path in sys.path if os.path.realpath(path) != os.path.realpath(own)]
    found = importlib.machinery.PathFinder.find_spec("sitecustomize", paths)
    if found and found.loader:
        found.loader.exec_module(importlib.util.module_from_spec(found))


if __name__ == "sitecustomize":
    if os.environ.get(DIRECTORY):
        sys.meta_path.insert(0, AfterTorch())  # type: ignore[arg-type]
    next_customize(os.path.dirname(__file__))  # noqa: PTH120
