# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Start other programs so that they can neither hang nor flood this one."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
import typing as t

DONE, MISSING, TIMEOUT, FAILED = "done", "missing", "timeout", "failed"

_MOST_OUTPUT = 8 << 20
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/slurm/bin:/usr/local/cuda/bin"
# Where images for GPU machines keep what they build; tools for measuring come with no package.
_PATH += ":/opt/nccl-tests/build:/usr/local/nccl-tests/build:/opt/nvbandwidth:/usr/local/nvbandwidth:/opt/perftest/bin"


class Result(t.NamedTuple):
    """How a program ended and what it printed."""

    state: str
    rc: int = -1
    out: str = ""
    err: str = ""

    @property
    def text(self) -> str:
        """Return all that was printed, errors first."""
        return " ".join(filter(None, [self.err.strip(), self.out.strip()]))


class Running:
    """A started program whose output is collected until it ends or its time is over."""

    def __init__(self, argv: t.Sequence[str], stdin: str = "", env: dict[str, str] | None = None) -> None:
        """Start it; raises OSError when that fails."""
        self._process = subprocess.Popen(
            list(argv),
            stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=_environment(env or {}),
            start_new_session=True,
        )
        if stdin and self._process.stdin:
            with self._process.stdin as pipe:
                pipe.write(stdin.encode())

    def result(self, timeout: float) -> Result:
        """Wait for the end, at most this many seconds, and return what was printed."""
        end = time.monotonic() + timeout
        out, err, complete = self._collect(end)
        if complete:
            try:
                self._process.wait(max(0.05, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                complete = False
        if not complete:
            self.kill()
        state = DONE if complete else TIMEOUT
        rc = self._process.returncode
        return Result(state, -1 if rc is None else rc, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))

    def kill(self) -> None:
        """End the program and its children; one that cannot be killed is left behind, not waited for."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(0.5)
        except (OSError, subprocess.TimeoutExpired):
            pass
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe:
                pipe.close()

    def _collect(self, end: float) -> tuple[bytes, bytes, bool]:
        streams = {self._process.stdout: bytearray(), self._process.stderr: bytearray()}
        out, err = streams.values()
        with selectors.DefaultSelector() as selector:
            for stream in streams:
                selector.register(t.cast("t.IO[bytes]", stream), selectors.EVENT_READ)
            while selector.get_map():
                ready = selector.select(max(0.0, end - time.monotonic()))
                if not ready or len(out) + len(err) > _MOST_OUTPUT:
                    return bytes(out), bytes(err), False
                for key, _events in ready:
                    chunk = os.read(key.fd, 65536)
                    streams[t.cast("t.IO[bytes]", key.fileobj)] += chunk
                    if not chunk:
                        selector.unregister(key.fileobj)
        return bytes(out), bytes(err), True


def run(argv: t.Sequence[str], timeout: float, stdin: str = "", env: dict[str, str] | None = None) -> Result:
    """Run a program to its end, or to the end of its time."""
    if timeout <= 0:
        return Result(TIMEOUT)
    try:
        return Running(argv, stdin, env).result(timeout)
    except (FileNotFoundError, NotADirectoryError):
        return Result(MISSING, err=f"{argv[0]}: no such program")
    except OSError as exc:
        return Result(FAILED, err=f"{argv[0]}: {exc.strerror or exc}")


def _environment(extra: dict[str, str]) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if name not in ("LANG", "LANGUAGE")}
    path = ":".join(filter(None, [inherited.get("PATH", ""), _PATH]))
    return {**inherited, "LC_ALL": "C", "PATH": path, **extra}
