# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Operations of Azure's SDK in memory, for what writes. An answer that is an exception is raised."""

from __future__ import annotations

import typing as t

from azure.core.exceptions import HttpResponseError, ODataV4Format

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_cluster import azure


def error(status: int, code: str, message: str = "no", details: t.Sequence[dict[str, t.Any]] = ()) -> HttpResponseError:
    """Return the error that the SDK raises for an answer with this body."""
    found = HttpResponseError(message)
    found.status_code = status
    found.error = ODataV4Format({"code": code, "message": message, "details": list(details)})
    return found


class Poller:
    """A long operation; I(waits) is how often somebody must wait for it."""

    def __init__(self, answer: t.Any, waits: int = 0) -> None:
        self._answer = answer
        self._waits = waits

    def done(self) -> bool:
        return self._waits <= 0

    def wait(self, _seconds: float) -> None:
        self._waits -= 1

    def result(self) -> t.Any:
        return answered(self._answer)


def answered(value: t.Any) -> t.Any:
    if isinstance(value, BaseException):
        raise value
    return value


class Operations:
    """One kind of operations: answers by the name of the method, and a list of what was asked."""

    def __init__(self, calls: list[tuple[str, t.Any]], **answers: t.Any) -> None:
        self.answers = answers
        self._calls = calls

    def __getattr__(self, name: str) -> t.Callable[..., t.Any]:
        def method(*given: t.Any, **_more: t.Any) -> t.Any:
            self._calls.append((name, given))
            answer = self.answers.get(name)
            answer = answer(*given) if callable(answer) and not isinstance(answer, BaseException) else answer
            if isinstance(answer, Poller) or not name.startswith("begin_"):
                return answered(answer)
            return Poller(answer)

        return method


class Clients:
    """All operations, and the writes among what was asked."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, t.Any]] = []
        self.stacks, self.what_ifs, self.machines = (Operations(self.calls) for _one in range(3))
        self.told: list[str] = []
        self.now = 0.0

    def asks(self, seconds: float = 100) -> azure.Azure:
        """Return what asks these operations; each look at the clock takes ten seconds."""

        def clock() -> float:
            self.now += 10
            return self.now

        clients = azure.Clients(self.stacks, self.what_ifs, self.machines)
        return azure.Azure(clients, azure.Limits(seconds, self.told.append, clock))

    def writes(self) -> list[str]:
        """Return the requests that change something beside an answer of what-if."""
        names = ("begin_create_or_update_at_subscription", "begin_delete_at_subscription", "begin_delete")
        return [name for name, _given in self.calls if name in names]
