# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
Clean up when the module receives a signal, or when no process waits for its result.

When the user presses Ctrl-C or the connection breaks, Ansible does not notify the module, and its process continues.
The module can detect that its standard output has no reader, and that a process between it and sshd has ended.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import threading
import typing as t
from pathlib import Path

if t.TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def cleaned_up(cleanup: Callable[[], None], poll: float = 1.0) -> Iterator[None]:
    """Call C(cleanup) and end the process if the module is interrupted inside the block."""
    done = threading.Event()

    def stop(number: int, _frame: object) -> None:
        cleanup()
        raise SystemExit(128 + number)

    def watch(ancestors: list[tuple[int, int]]) -> None:
        while not done.wait(poll):
            if not heard() or lineage() != ancestors:
                cleanup()
                os._exit(1)

    previous = {number: signal.signal(number, stop) for number in SIGNALS}
    watcher = threading.Thread(target=watch, args=(lineage(),), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join(poll + 1)
        for number, handler in previous.items():
            signal.signal(number, handler)


def heard(descriptor: int | None = None) -> bool:
    """Return whether the output still has a reader. A file or a terminal always has one."""
    try:
        poller = select.poll()
        poller.register(sys.stdout.fileno() if descriptor is None else descriptor, 0)
        return not any(event & (select.POLLERR | select.POLLHUP) for _fd, event in poller.poll(0))
    except (OSError, ValueError, AttributeError):
        return True


def lineage(proc: Path = Path("/proc")) -> list[tuple[int, int]]:
    """Return this process and its ancestors, each with its parent. The list changes when one of them ends."""
    found: list[tuple[int, int]] = []
    number = os.getpid()
    while number > 1 and len(found) < 64:
        try:
            stat = (proc / str(number) / "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            break
        parent = int(stat.rpartition(")")[2].split()[1])
        found.append((number, parent))
        number = parent
    return found
