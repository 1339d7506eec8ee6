# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Send requests to Azure Resource Manager and check the answers."""

from __future__ import annotations

import time
import typing as t
from urllib.parse import urlencode, urlsplit

from ansible_collections.hpcai.gpucluster.plugins.module_utils._azure_machine.reasons import (
    Cause,
    causes,
    opened,
    plain,
)
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure import pipeline
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.errors import (
    BrokenAnswerError,
    NoAnswerError,
    Redactor,
    RequestError,
    ThrottledError,
)
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.settings import (
    CLOUDS,
    AzureInventoryError,
    Cloud,
    ConfigError,
)

if t.TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.deadline import Deadline, Open
    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.settings import Settings

    Send = Callable[[str, str, t.Any], tuple[int, t.Mapping[str, str], bytes]]
    # Returns the body of an answer, or None if it cannot be used. Arguments: decoded body, whether it is empty, whether
    # it is the last attempt.
    Read = Callable[[t.Any, bool, bool], "dict[str, t.Any] | None"]

_ATTEMPTS = 3  # for an answer that cannot be read
_RETRIED = ["GET", "PUT", "PATCH", "POST", "DELETE"]  # a second write has the same effect as the first


class Answer(t.NamedTuple):
    """A successful answer; the body is empty if the answer has none, or none that can be read."""

    status: int
    headers: t.Mapping[str, str]
    body: dict[str, t.Any]


class Client:
    """Sends and returns JSON, and reads pages; every invalid answer raises an exception that describes it."""

    def __init__(
        self,
        send: Send,
        endpoint: str,
        renew: Callable[[], None] | None = None,
        redact: Callable[[str], str] | None = None,
    ) -> None:
        self._send = send
        self._renew = renew or (lambda: None)
        self.redact = redact or Redactor()
        self.endpoint = endpoint.rstrip("/")

    def get(self, path: str, query: t.Mapping[str, str]) -> dict[str, t.Any]:
        """Return the answer to a GET below the endpoint."""
        return self._json("GET", self.url(path, query), None)

    def post(self, path: str, query: t.Mapping[str, str], body: t.Any) -> dict[str, t.Any]:
        """Return the answer to a POST below the endpoint."""
        return self._json("POST", self.url(path, query), body)

    def exchange(self, method: str, url: str, body: t.Any = None) -> Answer:
        """Return the answer to any request with its headers; url is complete, as from C(url)."""

        def read(answer: t.Any, empty: bool, _last: bool) -> dict[str, t.Any] | None:
            if isinstance(answer, dict):
                return answer
            # Only the answer to a GET must have a body that can be read.
            return {} if empty or method != "GET" else None

        return self._repeated(method, url, body, read, wants=None)

    def pages(self, path: str, query: t.Mapping[str, str]) -> Iterator[list[dict[str, t.Any]]]:
        """Yield the pages of a list; a next link must not leave this host or return to an earlier page."""
        url = self.url(path, query)
        seen = set()
        while url:
            if url in seen:
                raise BrokenAnswerError(
                    200, "RepeatedPage", f"the next link of {path} leads back to a page already read"
                )
            seen.add(url)
            answer = self._json("GET", url, None, wants="value", linked=len(seen) > 1)
            yield answer["value"]
            url = self._next(path, answer.get("nextLink"))

    def url(self, path: str, query: t.Mapping[str, str]) -> str:
        """Return the address of a path below the endpoint."""
        return f"{self.endpoint}{path}?{urlencode(query, safe='$')}"

    def _next(self, path: str, link: t.Any) -> str:
        if not link:
            return ""
        there = urlsplit(str(link))
        home = "/".join(path.lower().split("/")[:3])
        if _origin(self.endpoint) != _origin(str(link)) or not there.path.lower().startswith(home):
            raise BrokenAnswerError(
                200,
                "ForeignNextLink",
                f"the next page of {path} is at {there.scheme}://{there.netloc}, which is not asked",
            )
        return str(link)

    def _json(
        self, method: str, url: str, body: t.Any, wants: str | None = None, linked: bool = False
    ) -> dict[str, t.Any]:
        def read(answer: t.Any, _empty: bool, last: bool) -> dict[str, t.Any] | None:
            if not isinstance(answer, dict) or (wants and answer.get("error")):
                return None
            rows = answer.get(wants) if wants else []
            if not isinstance(rows, list):
                return None
            # An invalid row, or the rows of an empty last page, may be in the next answer; otherwise the reader of the
            # list reports it.
            doubted = wants and linked and not rows and not answer.get("nextLink")
            return answer if last or (not doubted and all(isinstance(row, dict) for row in rows)) else None

        return self._repeated(method, url, body, read, wants).body

    def _repeated(self, method: str, url: str, body: t.Any, read: Read, wants: str | None) -> Answer:
        """Send a request until its answer can be read, at most three times; renew a token that was refused once."""
        where = f"{method} {urlsplit(url).path}"
        for attempt in range(_ATTEMPTS):
            status, headers, content = self._send(method, url, body)
            if status == 401 and attempt == 0:
                self._renew()
                continue
            if status >= 300:
                raise _refused(status, headers, content, where, self.redact)
            answer = opened(content)
            last = attempt == _ATTEMPTS - 1
            found = read(answer, not content.strip(), last)
            if found is not None:
                return Answer(status, headers, found)
            if not last:
                time.sleep(0.2 * (attempt + 1))
        if wants and isinstance(answer, dict) and answer.get("error"):
            raise _refused(status, headers, content, where, self.redact)
        raise _broken(status, headers, content, where, wants)


