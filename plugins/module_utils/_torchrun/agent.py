# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
What runs on each node of a segment: it starts torchrun, passes its output on, and reports the progress of the ranks.

Reports are lines of standard output that begin with a mark. srun carries them to the launcher, so that no storage and
no port is needed. Words on standard input ask for stacks, for a signal to the ranks, or for the end.
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import json
import os
import pkgutil
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._slurm import output
from ansible_collections.hpcai.gpucluster.plugins.module_utils._training import network

from . import hook, judge

MARK = "\x1egpucluster "
STACKS, STOP = "stacks", "stop"
_TAIL = 400  # lines of a program's errors in which its cause is looked for
_BEAT = 1.0
_KILL_SECONDS = 15.0
_STACK_SECONDS = 3.0
# torchrun and ft_launcher look ten times a second for ranks that ended. They log one of them, then list all.
_FAILED = [
    re.compile(r"failed \(exitcode: (?P<status>-?\d{1,3})\) local_rank: (?P<local>\d{1,5}) \(pid: (?P<pid>\d{1,9})\)"),
    re.compile(r"\(local_rank: (?P<local>\d{1,5})\)\s+exitcode\s*: (?P<status>-?\d{1,3}) \(pid: (?P<pid>\d{1,9})\)"),
    re.compile(
        r"ProcessFailure\(local_rank=(?P<local>\d{1,5}), pid=(?P<pid>\d{1,9}), exitcode=(?P<status>-?\d{1,3})\b"
    ),
]
# What torchrun and ft_launcher themselves say, which is no cause.
_TORCHRUN = re.compile(
    r"torch[./]distributed[./](run|launcher)|ChildFailedError|Sending process|elastic|^[=-]{5}|FAILED$|Root Cause"
    r"|Failures:|\[(INFO|WARNING)\] \[(ft_launcher|RankMonServer|\S+\] \[workload:)|failed \(exitcode"
    r"|Some rank\(s\) exited|^\s*(rank|exitcode|time|host|error_file|traceback)\s*:"
)
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER
_FORWARDED = (signal.SIGTERM, signal.SIGUSR1)


def command(task: t.Mapping[str, t.Any], node: str) -> list[str]:
    """Return the command of torchrun on a node."""
    place = [
        f"--nnodes={len(task['nodes'])}",
        f"--node-rank={task['nodes'].index(node)}",
        f"--rdzv-endpoint={task['nodes'][0]}:{task['port']}",  # ft_launcher 0.4 does not use --master-addr
        "--max-restarts=0",
    ]
    return [*task["torchrun"], *place, *task["arguments"]]


def environment(old: t.Mapping[str, str], directory: str, hosts: t.Sequence[str]) -> dict[str, str]:
    """Return the variables of torchrun and its ranks."""
    new = {**old, hook.DIRECTORY: directory}
    new["PYTHONPATH"] = ":".join(filter(None, (directory, old.get("PYTHONPATH"))))
    # Gloo otherwise tells the others the address of the own name, which can be 127.0.1.1.
    if "GLOO_SOCKET_IFNAME" not in old and (found := network.interface(hosts)):
        new["GLOO_SOCKET_IFNAME"] = found
    return new


def failed(text: str, code: int, pids: t.Container[int] = ()) -> dict[str, t.Any]:
    """
    Return the status and the local rank that failed first, and the cause that the program wrote.

    Of ranks that ended between two looks, torchrun takes the one with the lowest number. O(pids) are the ranks that
    are known: a program can write such lines about others.
    """
    own = "\n".join(line for line in text.splitlines() if not _TORCHRUN.search(line))
    cause = output.cause(own)
    found = [one.groupdict() for kind in _FAILED for one in kind.finditer(text)] if code else []
    ended = [{key: int(value) for key, value in one.items()} for one in found]
    if ended := [one for one in ended if one["pid"] in pids] or ended:
        return {"cause": cause, **min(ended, key=lambda one: judge.weight(one["status"]))}
    return {"status": code, "local": None, "pid": None, "cause": cause or output.cause(text)}


def descendants(parent: int) -> list[int]:
    """Return all processes below one."""
    children = collections.defaultdict(list)
    for name in os.listdir("/proc"):  # noqa: PTH208
        if name.isdigit() and (words := _stat(int(name))):
            children[int(words[1])].append(int(name))
    found, waiting = list[int](), [parent]
    while waiting:
        below = children[waiting.pop()]
        found += below
        waiting += below
    return found


