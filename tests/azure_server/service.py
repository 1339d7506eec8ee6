"""What the stand-in answers: the lists of Resource Manager, without a network."""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
import typing as t
from urllib.parse import parse_qs, quote, urlsplit

from . import fleet

Item = dict[str, t.Any]
Answer = tuple[int, dict[str, str], bytes]

PAGE = 200


class State:
    """
    The subscriptions, the faults to play and what was asked; C(POST /_control) replaces it.

    A fault has C(match) and what the answer is: C(status) with C(headers) and C(body), C(text), C(cut), C(reset),
    C(silence) and C(trickle) in seconds, C(echo) of the headers, C(shift) of the rows of a page, or C(expire) of all
    tokens; C(after) is how many to let pass, and C(times) how many to play.
    """

    def __init__(self, spec: Item) -> None:
        self.lock = threading.Lock()
        self.subscriptions = [fleet.subscription(one) for one in spec.get("subscriptions", [])]
        self.hidden = set(spec.get("hidden", []))
        self.faults: list[Item] = [{"seen": 0, **one} for one in spec.get("faults", [])]
        self.delay = float(spec.get("delay", 0))
        self.log: list[str] = []
        self.tokens: set[str] = set()

    def change(self, delay: float = 0) -> None:
        """Keep the machines; begin a new log."""
        self.delay = delay
        self.log.clear()

    def visible(self) -> list[fleet.Subscription]:
        """Return the subscriptions that the caller may see."""
        return [one for one in self.subscriptions if one.id not in self.hidden]

    def play(self, asked: str) -> Item:
        """Note a request, wait as the network would, and return the fault to play, if any."""
        with self.lock:
            self.log.append(asked)
        time.sleep(self.delay)  # work: of the benchmarks
        with self.lock:
            for one in self.faults:
                if re.search(one["match"], asked):
                    one["seen"] += 1
                    if 0 < one["seen"] - one.get("after", 0) <= one.get("times", 10**9):
                        return one
        return {}

    def answer(self, method: str, target: str, here: str, token: str, shift: int = 0) -> Answer:
        """Return the answer to a request; here is the server's own address."""
        url = urlsplit(target)
        if "/oauth2/" in url.path or "/.well-known/" in url.path:
            return self._open(url, here)
        if token not in self.tokens:
            mark = {"WWW-Authenticate": "Bearer"}
            return _error(401, "InvalidAuthenticationToken", "The access token is invalid.", mark)
        if method != "GET":
            return _error(405, "MethodNotAllowed", "Only lists are here.")
        return _arm(self, url, here, shift)

    def _open(self, url: t.Any, here: str) -> Answer:
        """Answer the sign-in, which needs no token."""
        base = f"{here}/{url.path.split('/')[1]}"
        if "/.well-known/" in url.path:
            links = {
                "token_endpoint": f"{base}/oauth2/v2.0/token",
                "authorization_endpoint": f"{base}/oauth2/v2.0/authorize",
            }
            return _json({"issuer": f"{base}/v2.0", **links})
        return _json({"token_type": "Bearer", "expires_in": 3600, "access_token": self.new_token()})

    def new_token(self) -> str:
        """Return a token that this server accepts from now on."""
        token = f"token-{hashlib.sha256(str(time.time_ns()).encode()).hexdigest()}"
        self.tokens.add(token)
        return token


