"""The metadata service of one machine: scheduled events, tags, and a token of its identity."""

from __future__ import annotations

import json
import typing as t

Item = dict[str, t.Any]
Answer = tuple[int, dict[str, str], bytes]


class Imds:
    """Answers below /metadata for one machine: C(machine) with name and tags, C(events) as documented."""

    def __init__(self, spec: Item, new_token: t.Callable[[], str]) -> None:
        self.machine: Item = {"name": "control", "tagsList": [], **spec.get("machine", {})}
        self.events: list[Item] = list(spec.get("events", []))
        self.incarnation = 1
        self.started: list[str] = []
        self._new_token = new_token

    def change(self, events: list[Item]) -> None:
        """Replace the events."""
        self.events = events
        self.incarnation += 1

    def answer(self, method: str, path: str, query: dict[str, str], marked: bool, body: bytes) -> Answer | None:
        """Return the answer; marked says whether the header Metadata: true is there, without which IMDS refuses."""
        if path not in ("/metadata/scheduledevents", "/metadata/instance", "/metadata/identity/oauth2/token"):
            return None
        if not marked or "api-version" not in query:
            return _json({"error": "Bad request. Required metadata header not specified"}, 400)
        if path == "/metadata/identity/oauth2/token":
            return _json(
                {
                    "access_token": self._new_token(),
                    "client_id": query.get("client_id", "identity"),
                    "expires_in": "86399",
                    "expires_on": "9999999999",
                    "resource": query.get("resource", ""),
                    "token_type": "Bearer",
                }
            )
        if path == "/metadata/instance":
            return _json({"compute": self.machine, "network": {"interface": []}})
        return self._scheduled(method, body)

    def _scheduled(self, method: str, body: bytes) -> Answer:
        if method == "POST":
            wanted = [one["EventId"] for one in json.loads(body)["StartRequests"]]
            known = {one["EventId"] for one in self.events}
            if not set(wanted) <= known:
                return _json({"error": "Bad request. EventId was not found"}, 400)
            self.started += wanted
            for one in self.events:
                if one["EventId"] in wanted:
                    one["EventStatus"] = "Started"
            self.incarnation += 1
            return 200, {}, b""
        return _json({"DocumentIncarnation": self.incarnation, "Events": self.events})


def _json(answer: t.Any, status: int = 200) -> Answer:
    return status, {}, json.dumps(answer).encode()
