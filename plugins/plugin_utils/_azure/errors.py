# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""What can go wrong with one request, and how an error text is kept free of secrets."""

from __future__ import annotations

import re
import threading
import typing as t
from urllib.parse import quote

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.settings import AzureInventoryError

_HIDDEN = "(hidden)"
# What looks like a token, whoever made it: the scheme of the header, and the beginning of every JSON web token.
_PATTERNS = (
    re.compile(r"(?i)(bearer[\s\"':=]+)[\w.~+/=-]{8,}"),
    re.compile(r"()eyJ[\w-]{8,}(?:\.[\w-]*)*"),
    re.compile(r"(?i)((?:client_secret|client_assertion|access_token|password)[\"']?\s*[=:]\s*[\"']?)[^\s\"'&,;]+"),
)


class RequestError(AzureInventoryError):
    """Azure refused a request, or its answer cannot be used."""

    def __init__(
        self, status: int, code: str, message: str, request_id: str = "", where: str = "", text: str = ""
    ) -> None:
        """Take what the answer says; text is the whole text where there is no answer."""
        self.status = status
        self.code = code
        self.message = message
        suffix = f" (request id {request_id})" if request_id else ""
        super().__init__(text or f"{where or 'Azure'} answered {status} {code}: {message}{suffix}")

    def is_refusal(self) -> bool:
        """Return whether the caller lacks a right."""
        return self.status in (401, 403)


class BrokenAnswerError(RequestError):
    """The answer is cut, not JSON, or not of the form that is documented."""


class NoAnswerError(RequestError):
    """There is no answer: Azure cannot be reached, asks for too long a pause, or is too slow."""

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(status, type(self).__name__, text, text=text)


class ThrottledError(NoAnswerError):
    """Azure asks for a longer pause than is allowed."""


class SlowError(NoAnswerError):
    """An answer did not come within its part of the deadline."""


class Redactor:
    """Takes secrets out of texts that a person will see: those that it was told, and all that looks like a token."""

    def __init__(self, *secrets: str) -> None:
        self._secrets: set[str] = set()
        self._lock = threading.Lock()
        for secret in secrets:
            self.add(secret)

    def add(self, secret: str) -> None:
        """Remember a secret in the forms in which a proxy may show it."""
        if len(secret) >= 4:
            with self._lock:
                self._secrets |= {secret, quote(secret, safe="")}

    def __call__(self, text: str) -> str:
        """Return the text without secrets."""
        with self._lock:
            known = sorted(self._secrets, key=len, reverse=True)
        for secret in known:
            text = text.replace(secret, _HIDDEN)
        for pattern in _PATTERNS:
            text = pattern.sub(lambda match: match[1] + _HIDDEN, text)
        return text


def plain(text: t.Any, redact: t.Callable[[str], str], limit: int) -> str:
    """Return a text from outside in one line, without secrets; a secret is hidden before the text is cut."""
    return redact(" ".join(str(text).split()))[:limit]
