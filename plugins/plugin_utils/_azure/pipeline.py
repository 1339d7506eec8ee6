# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Build the pipeline of azure-core with the waiting rules of Resource Manager and Resource Graph."""

from __future__ import annotations

import email.utils
import random
import threading
import time
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.deadline import Deadline
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.errors import ThrottledError
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.settings import AzureInventoryError

if t.TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.settings import Settings

_QUOTA_LEFT = "x-ms-user-quota-remaining"
_QUOTA_RESET = "x-ms-user-quota-resets-after"


class Gate:
    """A time before which no thread sends a request: a pause for one thread applies to all threads."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._open_at = 0.0
        self._counted = 0.0
        self.waited = 0.0  # seconds in which a thread waited

    def pause(self, seconds: float) -> None:
        """Stop all requests for this number of seconds."""
        with self._lock:
            self._open_at = max(self._open_at, self._clock() + seconds)

    def wait(self) -> None:
        """Return when a request is allowed."""
        while True:
            with self._lock:
                now = self._clock()
                left = self._open_at - now
                self.waited += max(0.0, self._open_at - max(now, self._counted))
                self._counted = max(self._counted, self._open_at)
            if left <= 0:
                return
            self._sleep(left)


def seconds_to_wait(headers: Mapping[str, str]) -> float | None:
    """Return the pause that an answer requests: Retry-After in seconds or as a date, or the reset time of the quota."""
    wait = headers.get("Retry-After")
    if wait:
        try:
            return max(0.0, float(wait))
        except ValueError:
            return _until(wait, headers.get("Date"))
    return quota_reset(headers)


def quota_reset(headers: Mapping[str, str]) -> float | None:
    """Return the seconds until Resource Graph resets the quota; the header has the form hh:mm:ss."""
    parts = (headers.get(_QUOTA_RESET) or "").split(":")
    try:
        hours, minutes, seconds = (float(part) for part in parts)
    except ValueError:
        return None
    return max(0.0, hours * 3600 + minutes * 60 + seconds)


def quota_is_used_up(headers: Mapping[str, str]) -> bool:
    """Return whether Resource Graph would refuse the next query."""
    return (headers.get(_QUOTA_LEFT) or "").strip() == "0"


def _until(date: str, now: str | None) -> float | None:
    """Return the seconds until a date by the clock of the server, so that a wrong local clock does no harm."""
    try:
        end = email.utils.parsedate_to_datetime(date).timestamp()
        start = email.utils.parsedate_to_datetime(now).timestamp() if now else time.time()
    except (TypeError, ValueError):
        return None
    return max(0.0, end - start)


def backoff(attempt: int) -> float:
    """Return a pause that doubles with every attempt, up to 30 s, and differs between threads."""
    return float(min(30.0, 0.5 * 2**attempt) * random.uniform(0.75, 1.25))  # noqa: S311 - jitter, not cryptography


class Counter:
    """The number of requests that were sent, including retries."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.value = 0

    def add(self) -> None:
        """Count one request."""
        with self._lock:
            self.value += 1


class Waiting:
    """The pauses between attempts, and their reasons."""

    def __init__(
        self,
        gate: Gate,
        limit: float,
        sleep: Callable[[float], None] = time.sleep,
        deadline: Deadline | None = None,
    ) -> None:
        """Share a gate; the limit in seconds applies to one request."""
        self.gate = gate
        self._limit = limit
        self._sleep = sleep
        self._deadline = deadline or Deadline(float("inf"))

    def after_failure(self, history: dict[str, t.Any], response: t.Any) -> None:
        """Wait for the requested or an increasing time; azure-core's history of the request contains the sum."""
        asked = seconds_to_wait(response.headers) if response is not None else None
        wait = backoff(len(history["history"]) - 1) if asked is None else asked + 0.25 * random.random()  # noqa: S311
        history["waited"] = history.get("waited", 0.0) + wait
        self._check(wait, history, response)
        if response is not None and response.status_code == 429:
            self.gate.pause(wait)
            self.gate.wait()
        else:
            self._sleep(wait)

    def _check(self, wait: float, history: dict[str, t.Any], response: t.Any) -> None:
        """Raise an error before a pause that would exceed a limit, not after it."""
        status, waited = response.status_code if response is not None else 0, history["waited"]
        error = getattr(history["history"][-1], "error", None) if history["history"] else None
        why = (
            f"Azure answered {status} and asks to wait {wait:.0f} s"
            if status
            else f"there is no answer ({type(error).__name__}), the next try is in {wait:.0f} s"
        )
        if waited > self._limit:
            raise ThrottledError(f"{why}, {waited:.0f} s in all; max_wait allows {self._limit:.0f} s", status)
        if wait > self._deadline.left():
            raise ThrottledError(
                f"{why}, and {self._deadline.left():.0f} s are left of the deadline of {self._deadline.seconds:.0f} s",
                status,
            )

    def after_success(self, response: t.Any) -> None:
        """Close the gate until the reset of the quota, if this answer used the last of it."""
        if response.status_code == 200 and quota_is_used_up(response.headers):
            self.gate.pause(min(quota_reset(response.headers) or 1.0, self._limit))


def build(credential: t.Any, scope: str, settings: Settings, verify: bool, counter: Counter, waiting: Waiting) -> t.Any:
    """
    Return a pipeline: identify, retry, sign, log without secrets, send.

    It has no redirect policy, because a token must not follow a redirect.
    """
    try:
        from azure.core.pipeline import Pipeline
        from azure.core.pipeline import policies as p
        from azure.core.pipeline.transport import RequestsTransport
    except ImportError as exc:
        raise AzureInventoryError(
            "the Python package azure-core is missing on this machine; install it: pip install azure-core"
        ) from exc

    class Retry(p.RetryPolicy):  # type: ignore[type-arg]
        """The rules of azure-core for what to retry, with our rules for when."""

        def sleep(self, settings: dict[str, t.Any], _transport: t.Any, response: t.Any = None) -> None:
            """Wait for the requested or an increasing time, within the limit."""
            waiting.after_failure(settings, response.http_response if response is not None else None)

    class Watch(p.SansIOHTTPPolicy):  # type: ignore[type-arg]
        """Count requests and stop before a quota is used up."""

        def on_request(self, request: t.Any) -> None:
            """Wait for the gate, then count."""
            if request.http_request.method == "POST":
                waiting.gate.wait()
            counter.add()

        def on_response(self, _request: t.Any, response: t.Any) -> None:
            """Close the gate when the quota is used up."""
            waiting.after_success(response.http_response)

    retries = {f"retry_{kind}": settings.retries for kind in ("total", "connect", "read", "status")}
    return Pipeline(
        transport=RequestsTransport(
            connection_timeout=settings.timeout, read_timeout=settings.timeout, connection_verify=verify
        ),
        policies=[
            p.RequestIdPolicy(),
            p.HeadersPolicy({"Accept": "application/json"}),
            p.UserAgentPolicy("hpcai-gpucluster"),
            p.ProxyPolicy(),
            Retry(**retries),
            p.BearerTokenCredentialPolicy(credential, scope),
            Watch(),
            p.HttpLoggingPolicy(),
        ],
    )
