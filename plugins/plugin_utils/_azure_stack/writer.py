# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Write resources of Azure Resource Manager, and wait for the operations that Azure continues by itself."""

from __future__ import annotations

import time
import typing as t
from urllib.parse import urlsplit

from ansible_collections.hpcai.gpucluster.plugins.module_utils._azure_machine.reasons import causes
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure import pipeline
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.errors import (
    BrokenAnswerError,
    NoAnswerError,
    RequestError,
    SlowError,
    ThrottledError,
)

if t.TYPE_CHECKING:
    from collections.abc import Callable

    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.client import Answer, Client
    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.deadline import Deadline

    Body = dict[str, t.Any]

FAILED = ("failed", "canceled")
_DONE = ("succeeded", *FAILED)
_PAUSE = 5.0  # seconds between polls if Azure names no pause
_LONGEST = 60.0
_LOST = (404, 408, 410, 500, 502, 503, 504)


class OperationFailedError(RequestError):
    """Azure accepted a request, and the operation failed later."""


class Writer:
    """Writes resources; a path begins with /subscriptions, a version is the api-version of its resource type."""

    def __init__(
        self,
        client: Client,
        deadline: Deadline,
        sleep: Callable[[float], None] = time.sleep,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        """Use a client; the deadline limits all operations together, tell receives one line per long wait."""
        self._client = client
        self._deadline = deadline
        self._sleep = sleep
        self._tell = tell or (lambda _text: None)

    def get(self, path: str, version: str, **query: str) -> Body | None:
        """Return a resource, or None if it does not exist."""
        try:
            return self._client.get(path, {"api-version": version, **query})
        except RequestError as exc:
            if exc.status != 404:
                raise
            return None

    def rows(self, path: str, version: str, **query: str) -> list[Body]:
        """Return all rows of a list."""
        return [row for page in self._client.pages(path, {"api-version": version, **query}) for row in page]

    def put(self, path: str, version: str, body: t.Any) -> Body:
        """Create or replace a resource, and return it when Azure is done."""
        return self._write("PUT", path, version, body)

    def patch(self, path: str, version: str, body: t.Any) -> Body:
        """Change a resource, and return it when Azure is done."""
        return self._write("PATCH", path, version, body)

    def post(self, path: str, version: str, body: t.Any = None, **query: str) -> Body:
        """Start an action, such as .../delete of a scale set, and return its result when Azure is done."""
        answer = self._send("POST", path, version, body, query)
        address = self._poll_address(answer)
        if not address:
            return answer.body
        return self._operation(f"POST {path}", answer, address, self._lost_action)

    def delete(self, path: str, version: str, **query: str) -> bool:
        """Delete a resource, wait until it is gone, and return whether it existed."""
        try:
            answer = self._send("DELETE", path, version, None, query)
        except RequestError as exc:
            if exc.status != 404:
                raise
            return False
        address = self._poll_address(answer)
        if answer.status == 202 or address:
            self._operation(f"DELETE {path}", answer, address, lambda what, _exc: self._gone(what, path, version))
        return answer.status != 204

    def settled(self, path: str, version: str, what: str = "") -> Body | None:
        """Wait until nobody changes a resource any more; return it, or None if it is gone."""
        return self._follow(what or f"GET {path}", path, version)

    def _write(self, method: str, path: str, version: str, body: t.Any) -> Body:
        answer = self._send(method, path, version, body, {})
        address = self._poll_address(answer)
        what = f"{method} {path}"
        if address:
            self._operation(what, answer, address, lambda _what, _exc: {})
        elif answer.body and state(answer.body) in _DONE:
            return self._checked(what, answer.body)
        resource = self._follow(what, path, version, answer if not address else None)
        if resource is None:
            raise OperationFailedError(404, "ResourceGone", "it vanished while Azure made it", "", what)
        return self._checked(what, resource)

    def _checked(self, what: str, resource: Body) -> Body:
        """Return a resource that is done; raise its error if it failed."""
        if state(resource) in FAILED:
            raise _failed(what, resource.get("properties") or {}, state(resource), self._client.redact)
        return resource

    def _send(self, method: str, path: str, version: str, body: t.Any, query: t.Mapping[str, str]) -> Answer:
        url = self._client.url(path, {"api-version": version, **query})
        return self._client.exchange(method, url, body)

    def _follow(self, what: str, path: str, version: str, last: Answer | None = None) -> Body | None:
        """Read a resource until its state is final."""
        headers = last.headers if last else {}
        while True:
            if last is not None:
                self._wait(what, headers)
            last = self._resource(path, version)
            if last is None or state(last.body) in _DONE:
                return last.body if last else None
            headers = last.headers

    def _resource(self, path: str, version: str) -> Answer | None:
        try:
            answer = self._client.exchange("GET", self._client.url(path, {"api-version": version}))
        except RequestError as exc:
            if exc.status != 404:
                raise
            return None
        if not answer.body:
            return answer._replace(body=self.get(path, version) or {})
        return answer

    def _gone(self, what: str, path: str, version: str) -> Body:
        """Wait until a resource is gone; the state Failed ends the wait."""
        rest = self._until_gone(what, path, version)
        if rest:
            raise _failed(what, rest.get("properties") or {}, state(rest), self._client.redact)
        return {}

    def _until_gone(self, what: str, path: str, version: str) -> Body | None:
        while True:
            answer = self._resource(path, version)
            if answer is None or state(answer.body) in FAILED:
                return answer.body if answer else None
            self._wait(what, answer.headers)

    def _operation(self, what: str, answer: Answer, address: str, lost: Callable[[str, RequestError], Body]) -> Body:
        """Poll until the operation ends, and return its result; lost answers for an operation that cannot be polled."""
        while True:
            self._wait(what, answer.headers)
            try:
                if not address:
                    raise BrokenAnswerError(answer.status, "NoAddress", "the answer names no operation", "", what)
                answer = self._client.exchange("GET", address)
            except RequestError as exc:
                if not _is_lost(exc):
                    raise _as_failure(what, exc) from None
                return lost(what, exc)
            status = _status_of(answer)
            if status in FAILED:
                raise _failed(what, answer.body, status, self._client.redact)
            if status == "succeeded":
                return answer.body
            address = self._poll_address(answer) or address

    def _lost_action(self, what: str, exc: RequestError) -> Body:
        raise NoAnswerError(f"{what}: Azure accepted the request, and its progress cannot be read: {exc}", exc.status)

    def _poll_address(self, answer: Answer) -> str:
        """Return where to ask for the progress, or an empty string; never a foreign host, which would get the token."""
        address = _header(answer, "Azure-AsyncOperation") or (
            _header(answer, "Location") if answer.status in (201, 202) else ""
        )
        return address if self._is_ours(address) else ""

    def _is_ours(self, address: str) -> bool:
        here, there = urlsplit(self._client.endpoint), urlsplit(address)
        host, home = there.netloc.lower(), here.netloc.lower()
        return there.scheme == here.scheme and (host == home or host.endswith(f".{home}"))

    def _wait(self, what: str, headers: t.Mapping[str, str]) -> None:
        """Wait as long as Azure asks, and never beyond the deadline."""
        asked = pipeline.seconds_to_wait(headers)
        pause = min(_PAUSE if asked is None else asked, _LONGEST)
        if pause > self._deadline.left():
            raise SlowError(
                f"{what}: Azure has not finished after {self._deadline.seconds:.0f} s and continues; "
                "run again to wait for the rest, or set a larger timeout"
            )
        self._tell(what)
        self._sleep(pause)


def state(resource: t.Mapping[str, t.Any]) -> str:
    """Return the provisioning state of a resource in lower case; one without a state is done."""
    properties = resource.get("properties")
    found = properties.get("provisioningState") if isinstance(properties, dict) else None
    return str(found or "succeeded").lower()


def _status_of(answer: Answer) -> str:
    """Return the state of an operation: the field status of its answer, else whether Azure still answers 202."""
    status = answer.body.get("status")
    if isinstance(status, str) and status:
        return status.lower()
    return "running" if answer.status == 202 else "succeeded"


def _header(answer: Answer, name: str) -> str:
    found = (value for key, value in answer.headers.items() if key.lower() == name.lower())
    return str(next(found, ""))


def _is_lost(exc: RequestError) -> bool:
    """Return whether an error says nothing about the operation itself."""
    if isinstance(exc, ThrottledError):
        return False
    if isinstance(exc, (NoAnswerError, BrokenAnswerError)):
        return True
    return exc.status in _LOST and exc.code != "ResourceGroupNotFound"


def _as_failure(what: str, exc: RequestError) -> RequestError:
    """Return the error of an operation whose poll was refused; only a refusal of the caller stays as it is."""
    if exc.is_refusal() or isinstance(exc, NoAnswerError):
        return exc
    return OperationFailedError(exc.status, exc.code, exc.message, exc.request_id, what, causes=exc.causes)


def _failed(what: str, body: t.Mapping[str, t.Any], status: str, redact: Callable[[str], str]) -> OperationFailedError:
    """Return the error of an operation that ended badly."""
    found = causes(body.get("error"), redact)
    code = found[0].code if found else status.capitalize()
    message = found[0].message if found else f"the operation ended with the state {status} and no explanation"
    return OperationFailedError(200, code, message, "", what, causes=found)
