# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Start and deallocate machines in Azure by their ids, with the managed identity of this machine."""

from __future__ import annotations

import http.client
import json
import re
import time
import typing as t
import urllib.error
import urllib.parse
import urllib.request

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import whole_answer

if t.TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    # Sends a request (method, URL, headers) and returns status, headers and body; raises OSError without an answer.
    Transport = Callable[[str, str, Mapping[str, str]], "tuple[int, Mapping[str, str], bytes]"]

_SECONDS, _MOST = 30.0, 1 << 20  # for one answer
_TRIES = 4
_LONGEST_WAIT = 60.0  # seconds that a request waits before it is tried again
_POLL = 5.0
_COMPUTE = "2024-07-01"
# What to do, by a word of Azure's code or message in lower case.
_ADVICE = {
    "allocationfailed": "Azure has no free machine of this size now; try later or reserve capacity",
    "overconstrained": "no place fits all constraints of this machine",
    "quota": "ask for more quota of this family in this region",
    "authorizationfailed": "the identity of the controller may not do this; run azure_up.yml",
    "resourcenotfound": "the machine is gone; run site.yml with the present inventory",
}


class ElasticError(Exception):
    """Something cannot be done now. The message contains the reason."""


class Client:
    """Requests for machines. Each ends in bounded time with an answer or with ElasticError."""

    def __init__(
        self,
        manager: str,
        metadata: str,
        client_id: str,
        send: Transport | None = None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """Take the addresses of Resource Manager and of the metadata service; O(send) and O(pause) are injected."""
        self._manager, self._metadata, self._client_id = manager, metadata, client_id
        self._send = send or transport
        self._pause = pause
        self._token = ""

    def runs(self, machine: str) -> bool | None:
        """Return whether a machine runs or starts, C(False) if it is deallocated or is being so, else C(None)."""
        found = self._body(self._asked("GET", self._url(f"{machine}/instanceView"))[2])
        codes = [str(one.get("code", "")).lower() for one in found.get("statuses") or [] if isinstance(one, dict)]
        power = next((code.partition("/")[2] for code in codes if code.startswith("powerstate/")), "")
        return {"running": True, "starting": True, "deallocated": False, "deallocating": False}.get(power)

    def act(self, word: str, machine: str) -> str:
        """Request C(start) or C(deallocate), and return the address of the operation, or nothing."""
        _status, headers, _content = self._asked("POST", self._url(f"{machine}/{word}"))
        found = headers.get("azure-asyncoperation") or headers.get("location") or ""
        return found if found.startswith(f"{self._manager}/") else ""  # the token goes nowhere else

    def ended(self, operation: str) -> str | None:
        """Return C(None) while an operation runs, an empty text after its success, else Azure's reason."""
        status, _headers, content = self._asked("GET", operation)
        found = self._body(content)
        word = str(found.get("status") or ("inprogress" if status == 202 else "succeeded")).lower()
        if word in ("failed", "canceled"):
            return reason(found) or word
        return "" if word == "succeeded" else None

    def follow(self, operations: Mapping[str, str], seconds: float) -> dict[str, str]:
        """Wait for operations by node, and return the reason of each that failed. One that runs on is none."""
        left, failed = dict(operations), {}
        for _turn in range(int(seconds / _POLL)):
            for node, operation in list(left.items()):
                found = self._tried(operation)
                if found is not None:
                    del left[node]
                    failed.update({node: found} if found else {})
            if not left:
                break
            self._pause(_POLL)
        return failed

    def _tried(self, operation: str) -> str | None:
        try:
            return self.ended(operation)
        except ElasticError as exc:
            return str(exc)

    def _url(self, path: str) -> str:
        return f"{self._manager}{path}?api-version={_COMPUTE}"

    def _asked(self, method: str, url: str) -> tuple[int, Mapping[str, str], bytes]:
        """Ask again when Azure is busy or does not answer, and once with a new token when it has expired."""
        what, renewed = f"{method} {urllib.parse.urlsplit(url).path}", False
        for turn in range(_TRIES):
            self._token = self._token or self._sign_in()
            try:
                status, headers, content = self._send(method, url, {"Authorization": f"Bearer {self._token}"})
            except (OSError, ValueError, http.client.HTTPException) as exc:
                status, headers, content = 0, {}, str(exc or type(exc).__name__).encode()
            if 200 <= status < 300:
                return status, headers, content
            told = reason(_json(content)) or _plain(content.decode("utf-8", "replace"))
            text = f"{what}: {status or 'no answer'}: {told}"
            if status == 401 and not renewed:
                self._token, renewed = "", True
            elif status and status not in (408, 409, 429) and status < 500:
                break
            elif turn + 1 < _TRIES:
                self._pause(_wait(headers, turn))
        raise ElasticError(text)

    def _sign_in(self) -> str:
        query = {"api-version": "2018-02-01", "resource": f"{self._manager}/"}
        query.update({"client_id": self._client_id} if self._client_id else {})
        url = f"{self._metadata}/metadata/identity/oauth2/token?{urllib.parse.urlencode(query)}"
        for turn in range(_TRIES):
            try:
                status, headers, content = self._send("GET", url, {"Metadata": "true"})
            except (OSError, ValueError, http.client.HTTPException) as exc:
                status, headers, content = 0, {}, str(exc).encode()
            token = self._body(content).get("access_token") if status == 200 else ""
            if token:
                return str(token)
            if status in (400, 403, 404):
                break
            self._pause(_wait(headers, turn))
        told = reason(_json(content)) or "does this machine have a managed identity?"
        raise ElasticError(f"the metadata service returned no token ({status or 'no answer'}): {told}")

    @staticmethod
    def _body(content: bytes) -> dict[str, t.Any]:
        found = _json(content) if content.strip() else {}
        if not isinstance(found, dict):
            raise ElasticError("Azure's answer is no mapping")
        return found


def reason(found: t.Any) -> str:
    """Return Azure's innermost code and message in one line, with what to do."""
    one = found
    told: dict[str, t.Any] = {}
    for _depth in range(9):
        if not isinstance(one, dict):
            break
        told = one if one.get("code") or one.get("error_description") else told
        details = one.get("details")
        one = one.get("error") or (details[0] if isinstance(details, list) and details else one.get("innererror"))
    if not told:
        return ""
    text = _plain(f"{told.get('code') or told.get('error')}: {told.get('message') or told.get('error_description')}")
    advice = next((more for word, more in _ADVICE.items() if word in text.lower()), "")
    return f"{text.rstrip('. ')}; {advice}" if advice else text


def _wait(headers: Mapping[str, str], turn: int) -> float:
    after = headers.get("retry-after", "")
    return min(float(after) if after.isdecimal() else 2.0**turn, _LONGEST_WAIT)


def _plain(text: str) -> str:
    return re.sub(r"[^ -~]+", " ", " ".join(text.split()))[:300]


def _json(content: bytes) -> t.Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A token must not follow a redirect."""

    def redirect_request(self, *_args: t.Any, **_more: t.Any) -> None:
        """Follow no redirect."""


def transport(method: str, url: str, headers: Mapping[str, str]) -> tuple[int, Mapping[str, str], bytes]:
    """Send one request; the metadata service is never behind a proxy."""
    proxies = [urllib.request.ProxyHandler({})] if url.startswith("http://") else []
    opener = urllib.request.build_opener(_NoRedirect(), *proxies)
    request = urllib.request.Request(  # noqa: S310
        url, data=b"" if method == "POST" else None, method=method, headers=dict(headers)
    )
    end = time.monotonic() + _SECONDS
    try:
        answer = opener.open(request, timeout=_SECONDS)
    except urllib.error.HTTPError as exc:
        answer = exc
    with answer:
        given = {str(name).lower(): str(value) for name, value in answer.headers.items()}
        return int(answer.status), given, whole_answer.read(answer, _MOST, end)
