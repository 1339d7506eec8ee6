# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Send requests to Azure Resource Manager from a machine, with the managed identity of the machine."""

from __future__ import annotations

import contextlib
import email.utils
import http.client
import json
import time
import typing as t
import urllib.error
import urllib.parse
import urllib.request

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import whole_answer

from .reasons import ADVICE, causes, explained, opened

if t.TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .reasons import Cause

    Body = dict[str, t.Any]

_SECONDS = 30  # for each packet
_WHOLE_SECONDS = 120.0
_MOST = 64 * 1024 * 1024
_LIST_SECONDS, _MOST_PAGES = 600.0, 1000
_LONGEST_WAIT = 20.0  # seconds that a request waits once if Azure asks for it
_ROLE = "the identity of the controller lacks this right; azure_up.yml gives it, see docs/azure-cluster.md"
_ADVICE = {**ADVICE, "authorizationfailed": _ROLE, "linkedauthorizationfailed": _ROLE}


class AzureError(Exception):
    """A request failed; the message contains the reason."""


class RefusedError(AzureError):
    """Azure answered with an error: the attributes are its HTTP status and its innermost causes."""

    def __init__(self, text: str, status: int, causes: Sequence[Cause] = ()) -> None:
        super().__init__(text)
        self.status = status
        self.causes = tuple(causes)


class Answer(t.NamedTuple):
    """The body of an answer, the time of the server in seconds since 1970, and the address of a running operation."""

    body: Body
    now: float | None
    operation: str = ""


class Place(t.NamedTuple):
    """The addresses of Resource Manager and of the metadata service, and the identity if the machine has several."""

    resource_manager: str
    metadata: str
    client_id: str


class Client:
    """Requests of one machine. The token is requested once, and again when it has expired."""

    def __init__(
        self,
        place: Place,
        sleep: Callable[[float], None] = time.sleep,
        uptime: Callable[[], float] = time.monotonic,
    ) -> None:
        self._place = place
        self._uptime = uptime
        self._sleep = sleep
        self._token = ""
        # The metadata service is never behind a proxy.
        self._local = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self._remote = urllib.request.build_opener(_NoRedirect())

    def metadata(self, path: str, query: dict[str, str]) -> Body:
        """Return what the metadata service of this machine answers."""
        url = f"{self._place.metadata}{path}?{urllib.parse.urlencode(query)}"
        request = urllib.request.Request(url, headers={"Metadata": "true"})  # noqa: S310
        return self._sent(self._local, request, f"GET {path}").body

    def ask(self, method: str, path: str, query: Mapping[str, str], body: Body | None = None) -> Answer:
        """
        Send a request for a path with its query, or for a complete URL of Azure.

        If Azure is too busy, wait once as long as it asks, at most 20 seconds.
        """
        url = self._url(path, query)
        try:
            return self._asked(method, url, body)
        except _BusyError as exc:
            self._sleep(exc.seconds)
            return self._asked(method, url, body)

    def rows(self, path: str, query: Mapping[str, str]) -> list[Body]:
        """Return all rows of a list. An answer of another form is no empty list."""
        found: list[Body] = []
        following: t.Any = path
        end = self._uptime() + _LIST_SECONDS
        for _page in range(_MOST_PAGES):
            body = self.ask("GET", following, query if following == path else {}).body
            rows, following = body.get("value"), body.get("nextLink")
            if not isinstance(rows, list) or not all(isinstance(one, dict) for one in rows):
                raise AzureError(f"GET {path}: the answer is no list of resources")
            if following and not isinstance(following, str):
                raise AzureError(f"GET {path}: the address of the next page is not understood")
            found += rows
            if not following or self._uptime() > end:
                break
        if following:
            raise AzureError(f"GET {path}: the list does not end: {len(found)} rows until now")
        return found

    def _url(self, path: str, query: Mapping[str, str]) -> str:
        home = self._place.resource_manager
        if path.startswith(f"{home}/"):
            return path
        if not path.startswith("/"):
            raise AzureError(f"Azure names an address that is not below {home}")
        return f"{home}{path}?{urllib.parse.urlencode(query)}"

    def _asked(self, method: str, url: str, body: Body | None) -> Answer:
        if self._token:
            with contextlib.suppress(_ExpiredError):
                return self._tried(method, url, body)
        self._token = self._sign_in()
        return self._tried(method, url, body)

    def _tried(self, method: str, url: str, body: Body | None) -> Answer:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        request = urllib.request.Request(url, data=data, method=method, headers=headers)  # noqa: S310
        return self._sent(self._remote, request, f"{method} {urllib.parse.urlsplit(url).path}")

    def _sign_in(self) -> str:
        query = {"api-version": "2018-02-01", "resource": f"{self._place.resource_manager}/"}
        if self._place.client_id:
            query["client_id"] = self._place.client_id
        token = self.metadata("/metadata/identity/oauth2/token", query).get("access_token")
        if not token:
            raise AzureError("the metadata service returned no token; does this machine have a managed identity?")
        return str(token)

    def _sent(self, opener: urllib.request.OpenerDirector, request: urllib.request.Request, what: str) -> Answer:
        end = self._uptime() + _WHOLE_SECONDS
        try:
            with opener.open(request, timeout=_SECONDS) as answer:
                operation = answer.headers.get("Azure-AsyncOperation") or answer.headers.get("Location") or ""
                content = whole_answer.read(answer, _MOST, end, self._uptime)
                return Answer(_decoded(content), _clock(answer.headers.get("Date")), operation)
        except urllib.error.HTTPError as exc:
            raise self._refusal(exc, what, end) from None
        except (OSError, ValueError, http.client.HTTPException) as exc:
            raise AzureError(f"{what}: no answer: {exc!r}") from None

    def _refusal(self, exc: urllib.error.HTTPError, what: str, end: float) -> RefusedError:
        try:
            found = causes(opened(whole_answer.read(exc, _MOST, end, self._uptime)))
        except (OSError, ValueError, http.client.HTTPException):
            found = []
        text = f"{what}: {exc.code} {explained(found, _ADVICE) or exc.reason}"
        if exc.code == 403 and not any(one.kind in _ADVICE for one in found):
            text += f"; {_ROLE}"
        if exc.code == 401:
            return _ExpiredError(text, exc.code, found)
        if exc.code not in (429, 503):
            return RefusedError(text, exc.code, found)
        busy = _BusyError(text, exc.code, found)
        after = str(exc.headers.get("Retry-After") or "")
        busy.seconds = min(float(after) if after.isdecimal() else 1.0, _LONGEST_WAIT)
        return busy


class _BusyError(RefusedError):
    """Azure asks for a pause of some seconds."""

    seconds = 0.0


class _ExpiredError(RefusedError):
    """Azure does not accept the token, such as after its end."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A token must not follow a redirect."""

    def redirect_request(self, *_args: t.Any, **_more: t.Any) -> None:
        """Follow no redirect."""


def _decoded(content: bytes) -> Body:
    found = json.loads(content) if content.strip() else {}
    if not isinstance(found, dict):
        raise ValueError("the answer is no mapping")
    return found


def _clock(date: str | None) -> float | None:
    try:
        return email.utils.parsedate_to_datetime(date or "").timestamp()
    except (TypeError, ValueError, IndexError):
        return None