class Direct:
    """The server without a network: what the client of the inventory calls to send."""

    def __init__(self, **spec: t.Any) -> None:
        self.state = State(spec)
        self.token = self.state.new_token()

    def __call__(self, url: str) -> Answer:
        """Answer one request."""
        target = url.removeprefix("https://azure.test")
        fault = self.state.play(f"GET {target}")
        time.sleep(fault.get("silence", 0))  # fault: hangs
        if "status" in fault:
            return fault["status"], fault.get("headers", {}), json.dumps(fault.get("body", {})).encode()
        if "text" in fault:
            return 200, {}, fault["text"].encode()
        found = self.state.answer("GET", target, "https://azure.test", self.token, fault.get("shift", 0))
        status, headers, content = found
        return status, headers, content[: len(content) // 2] if fault.get("cut") else content


_ROUTES: list[tuple[str, str]] = [
    (r"/providers/microsoft.compute/virtualmachines", "machines"),
    (r"/resourcegroups/([^/]+)/providers/microsoft.compute/virtualmachines", "machines"),
    (r"/providers/microsoft.network/networkinterfaces", "nics"),
    (r"/providers/microsoft.network/publicipaddresses", "addresses"),
    (r"/providers/microsoft.compute/virtualmachinescalesets", "scale_sets"),
]
_MEMBERS = {
    "virtualmachines": "instances",
    "networkinterfaces": "instance_nics",
    "publicipaddresses": "instance_addresses",
}


def _arm(state: State, url: t.Any, here: str, shift: int) -> Answer:
    query = {name: values[0] for name, values in parse_qs(url.query).items()}
    if "api-version" not in query:
        return _error(400, "MissingApiVersionParameter", "The api-version query parameter is required.")
    path = url.path.lower()
    if path == "/subscriptions":
        return _json(
            {
                "value": [
                    {"subscriptionId": one.id, "displayName": one.name, "state": "Enabled"} for one in state.visible()
                ]
            }
        )
    own = next((one for one in state.subscriptions if path.startswith(f"/subscriptions/{one.id}/")), None)
    if own is None or own.id in state.hidden:
        return _error(403, "AuthorizationFailed", "The client does not have authorization to perform the action.")
    rest = path.removeprefix(f"/subscriptions/{own.id}")
    items = _items(own, rest, path, query)
    if items is None:
        return _error(404, "ResourceNotFound", f"The resource {url.path} was not found.")
    start = int(query.get("$skiptoken", "0")) + shift
    answer: Item = {"value": items[start : start + PAGE]}
    if start + PAGE < len(items):
        kept = "&".join(f"{name}={quote(value)}" for name, value in query.items() if name != "$skiptoken")
        answer["nextLink"] = f"{here}{url.path}?{kept}&$skiptoken={start + PAGE}"
    return _json(answer)


def _items(own: fleet.Subscription, rest: str, path: str, query: dict[str, str]) -> list[Item] | None:
    if rest == "/resourcegroups":
        names = [*own.groups, *(one["id"].split("/")[4].lower() for one in (*own.machines, *own.scale_sets))]
        return [{"id": f"/subscriptions/{own.id}/resourceGroups/{name}", "name": name} for name in dict.fromkeys(names)]
    for pattern, kind in _ROUTES:
        match = re.fullmatch(pattern, rest)
        if match:
            items = getattr(own, kind)
            if match.groups():
                items = [one for one in items if one["id"].split("/")[4].lower() == match[1]]
            return _expanded(items, query) if kind == "machines" else items
    head, _slash, kind = path.rpartition("/")
    members = _MEMBERS.get(kind)
    return getattr(own, members).get(head) if members else None


def _expanded(items: list[Item], query: dict[str, str]) -> list[Item]:
    """Return machines as the list gives them: the instance view only when asked for."""
    if query.get("statusOnly") == "true":
        keys = ("id", "name", "type", "location")
        view = "instanceView"
        return [{**{key: one[key] for key in keys}, "properties": {view: one["properties"][view]}} for one in items]
    if query.get("$expand") == "instanceView":
        return items
    drop = "instanceView"
    return [
        {**one, "properties": {key: value for key, value in one["properties"].items() if key != drop}} for one in items
    ]


def _json(answer: t.Any) -> Answer:
    return 200, {}, json.dumps(answer).encode()


def _error(status: int, code: str, message: str, headers: dict[str, str] | None = None) -> Answer:
    return status, headers or {}, json.dumps({"error": {"code": code, "message": message}}).encode()