def _stat(pid: int) -> list[str]:
    """Return the state of a process and what follows it in /proc/PID/stat; nothing if it is gone."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
        return file.read().rpartition(") ")[2].split()
    return []


def _moved(pid: int) -> int:
    """Return the bytes that a process has read and written, in MiB."""
    with contextlib.suppress(OSError, ValueError), open(f"/proc/{pid}/io", encoding="ascii") as file:  # noqa: PTH123
        return sum(int(line.split(":")[1]) for line in file if line.startswith(("rchar", "wchar"))) >> 20
    return 0


class Agent:
    """torchrun on this node."""

    def __init__(self, task: t.Mapping[str, t.Any], node: str) -> None:
        self.task, self.node = task, node
        self.directory = tempfile.mkdtemp(prefix="gpucluster-torchrun-")
        self.lock = threading.Lock()
        self.tail: collections.deque[str] = collections.deque(maxlen=_TAIL)
        self.words: collections.deque[str] = collections.deque()
        self.seen: dict[int, tuple[t.Any, float]] = {}
        self.signal = 0

    def run(self) -> int:
        """Start torchrun, report until it ends, and return its status."""
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
        with open(os.path.join(self.directory, "sitecustomize.py"), "wb") as file:  # noqa: PTH118, PTH123
            file.write(pkgutil.get_data(__package__, "hook.py") or b"")
        for number in _FORWARDED:
            signal.signal(number, self._signalled)
        # Slurm sends it to each process of the step, and torchrun would end before the ranks have a checkpoint.
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        child = subprocess.Popen(
            command(self.task, self.node),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(os.environ, self.directory, self.task["nodes"][:2]),
            start_new_session=True,
        )
        signal.signal(signal.SIGUSR1, self._signalled)
        pumps = [threading.Thread(target=self._pump, args=(child.stdout, 1), daemon=True)]
        pumps.append(threading.Thread(target=self._pump, args=(child.stderr, 2), daemon=True))
        for thread in (*pumps, threading.Thread(target=self._listen, daemon=True)):
            thread.start()
        self.report("start", pid=child.pid)
        try:
            return self._watch(child, pumps)
        finally:
            self.clear()
            shutil.rmtree(self.directory, ignore_errors=True)

    def _watch(self, child: subprocess.Popen[bytes], pumps: t.Iterable[threading.Thread]) -> int:
        while child.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(_BEAT)
            while self.words:
                word = self.words.popleft()
                if word == STOP:
                    return 0
                self._obey(word)
            self.report("beat", ranks=self.ranks())
        ended = time.time()
        self.clear()
        for thread in pumps:
            thread.join(2)
        code = child.returncode
        ranks = self.ranks()
        first = failed("\n".join(self.tail), code, {rank["pid"] for rank in ranks})
        self.report("end", ranks=ranks, time=ended, signal=self.signal, **first)
        return code

    def _signalled(self, number: int, _frame: t.Any) -> None:
        self.signal = number
        self.words.append(f"signal {number}")

    def _obey(self, word: str) -> None:
        """Send a signal to the ranks, or report their stacks."""
        pids = [rank["pid"] for rank in self.ranks()]
        if word.startswith("signal "):
            self.signal = int(word.split()[-1])
            _send(pids, self.signal)
        elif word == STACKS:
            _send([rank["pid"] for rank in self.ranks() if rank["count"]], hook.STACKS)
            # Text of a stopped rank never comes, so this waits no longer for one than for all.
            time.sleep(_STACK_SECONDS)  # a process writes its stacks at once, unless it is stopped
            self.report("stacks", text=self.stacks())

    def stacks(self) -> str:
        """Return the stacks of the ranks, and the state of each process as Linux names it."""
        parts = []
        for rank in self.ranks():
            place = os.path.join(self.directory, f"rank-{rank['local']}.stacks")  # noqa: PTH118
            text = ""
            with contextlib.suppress(OSError), open(place, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
                text = file.read()
            parts.append(f"rank {rank['rank']} on {self.node}, process {rank['pid']}, state {rank['state']}:\n{text}")
        return "\n".join(parts)

    def ranks(self) -> list[dict[str, t.Any]]:
        """Return the progress of each rank that has imported PyTorch, and for how many seconds it has made none."""
        found = []
        for name in sorted(os.listdir(self.directory)):  # noqa: PTH208
            local = name.rpartition("-")[2]
            if not local.isdigit():
                continue
            with contextlib.suppress(OSError, ValueError), open(f"{self.directory}/{name}", encoding="ascii") as file:  # noqa: PTH123
                rank = {**json.loads(file.read()), "local": int(local)}
                rank["state"] = (_stat(rank["pid"]) or [""])[0]
                sign = (rank["count"], rank["passes"], _moved(rank["pid"]))
                if self.seen.get(rank["local"], (None, 0))[0] != sign:
                    self.seen[rank["local"]] = (sign, time.monotonic())
                found.append({**rank, "idle": round(time.monotonic() - self.seen[rank["local"]][1], 1)})
        return found

    def report(self, kind: str, **values: t.Any) -> None:
        """Write one line to the launcher."""
        text = json.dumps({"kind": kind, "node": self.node, "step": os.environ.get("SLURM_STEP_ID"), **values})
        self._write(1, f"{MARK}{text}\n".encode())

    def _write(self, stream: int, data: bytes) -> None:
        with self.lock, contextlib.suppress(OSError):
            while data:
                data = data[os.write(stream, data) :]

    def _pump(self, source: t.IO[bytes], stream: int) -> None:
        """Pass output on as it comes, and keep the last lines of it."""
        rest = ""
        while data := os.read(source.fileno(), 1 << 16):
            self._write(stream, data)
            *lines, rest = (rest + data.decode("utf-8", "replace")).split("\n")
            self.tail += lines
        self.tail.append(rest)

    def _listen(self) -> None:
        """Take words of the launcher; its end is the end of this."""
        for line in sys.stdin:
            self.words.append(line.strip())
        self.words.append(STOP)

    def clear(self) -> None:
        """Kill what is left, also what the ranks have started."""
        end = time.monotonic() + _KILL_SECONDS
        while (left := descendants(os.getpid())) and time.monotonic() < end:
            _send(left, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            time.sleep(0.05)


def _send(pids: t.Iterable[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def main(argument: str) -> int:
    """Run torchrun on this node; the argument is JSON."""
    task = json.loads(argument)
    node = os.environ.get("SLURMD_NODENAME") or os.uname().nodename.partition(".")[0]
    return Agent(task, node).run()
