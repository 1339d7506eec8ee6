# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Ask the metadata service of the machine, in bounded time."""

from __future__ import annotations

import http.client
import json
import time
import typing as t
import urllib.parse

from ansible_collections.hpcai.gpucluster.plugins.module_utils._azure_machine.reasons import causes, explained, opened
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import whole_answer

from .events import EventsError, time_of

API_VERSION = "2020-07-01"
# The first request of a machine switches the events on, which takes up to two minutes.
FIRST_SECONDS = 150.0
SECONDS = 10.0
_MOST = 1024 * 1024
_EVENTS = f"/metadata/scheduledevents?api-version={API_VERSION}"
_NAME = "/metadata/instance?api-version=2021-02-01"
_REFUSALS = {
    400: "the request was refused",
    404: "this machine has no such service",
    410: "the service is being updated",
    429: "there were too many requests",
}


class Metadata:
    """The metadata service. It is never behind a proxy, and http.client knows none."""

    def __init__(self, address: str, clock: t.Callable[[], float] = time.monotonic) -> None:
        """Take an address such as C(http://169.254.169.254)."""
        place = urllib.parse.urlsplit(address)
        self._host, self._port = place.hostname or "", place.port
        self._clock = clock
        self._known = False
        self._now: float | None = None

    def now(self) -> float:
        """Return the time of Azure's last answer, or of this machine if that had none: its clock may be wrong."""
        return time.time() if self._now is None else self._now

    def machine(self) -> str:
        """Return the name of the virtual machine in Azure."""
        found = self._json("GET", _NAME, SECONDS)
        compute = found.get("compute") if isinstance(found, dict) else None
        name = compute.get("name") if isinstance(compute, dict) else None
        if not name:
            raise EventsError("the metadata service returned no name of this machine")
        return str(name)

    def events(self) -> t.Any:
        """Return the document of the events."""
        found = self._json("GET", _EVENTS, SECONDS if self._known else FIRST_SECONDS)
        self._known = True
        return found

    def start(self, ids: t.Sequence[str]) -> None:
        """Acknowledge events, so that Azure begins them."""
        body = json.dumps({"StartRequests": [{"EventId": one} for one in ids]}).encode()
        self._send("POST", _EVENTS, SECONDS, body)

    def _json(self, method: str, path: str, seconds: float) -> t.Any:
        content = self._send(method, path, seconds)
        try:
            return json.loads(content)
        except ValueError:
            raise EventsError(f"the metadata service returned no JSON: {content[:80]!r}") from None

    def _send(self, method: str, path: str, seconds: float, body: bytes | None = None) -> bytes:
        connection = http.client.HTTPConnection(self._host, self._port, timeout=seconds)
        end = self._clock() + seconds
        try:
            connection.request(method, path, body, {"Metadata": "true", "Connection": "close"})
            answer = connection.getresponse()
            self._now = time_of(answer.headers.get("Date"))
            content = whole_answer.read(answer, _MOST, end, self._clock)
        except (OSError, ValueError, http.client.HTTPException) as exc:
            raise EventsError(f"the metadata service does not answer: {exc or type(exc).__name__}") from None
        finally:
            connection.close()
        if answer.status != 200:
            known, told = _REFUSALS.get(answer.status, ""), explained(causes(opened(content)))
            said = ": ".join(filter(None, (known, told))) or content[:200].decode("utf-8", "replace")
            raise EventsError(f"the metadata service answered {answer.status}: {said}")
        return content
