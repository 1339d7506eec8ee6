"""Kill a command and its descendants (SIGKILL) once its output contains TEXT. Usage: kill_at.py TEXT COMMAND..."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

TAIL_LINES = 40


def kill_tree(root: int) -> None:
    """Kill a process and its descendants; stop all of them first, so that none can start another one or end unseen."""
    stopped: set[int] = set()
    while found := set(descendants(root)) - stopped:
        for pid in found:
            send(pid, signal.SIGSTOP)
        stopped |= found
    for pid in stopped:
        send(pid, signal.SIGKILL)


def send(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process, which may have ended since it was listed."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def descendants(root: int) -> list[int]:
    """Return a process and its descendants; Ansible's workers leave the process group."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:  # the process has ended since
            continue
        children.setdefault(int(fields[1]), []).append(int(path.parent.name))
    found = [root]
    for parent in found:
        found += children.get(parent, [])
    return found


def main() -> int:
    """Start the command, read its output, and kill it at the text."""
    text, command = sys.argv[1], sys.argv[2:]
    lines = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        for line in process.stdout or []:
            lines.append(line)
            if text in line:
                kill_tree(process.pid)
                print(f"killed at: {line}", end="")
                return 0
    print("".join(lines[-TAIL_LINES:]), f"{text!r} was not reached", sep="\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
