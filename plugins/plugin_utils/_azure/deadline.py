# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Enforce one deadline with threads that do not block the exit, and find the slow request."""

from __future__ import annotations

import concurrent.futures
import contextlib
import itertools
import queue
import threading
import time
import typing as t

if t.TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Deadline:
    """The deadline of all requests, in seconds from the start."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds
        self._clock = clock
        self._start = clock()

    def left(self, share: float = 1.0) -> float:
        """Return the seconds left of a share of the whole time."""
        return max(0.0, self._start + share * self.seconds - self._clock())


class Open:
    """The requests in progress, so that an error can name the slow one."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._number = itertools.count()
        self._since: dict[int, tuple[float, str]] = {}

    @contextlib.contextmanager
    def during(self, what: str) -> Iterator[None]:
        """Record a request until it ends."""
        number = next(self._number)
        with self._lock:
            self._since[number] = (self._clock(), what)
        try:
            yield
        finally:
            with self._lock:
                del self._since[number]

    def slowest(self, otherwise: str) -> str:
        """Return the request with the longest wait."""
        with self._lock:
            start, what = min(self._since.values(), default=(0.0, ""))
        return (
            f"{what} has had no full answer for {self._clock() - start:.0f} s" if what else f"{otherwise} is not done"
        )


class Pool:
    """
    A few threads that process submitted functions.

    They are daemon threads: a thread that hangs in a read delays neither the exit of Python nor other threads.
    The threads of concurrent.futures would.
    """

    def __init__(self, workers: int) -> None:
        self._workers = max(1, workers)
        self._threads: list[threading.Thread] = []
        self._queue: queue.SimpleQueue[t.Any] = queue.SimpleQueue()

    def submit(self, function: Callable[..., t.Any], *args: t.Any) -> concurrent.futures.Future[t.Any]:
        """Run a function in one of the threads."""
        future: concurrent.futures.Future[t.Any] = concurrent.futures.Future()
        self._queue.put((future, function, args))
        if len(self._threads) < self._workers:
            thread = threading.Thread(target=self._work, name=f"azure-{len(self._threads)}", daemon=True)
            self._threads.append(thread)
            thread.start()
        return future

    def _work(self) -> None:
        while True:
            item = self._queue.get()
            if item is None:
                return
            _run(*item)
            del item  # otherwise the last answer stays in memory as long as the thread

    def close(self) -> None:
        """Accept no more functions, and drop those that have not started."""
        with contextlib.suppress(queue.Empty):
            while True:
                item = self._queue.get_nowait()
                if item is not None:
                    item[0].cancel()
        for _thread in self._threads:
            self._queue.put(None)


def _run(future: concurrent.futures.Future[t.Any], function: Callable[..., t.Any], args: tuple[t.Any, ...]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = function(*args)
    except BaseException as exc:
        future.set_exception(exc)
    else:
        future.set_result(result)
