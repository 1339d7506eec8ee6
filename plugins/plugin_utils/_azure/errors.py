# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Define the errors of a request, and remove secrets from error messages."""

from __future__ import annotations

import json
import re
import threading
import typing as t
from urllib.parse import quote

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.settings import AzureInventoryError

_HIDDEN = "(hidden)"
# Strings that look like a token from any source: the scheme of the header, and the start of every JSON web token.
_PATTERNS = (
    re.compile(r"(?i)(bearer[\s\"':=]+)[\w.~+/=-]{8,}"),
    re.compile(r"()eyJ[\w-]{8,}(?:\.[\w-]*)*"),
    re.compile(r"(?i)((?:client_secret|client_assertion|access_token|password)[\"']?\s*[=:]\s*[\"']?)[^\s\"'&,;]+"),
)


class Cause(t.NamedTuple):
    """One reason of a refusal; target is the resource that it is about, or empty."""

    code: str
    message: str
    target: str = ""


class RequestError(AzureInventoryError):
    """Azure refused a request, or its answer cannot be used."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        request_id: str = "",
        where: str = "",
        text: str = "",
        causes: t.Sequence[Cause] = (),
    ) -> None:
        """Accept the fields of the answer; text is the whole message if there is no answer."""
        self.status = status
        self.code = code
        self.message = message
        self.request_id = request_id
        self.causes = tuple(causes) or (Cause(code, message),)
        suffix = f" (request id {request_id})" if request_id else ""
        super().__init__(text or f"{where or 'Azure'} answered {status} {code}: {message}{suffix}")

    def is_refusal(self) -> bool:
        """Return whether the caller lacks a permission."""
        return self.status in (401, 403)


class BrokenAnswerError(RequestError):
    """The answer is truncated, not JSON, or not of the documented form."""


class NoAnswerError(RequestError):
    """There is no answer: Azure is unreachable, requests too long a pause, or is too slow."""

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(status, type(self).__name__, text, text=text)


class ThrottledError(NoAnswerError):
    """Azure requests a longer pause than allowed."""


class SlowError(NoAnswerError):
    """An answer did not arrive within its share of the deadline."""


def causes(error: t.Any, redact: t.Callable[[str], str], depth: int = 8) -> list[Cause]:
    """Return the innermost reasons of an error of Resource Manager, which nests them in details or as JSON in text."""
    if not isinstance(error, dict):
        return []
    details = error.get("details")
    inside = [*(details if isinstance(details, list) else []), _quoted(error.get("message"))]
    found = [cause for one in inside for cause in causes(one, redact, depth - 1)] if depth else []
    if found or not (error.get("code") or error.get("message")):
        return list(dict.fromkeys(found))
    message = plain(error.get("message") or "no explanation", redact, 1000)
    return [
        Cause(plain(error.get("code") or "Error", redact, 100), message, plain(error.get("target") or "", redact, 300))
    ]


def _quoted(message: t.Any) -> t.Any:
    """Return the error that a message quotes as JSON, or None."""
    if not isinstance(message, str) or not message.lstrip().startswith("{"):
        return None
    try:
        answer = json.loads(message)
    except (ValueError, RecursionError):
        return None
    return answer.get("error", answer) if isinstance(answer, dict) else None


class Redactor:
    """Removes known secrets, and all strings that look like a token, from messages."""

    def __init__(self, *secrets: str) -> None:
        self._secrets: set[str] = set()
        self._lock = threading.Lock()
        for secret in secrets:
            self.add(secret)

    def add(self, secret: str) -> None:
        """Add a secret in the forms that a proxy may show."""
        if len(secret) >= 4:
            with self._lock:
                self._secrets |= {secret, quote(secret, safe="")}

    def __call__(self, text: str) -> str:
        """Return the string without secrets."""
        with self._lock:
            known = sorted(self._secrets, key=len, reverse=True)
        for secret in known:
            text = text.replace(secret, _HIDDEN)
        for pattern in _PATTERNS:
            text = pattern.sub(lambda match: match[1] + _HIDDEN, text)
        return text


def plain(text: t.Any, redact: t.Callable[[str], str], limit: int) -> str:
    """Return an external message in one line, without secrets; secrets are removed before it is truncated."""
    return redact(" ".join(str(text).split()))[:limit]
