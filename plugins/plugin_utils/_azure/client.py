# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Send requests to Azure Resource Manager through azure-core, check the answers, and keep secrets out of messages."""

from __future__ import annotations

import json
import re
import threading
import time
import typing as t
from urllib.parse import quote, urlencode, urlsplit

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.sign_in import AzureError

if t.TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.sign_in import Cloud

    Answer = tuple[int, Mapping[str, str], bytes]

_ATTEMPTS = 3  # for an answer that cannot be read
# Strings that look like a token from any source: the scheme of the header, and the start of every JSON web token.
_TOKENS = (
    re.compile(r"(?i)(bearer[\s\"':=]+)[\w.~+/=-]{8,}"),
    re.compile(r"()eyJ[\w-]{8,}(?:\.[\w-]*)*"),
    re.compile(r"(?i)((?:client_secret|client_assertion|access_token|password)[\"']?\s*[=:]\s*[\"']?)[^\s\"'&,;]+"),
)


class RequestError(AzureError):
    """Azure refused a request, or its answer cannot be used; status is 0 without an answer."""

    def __init__(self, text: str, status: int = 0) -> None:
        self.status = status
        super().__init__(text)


class Redactor:
    """Removes known secrets, and all strings that look like a token, from messages."""

    def __init__(self) -> None:
        self._secrets: tuple[str, ...] = ()

    def add(self, secret: str) -> None:
        """Add a secret in the forms that a proxy may show."""
        if len(secret) >= 4 and secret not in self._secrets:
            self._secrets = tuple(sorted({*self._secrets, secret, quote(secret, safe="")}, key=len, reverse=True))

    def __call__(self, text: str) -> str:
        """Return the string without secrets."""
        for secret in self._secrets:
            text = text.replace(secret, "(hidden)")
        for pattern in _TOKENS:
            text = pattern.sub(lambda match: match[1] + "(hidden)", text)
        return text


class Sender:
    """Sends requests through the pipeline of azure-core; a renewed pipeline has a new token."""

    def __init__(
        self, cloud: Cloud, credential: Callable[[], t.Any], redact: Redactor, limits: Mapping[str, t.Any]
    ) -> None:
        """Accept the limits timeout, retries and deadline, in seconds; the deadline counts from now."""
        self._cloud, self._credential, self._redact, self._limits = cloud, credential, redact, limits
        self._end = time.monotonic() + limits["deadline"]
        self._lock = threading.Lock()
        self._pipeline: t.Any = None
        self._known: t.Any = None
        self.requests = 0
        self.trouble = ""

    def left(self) -> float:
        """Return the seconds that are left of the deadline."""
        return float(max(0.0, self._end - time.monotonic()))

    def renew(self, used: t.Any) -> t.Any:
        """Return another pipeline than the used one, with a new token."""
        with self._lock:
            if self._pipeline is used:
                self._pipeline = self._build()
            return self._pipeline

    def sign_in(self) -> None:
        """Get the token before several threads need it."""
        try:
            self.renew(None)
            self._known.get_token(self._cloud.scope)
        except Exception as exc:
            raise AzureError(f"signing in to Azure failed: {self._plain(exc)}") from None

    def __call__(self, url: str) -> Answer:
        """Return status, headers and body; a token that was refused is renewed once."""
        used = self._pipeline or self.renew(None)
        answer = self._run(used, url)
        return self._run(self.renew(used), url) if answer[0] == 401 else answer

    def _run(self, pipeline: t.Any, url: str) -> Answer:
        from azure.core.exceptions import AzureError as SdkError
        from azure.core.exceptions import ClientAuthenticationError
        from azure.core.rest import HttpRequest

        try:
            response = pipeline.run(HttpRequest("GET", url), timeout=self.left()).http_response
            return response.status_code, response.headers, response.read()
        except ClientAuthenticationError as exc:
            raise AzureError(f"signing in to Azure failed: {self._plain(exc)}") from None
        except SdkError as exc:
            raise RequestError(f"GET {urlsplit(url).path}: Azure cannot be reached: {self._plain(exc)}") from None

    def _plain(self, error: Exception) -> str:
        return self._redact(" ".join(str(error).split()))[:600]

    def _build(self) -> t.Any:
        """Return a pipeline without a redirect policy, because a token must not follow a redirect."""
        from azure.core.pipeline import Pipeline, policies
        from azure.core.pipeline.transport import RequestsTransport

        retries, wait = self._limits["retries"], self._limits["timeout"]
        self._known = _Known(self._credential(), self._redact)
        return Pipeline(
            RequestsTransport(connection_timeout=wait, read_timeout=wait),
            [
                policies.UserAgentPolicy("hpcai-gpucluster"),
                policies.ProxyPolicy(),
                policies.RetryPolicy(**{f"retry_{kind}": retries for kind in ("total", "connect", "read", "status")}),
                policies.BearerTokenCredentialPolicy(self._known, self._cloud.scope),
                policies.CustomHookPolicy(raw_response_hook=self._watch),
            ],
        )

    def _watch(self, response: t.Any) -> None:
        """Count a request, and remember why Azure delays it."""
        self.requests += 1
        status = response.http_response.status_code
        if status == 429 or status >= 500:
            wait = response.http_response.headers.get("Retry-After")
            asked = f" and asks to wait {wait} s" if wait else ""
            self.trouble = f"{urlsplit(response.http_request.url).path} answered {status}{asked}"


