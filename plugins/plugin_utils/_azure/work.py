# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Run the requests in parallel, each with its share of the deadline; every failure is an error or a gap."""

from __future__ import annotations

import concurrent.futures
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.deadline import Deadline, Open, Pool
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.errors import RequestError, SlowError

if t.TYPE_CHECKING:
    from collections.abc import Callable, Iterable

# Answers of a cloud that lacks this list, or for a caller that lacks the permission.
NOT_HERE = (403, 404, 405, 501)

# Shares of the deadline. Resource Graph leaves time for the lists, and optional data leaves time for the rest.
GRAPH = 0.5
OPTIONAL = 0.85


class Rows(t.NamedTuple):
    """The rows of an answer."""

    machines: list[dict[str, t.Any]]
    nics: list[dict[str, t.Any]]
    addresses: list[dict[str, t.Any]]
    scale_sets: list[dict[str, t.Any]]


class Task(t.NamedTuple):
    """A request in progress, and its name in messages."""

    what: str
    future: concurrent.futures.Future[t.Any]


class Work:
    """The threads, and their gaps."""

    def __init__(self, deadline: Deadline, workers: int, under_way: Open | None = None) -> None:
        self.gaps: list[str] = []
        self.notes: list[str] = []
        self.deadline = deadline
        self._workers = workers
        self._open = under_way or Open()
        self._pool = Pool(workers)

    def start(self, what: str, function: Callable[..., t.Any], *args: t.Any) -> Task:
        """Start a request."""
        return Task(what, self._pool.submit(function, *args))

    def result(self, task: Task, share: float = 1.0) -> t.Any:
        """Return the answer; raise an error if there is none within a share of the deadline."""
        try:
            return task.future.result(timeout=self.deadline.left(share))
        except (concurrent.futures.TimeoutError, TimeoutError):
            if task.future.done() and not task.future.cancelled():
                raise
        slow = self._open.slowest(task.what)
        limit = f"deadline is {self.deadline.seconds:.0f} s"
        if share < 1:
            limit = f"{share * self.deadline.seconds:.0f} s of it are for this, {limit}"
        raise SlowError(f"{slow} ({limit})")

    def optional(self, task: Task) -> t.Any:
        """Return the answer, or None and a gap; the hosts are known without it."""
        try:
            return self.result(task, OPTIONAL)
        except RequestError as exc:
            if exc.status == 401:
                raise
            self.gaps.append(f"{task.what}: {exc}")
            return None

    def root(self, task: Task) -> t.Any:
        """Return a list of machines; a gap if it is refused, an error if it fails, because hosts would be missing."""
        try:
            return self.result(task)
        except RequestError as exc:
            if exc.status not in NOT_HERE:
                raise
            self.gaps.append(f"{task.what}: {exc}")
            return None

    def renew(self) -> None:
        """Abandon threads that hang."""
        self._pool.close()
        self._pool = Pool(self._workers)

    def close(self) -> None:
        """Start no more requests."""
        self._pool.close()


def flat(parts: Iterable[Iterable[t.Any]]) -> list[t.Any]:
    """Return the rows of several answers."""
    return [row for one in parts for row in one]