def _origin(url: str) -> tuple[str, str | None, int | None]:
    """Return scheme, host in lower case and port; 443 is the port of https."""
    parts = urlsplit(url)
    try:
        return parts.scheme, parts.hostname, parts.port or {"https": 443}.get(parts.scheme)
    except ValueError:
        return parts.scheme, None, None


def _broken(
    status: int, headers: t.Mapping[str, str], content: bytes, where: str, wants: str | None
) -> BrokenAnswerError:
    """Return the error of an answer that is not JSON, or that has no list with the name in wants."""
    kind = (headers.get("Content-Type") or "no content type").split(";")[0]
    if isinstance(opened(content), dict):
        missing = f"has no list {wants!r}"
    else:
        missing = f"is not JSON ({kind}, {len(content)} bytes)"
    return BrokenAnswerError(status, "BrokenAnswer", f"the answer {missing}", _request_id(headers), where)


def _refused(
    status: int, headers: t.Mapping[str, str], content: bytes, where: str, redact: Callable[[str], str]
) -> RequestError:
    """Return the error of an answer; compute's 429 has its code at the top level, all others below C(error)."""
    found = causes(opened(content), redact) or [Cause("Error", "no explanation")]
    return RequestError(status, found[0].code, found[0].message, _request_id(headers), where, causes=found)


def _request_id(headers: t.Mapping[str, str]) -> str:
    return headers.get("x-ms-correlation-request-id") or headers.get("x-ms-request-id") or ""


