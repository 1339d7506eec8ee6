"""Run a command, kill it and all below it (SIGKILL) as soon as it says a text. Usage: kill_at.py TEXT COMMAND..."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path


def descendants(root: int) -> list[int]:
    """Return the processes below one; Ansible's workers have sessions of their own."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(path.parent.name))
    found = [root]
    for parent in found:
        found += children.get(parent, [])
    return found


def main() -> int:
    """Start, read, kill."""
    text, command = sys.argv[1], sys.argv[2:]
    said = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        for line in process.stdout or []:
            said.append(line)
            if text in line:
                for pid in descendants(process.pid):
                    os.kill(pid, signal.SIGKILL)
                print(f"killed at: {line}", end="")
                return 0
    print("".join(said[-40:]), f"{text!r} was not reached", sep="\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
