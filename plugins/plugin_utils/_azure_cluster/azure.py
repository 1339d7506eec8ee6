# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""The few things that we ask of Azure's SDK, each with a time limit, and its errors in our words."""

from __future__ import annotations

import time
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.sign_in import AzureError

if t.TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_NEWS = 30.0  # seconds between two lines about a wait
# What a person can do about an error that Azure explains badly, by its code in lower case.
_ADVICE = {
    "authorizationfailed": "the identity needs Contributor on the subscription, and User Access Administrator",
    "quotaexceeded": "ask Azure for a larger quota, or lower count",
    "operationnotallowed": "if this is a quota, ask Azure for a larger one, or lower count",
    "skunotavailable": "choose another location or VM size",
    "allocationfailed": "Azure has no free machines of this size here now; run again later",
    "overconstrainedallocationrequest": "Azure has no free machines of this size here now; run again later",
    "deploymentstackinnonterminalstate": "another run changes the stack; run again when it has ended",
    "deploymentactive": "another deployment is active; run again when it has ended",
    "requestdisallowedbypolicy": "a policy of the subscription forbids it; ask its owner for an exemption",
    "roledefinitiondoesnotexist": "the new role is not known everywhere yet; run again in a minute",
    "missingsubscriptionregistration": "run 'az provider register --namespace NAME'",
}


class Clients(t.NamedTuple):
    """The operations of the SDK that are used: tests give their own."""

    stacks: t.Any  # DeploymentStacksOperations
    what_ifs: t.Any  # DeploymentStacksWhatIfResultsAtSubscriptionOperations
    machines: t.Any  # VirtualMachinesOperations


class Limits(t.NamedTuple):
    """The end of the task, and who is told of long waits."""

    seconds: float
    tell: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic


class Azure:
    """Asks Azure until the end of the task."""

    def __init__(self, clients: Clients, limits: Limits) -> None:
        """Start the time of the task."""
        self.clients = clients
        self._limits = limits
        self._end = limits.clock() + limits.seconds

    def ask(self, what: str, request: Callable[[], t.Any]) -> t.Any:
        """Return the answer to a request, or None if what it names does not exist."""
        from azure.core.exceptions import AzureError as SdkError
        from azure.core.exceptions import HttpResponseError

        try:
            return request()
        except HttpResponseError as exc:
            if exc.status_code == 404 and _code(exc).lower() not in ("subscriptionnotfound", "invalidresourcetype"):
                return None
            raise AzureError(f"{what}: {explained(exc)}") from exc
        except SdkError as exc:  # no answer at all
            raise AzureError(f"{what}: {exc}") from exc

    def finish(self, what: str, begin: Callable[[], t.Any]) -> t.Any:
        """Begin a long operation and wait for its end. Azure goes on after the time limit, and the next run waits."""
        poller = self.ask(what, begin)
        if poller is None:
            raise AzureError(f"{what}: Azure found nothing at this address")
        self.ask(what, lambda: self._wait(what, poller))
        return self.ask(what, poller.result)

    def _wait(self, what: str, poller: t.Any) -> None:
        while not poller.done():
            left = self._end - self._limits.clock()
            if left <= 0:
                raise AzureError(
                    f"{what}: not finished after {self._limits.seconds:.0f} s. Azure continues; run again later,"
                    " or set a larger timeout"
                )
            poller.wait(min(_NEWS, left))
            if not poller.done():
                self._limits.tell(f"{what}: Azure is still at work")

    def machines(self, group: str) -> dict[str, Mapping[str, t.Any]] | None:
        """Return all machines of a resource group by name, or None if there is no such group."""
        rows = self.ask(f"machines of {group}", lambda: [plain(row) for row in self.clients.machines.list(group)])
        return None if rows is None else {str(row["name"]): row for row in rows}

    def has_machine(self, group: str, name: str) -> bool:
        """Return whether a machine exists, by a question about it alone: a list can lag."""
        return self.ask(f"machine {name}", lambda: self.clients.machines.get(group, name)) is not None


def plain(row: t.Any) -> t.Any:
    """Return a model of the SDK as a mapping with the names of the REST API."""
    return row.as_dict() if hasattr(row, "as_dict") else row


def _code(exc: t.Any) -> str:
    return str(getattr(getattr(exc, "error", None), "code", "") or "")


def explained(exc: t.Any) -> str:
    """Return the causes of an error of Azure, innermost last, with advice; a wrapper's text says nothing itself."""
    causes = list(dict.fromkeys(_causes(getattr(exc, "error", None)))) or [str(getattr(exc, "message", exc))]
    advice = [text for code, text in _ADVICE.items() if any(cause.lower().startswith(f"{code}:") for cause in causes)]
    return "; ".join([*causes, *dict.fromkeys(advice)])


def _causes(error: t.Any) -> Iterator[str]:
    """Yield code and message of an error and of its details, which are models or mappings."""
    if error is None:
        return
    get = error.get if isinstance(error, dict) else lambda name: getattr(error, name, None)
    if get("code") or get("message"):
        yield f"{get('code') or 'error'}: {get('message') or 'no explanation'}"
    for detail in get("details") or ():
        yield from _causes(detail)


def failures(error: Mapping[str, t.Any] | None) -> str:
    """Return the causes in an answer that carries an error."""
    return "; ".join(dict.fromkeys(_causes(dict(error)))) if error else ""