class _Known:
    """A credential whose tokens are redacted."""

    def __init__(self, credential: t.Any, redact: Redactor) -> None:
        self._real, self._redact = credential, redact

    def get_token(self, *scopes: str, **kwargs: t.Any) -> t.Any:
        """Return an access token in the form of azure-core."""
        token = self._real.get_token(*scopes, **kwargs)
        self._redact.add(str(token.token))
        return token


class Client:
    """Reads the pages of lists; every invalid answer is an error that describes it."""

    def __init__(self, send: Callable[[str], Answer], endpoint: str, redact: Redactor | None = None) -> None:
        self._send, self._endpoint, self._redact = send, endpoint.rstrip("/"), redact or Redactor()

    def pages(self, path: str, query: Mapping[str, str]) -> Iterator[list[t.Any]]:
        """Yield the pages of a list; a next link must not leave this host or return to an earlier page."""
        url, seen = f"{self._endpoint}{path}?{urlencode(query, safe='$')}", set()
        while url:
            if url in seen:
                raise RequestError(f"the next link of {path} leads back to a page already read", 200)
            seen.add(url)
            answer = self._page(url)
            yield answer["value"]
            url = self._next(path, answer.get("nextLink"))

    def _next(self, path: str, link: t.Any) -> str:
        there, home = urlsplit(str(link or "")), urlsplit(self._endpoint)
        if link and (there.scheme, there.netloc.removesuffix(":443")) != (home.scheme, home.netloc):
            raise RequestError(
                f"the next page of {path} is at {there.scheme}://{there.netloc}, which is not asked", 200
            )
        return str(link or "")

    def _page(self, url: str) -> dict[str, t.Any]:
        """Return an answer with a list; one that cannot be read is requested again, at most three times."""
        where, text = f"GET {urlsplit(url).path}", ""
        for attempt in range(_ATTEMPTS):
            status, headers, content = self._send(url)
            answer = _opened(content)
            if status >= 300:
                raise RequestError(self._refused(status, headers, answer, where), status)
            if isinstance(answer, dict) and isinstance(answer.get("value"), list):
                return answer
            kind = (headers.get("Content-Type") or "no content type").split(";")[0]
            text = f"{where}: the answer is not a list in JSON ({kind}, {len(content)} bytes)"
            time.sleep(0.2 * attempt)
        raise RequestError(text, 200)

    def _refused(self, status: int, headers: Mapping[str, str], answer: t.Any, where: str) -> str:
        """Return the code and message of an answer; compute's 429 has them at the top level, all others below error."""
        answer = answer if isinstance(answer, dict) else {}
        error = answer["error"] if isinstance(answer.get("error"), dict) else answer
        said = f"{error.get('code') or 'Error'}: {error.get('message') or 'no explanation'}"
        request = headers.get("x-ms-request-id")
        suffix = f" (request id {request})" if request else ""
        return self._redact(f"{where} answered {status} {' '.join(said.split())[:600]}{suffix}")


def _opened(content: bytes) -> t.Any:
    try:
        return json.loads(content)
    except ValueError:
        return None
