# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Define the errors of a request, and remove secrets from error messages."""

from __future__ import annotations

import re
import threading
import typing as t
from urllib.parse import quote

from ansible_collections.hpcai.gpucluster.plugins.module_utils._azure_machine.reasons import Cause, explained
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.settings import AzureInventoryError

_HIDDEN = "(hidden)"
# Strings that look like a token from any source: the scheme of the header, and the start of every JSON web token.
_PATTERNS = (
    re.compile(r"(?i)(bearer[\s\"':=]+)[\w.~+/=-]{8,}"),
    re.compile(r"()eyJ[\w-]{8,}(?:\.[\w-]*)*"),
    re.compile(r"(?i)((?:client_secret|client_assertion|access_token|password)[\"']?\s*[=:]\s*[\"']?)[^\s\"'&,;]+"),
)


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

    def explained(self) -> str:
        """Return the causes in one line with what to do, the request ID at the end."""
        suffix = f" (request id {self.request_id})" if self.request_id else ""
        return explained(self.causes) + suffix


class BrokenAnswerError(RequestError):
    """The answer is truncated, not JSON, or not of the documented form."""

    def explained(self) -> str:
        """Return the message: there are no causes."""
        return str(self)


class NoAnswerError(RequestError):
    """There is no answer: Azure is unreachable, requests too long a pause, or is too slow."""

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(status, type(self).__name__, text, text=text)

    def explained(self) -> str:
        """Return the message: there are no causes."""
        return str(self)


class ThrottledError(NoAnswerError):
    """Azure requests a longer pause than allowed."""


class SlowError(NoAnswerError):
    """An answer did not arrive within its share of the deadline."""


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