class Sender:
    """Sends requests through azure-core; made once per run."""

    def __init__(
        self,
        credential: t.Any,
        cloud: Cloud,
        settings: Settings,
        deadline: Deadline,
        under_way: Open,
        redact: Callable[[str], str],
        verify: bool = True,
    ) -> None:
        self._credential = credential
        self._cloud = cloud
        self._scope = f"{cloud.resource_manager}/.default"
        self._open = under_way
        self._redact = redact
        self.counter = pipeline.Counter()
        self.gate = pipeline.Gate()
        waiting = pipeline.Waiting(self.gate, settings.max_wait, deadline=deadline)
        self._pipeline = pipeline.build(credential, self._scope, settings, verify, self.counter, waiting)

    def sign_in(self) -> None:
        """Open the transport and get the token before several threads need both."""
        with _ReadableErrors(self._redact), self._open.during(f"the sign-in at {self._cloud.authority}"):
            self._pipeline.__enter__()
            self._credential.get_token(self._scope)

    def close(self) -> None:
        """Close the connections."""
        self._pipeline.__exit__()

    def renew(self) -> None:
        """Discard a token that was refused."""
        self._credential.renew(None)

    def __call__(self, method: str, url: str, body: t.Any) -> tuple[int, t.Mapping[str, str], bytes]:
        """Send one request, with retries, and return status, headers and body."""
        return self._send(method, url, body)

    def once(self, method: str, url: str, body: t.Any) -> tuple[int, t.Mapping[str, str], bytes]:
        """Send a request that only saves time, with at most one retry."""
        return self._send(method, url, body, retry_total=1)

    def _send(self, method: str, url: str, body: t.Any, **more: t.Any) -> tuple[int, t.Mapping[str, str], bytes]:
        from azure.core.rest import HttpRequest

        where = f"{method} {urlsplit(url).path}"
        with _ReadableErrors(self._redact, where), self._open.during(where):
            request = HttpRequest(method, url, json=body) if body is not None else HttpRequest(method, url)
            response = self._pipeline.run(request, retry_on_methods=_RETRIED, **more).http_response
            return response.status_code, response.headers, response.read()


class _ReadableErrors:
    """Convert exceptions of azure-core and azure-identity to one line without the request."""

    def __init__(self, redact: Callable[[str], str], where: str = "") -> None:
        self._redact = redact
        self._where = where

    def __enter__(self) -> None:
        """Prepare nothing."""

    def __exit__(self, kind: type | None, error: BaseException | None, trace: t.Any) -> None:
        """Replace the exception and remove its cause, which contains the request."""
        if isinstance(error, ThrottledError):
            raise ThrottledError(f"{self._where}: {error}", error.status) from None
        if error is None or isinstance(error, AzureInventoryError):
            return
        names = [cls.__name__ for cls in type(error).__mro__]
        text = plain(error, self._redact, 600)
        if "ClientAuthenticationError" in names:
            raise AzureInventoryError(f"signing in to Azure failed: {text}") from None
        if "AzureError" in names:
            raise NoAnswerError(f"{self._where or 'the sign-in'}: Azure cannot be reached: {text}") from None


def find_cloud(name: str, fetch: Callable[[str], t.Any]) -> Cloud:
    """Return a cloud by its name, or read its metadata from the Resource Manager at a URL."""
    known = CLOUDS.get(name.lower())
    if known:
        return known
    if not name.lower().startswith("https://"):
        names = ", ".join(cloud.name for cloud in CLOUDS.values())
        raise ConfigError(f"cloud_environment is {name!r}; allowed: {names}, or the https URL of a Resource Manager")
    answer = fetch(name.rstrip("/"))
    for entry in answer if isinstance(answer, list) else [answer]:
        authentication = entry.get("authentication") if isinstance(entry, dict) else None
        login = (authentication or {}).get("loginEndpoint")
        if login and _same(name, entry.get("resourceManager")):
            return Cloud(name, name.rstrip("/"), str(login).rstrip("/"))
    raise ConfigError(f"cloud_environment {name}: its metadata names no sign-in address for this Resource Manager")


def _same(url: str, other: t.Any) -> bool:
    return not other or urlsplit(url).netloc.lower() == urlsplit(str(other)).netloc.lower()


def fetch_metadata(settings: Settings, verify: bool, under_way: Open) -> Callable[[str], t.Any]:
    """Return a function that reads the public metadata of a Resource Manager, without a token."""

    def fetch(url: str) -> t.Any:
        import requests

        target = f"{url}/metadata/endpoints?api-version={settings.version('metadata')}"
        text = ""
        for attempt in range(settings.retries + 1):
            try:
                with under_way.during(f"GET {target}"):
                    answer = requests.get(target, timeout=settings.timeout, verify=verify, allow_redirects=False)
                    return answer.json()
            except (requests.RequestException, ValueError) as exc:
                text = f"cannot read {target}: {type(exc).__name__}: {str(exc)[:300]}"
            if attempt < settings.retries:
                time.sleep(pipeline.backoff(attempt))
        raise AzureInventoryError(text)

    return fetch
