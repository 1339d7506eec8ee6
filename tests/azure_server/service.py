"""What the stand-in answers, without a network."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
import time
import typing as t
from urllib.parse import parse_qs, quote, urlsplit

from . import faults, fleet, kql
from .deployments import Services
from .imds import Imds
from .store import Store
from .write_api import Request, Writes

Item = dict[str, t.Any]
Answer = tuple[int, dict[str, str], bytes]

ARM_PAGE = 200
GRAPH_PAGE = 1000
QUOTA, WINDOW = 15, 5.0
LIMIT = 16 * 1024 * 1024


class State:
    """The subscriptions, the faults to play and what was asked; C(POST /_control) replaces it."""

    def __init__(self, spec: Item) -> None:
        self.lock = threading.Lock()
        self.building = threading.Lock()
        self.subscriptions = [fleet.subscription(one) for one in spec.get("subscriptions", [])]
        self.hidden = set(spec.get("hidden", []))
        self.faults: list[Item] = faults.expanded(spec.get("faults", []))
        self.delay = float(spec.get("delay", 0))
        self.quota = bool(spec.get("quota", True))
        self.no_compute_resources = bool(spec.get("no_compute_resources"))
        self.stale = int(spec.get("stale", 0))
        self.unknown = int(spec.get("unknown", 0))
        self.lagging = int(spec.get("lagging", 0))
        self.log: list[str] = []
        self.tokens: set[str] = set()
        self.window = (0.0, 0)
        self.pages: dict[str, bytes] = {}
        self.results: dict[str, list[Item]] = {}
        self._tables: dict[str, list[Item]] | None = None
        self.imds = Imds(spec.get("imds", {}), self.new_token)
        self.writing = threading.Lock()
        self.stores = {one.id: Store(one) for one in self.subscriptions}
        self.writes = {
            one.id: Writes(self.stores[one.id], Services(self.stores[one.id], self.stage, spec.get("quotas", {})), spec)
            for one in self.subscriptions
        }

    def contents(self) -> Item:
        """Return what is there, for tests: groups, ids of resources, and instances by set."""
        return {
            one.id: {
                "groups": sorted(self.stores[one.id].groups),
                "resources": sorted(self.stores[one.id].resources),
                "instances": {key: len(rows) for key, rows in one.instances.items()},
            }
            for one in self.subscriptions
        }

    def stage(self, stage: str, kind: str, resource_id: str) -> Item | None:
        """Return the fault of a service at a stage, if any."""
        return self.fault(f"{stage} {kind} {resource_id}", services=True)

    def settle(self) -> None:
        """Let time pass for what the services do by themselves."""
        with self.writing:
            if sum(one.advance() for one in self.stores.values()):
                self.forget()

    def forget(self) -> None:
        """Drop prepared answers of Resource Graph after a write."""
        with self.building:
            self._tables = None
            self.pages.clear()
            self.results.clear()

    def change(self, delay: float = 0, quota: bool = True) -> None:
        """Keep the machines and the prepared pages; begin a new log and a new quota."""
        self.delay, self.quota, self.window = delay, quota, (0.0, 0)
        self.log.clear()

    def visible(self) -> list[fleet.Subscription]:
        return [one for one in self.subscriptions if one.id not in self.hidden]

    def tables(self, ids: set[str] | None) -> dict[str, list[Item]]:
        """Return Resource Graph's tables."""
        with self.building:
            if self._tables is None:
                self._tables = self._build()
        if self.no_compute_resources:
            return {name: rows for name, rows in self._tables.items() if name != "computeresources"}
        if ids is None:
            return self._tables
        return {
            name: [row for row in rows if row["subscriptionId"] in ids] if len(self.subscriptions) > 1 else rows
            for name, rows in self._tables.items()
        }

    def _build(self) -> dict[str, list[Item]]:
        resources: list[Item] = []
        compute: list[Item] = []
        for one in self.visible():
            # What was made last is what Resource Graph does not know yet.
            known = one.machines[: len(one.machines) - self.unknown]
            resources += [_graph_row(item, one.id) for item in _before(known, self.lagging)]
            for kind in ("nics", "addresses", "scale_sets"):
                resources += [_graph_row(item, one.id) for item in getattr(one, kind)]
            for instances in one.instances.values():
                known = instances[: len(instances) - self.stale]
                compute += [_graph_row(item, one.id) for item in _before(known, self.lagging)]
            for nics in one.instance_nics.values():
                compute += [_graph_row(item, one.id) for item in nics]
        kind = "microsoft.resources/subscriptions"
        containers = [
            {"id": f"/subscriptions/{one.id}", "name": one.name, "type": kind, "subscriptionId": one.id}
            for one in self.visible()
        ]
        return {"resources": resources, "computeresources": compute, "resourcecontainers": containers}

    def fault(self, asked: str, services: bool = False) -> Item | None:
        """Return the fault to play for a request, or for a stage of a service, if any."""
        with self.lock:
            for one in self.faults:
                if ("stage" in one) is not services or not faults.fits(one, asked):
                    continue
                one["seen"] += 1
                if one["seen"] <= one.get("after", 0) or one["seen"] > one.get("after", 0) + one.get("times", 10**9):
                    continue
                if one["seen"] % one.get("every", 1) == 0:
                    return one
        return None

    def spend(self) -> tuple[bool, dict[str, str]]:
        """Take one query from the quota: fifteen in each window of five seconds."""
        if not self.quota:
            return True, {}
        with self.lock:
            now = time.monotonic()
            start, used = self.window
            if now - start >= WINDOW:
                start, used = now, 0
            left = max(0, QUOTA - used - 1)
            allowed = used < QUOTA
            self.window = (start, used + 1)
            reset = max(0, round(start + WINDOW - now + 0.5))
        return allowed, {"x-ms-user-quota-remaining": str(left), "x-ms-user-quota-resets-after": f"00:00:{reset:02}"}

    def play(self, asked: str) -> Item:
        """Note a request, wait as the network would, and return the fault to play, if any."""
        with self.lock:
            self.log.append(asked)
        time.sleep(self.delay)  # work: of the benchmarks
        return self.fault(asked) or {}

    def answer(self, method: str, target: str, here: str, token: str, body: bytes, marked: bool = False) -> Answer:
        """Return the answer to a request; here is the server's own address, marked the header Metadata."""
        url = urlsplit(target)
        self.settle()
        inside = self.imds.answer(method, url.path, _query(url), marked, body)
        if inside:
            return inside
        if "/oauth2/" in url.path or "/.well-known/" in url.path or url.path.startswith("/metadata/"):
            return self._open(url, here)
        if token not in self.tokens:
            return _error(
                401, "InvalidAuthenticationToken", "The access token is invalid.", {"WWW-Authenticate": "Bearer"}
            )
        if url.path.lower() == "/providers/microsoft.resourcegraph/resources":
            return _graph(self, json.loads(body))
        return _written(self, method, url, here, body) or _arm(self, url, here)

    def _open(self, url: t.Any, here: str) -> Answer:
        """Answer what needs no token: the cloud's metadata and the sign-in."""
        if url.path.startswith("/metadata/"):
            return _json([{"name": "test", "resourceManager": here, "authentication": {"loginEndpoint": here}}])
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
        self.state = State({"quota": False, **spec})
        self.token = self.state.new_token()

    def __call__(self, method: str, url: str, body: t.Any) -> Answer:
        """Answer one request."""
        content = json.dumps(body).encode() if body is not None else b""
        target = url.removeprefix("https://azure.test")
        fault = self.state.play(f"{method} {target} {query_of(content)}")
        time.sleep(fault.get("silence", 0))  # fault: hangs
        if fault.get("accept"):
            self.state.answer(method, target, "https://azure.test", self.token, content)
        if "status" in fault:
            return fault["status"], fault.get("headers", {}), json.dumps(fault.get("body", {})).encode()
        if "text" in fault:
            return 200, {}, fault["text"].encode()
        status, headers, answer = self.state.answer(method, target, "https://azure.test", self.token, content)
        return status, headers, answer[: len(answer) // 2] if fault.get("cut") else answer


def _query(url: t.Any) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(url.query).items()}


def _written(state: State, method: str, url: t.Any, here: str, body: bytes) -> Answer | None:
    """Return the answer of the part that writes, or None for a list."""
    own = next((one for one in state.visible() if url.path.lower().startswith(f"/subscriptions/{one.id}/")), None)
    if own is None:
        return None
    if "api-version" not in url.query:
        return _error(400, "MissingApiVersionParameter", "The api-version query parameter is required.")
    try:
        content = json.loads(body) if body else {}
    except ValueError:
        return _error(400, "InvalidRequestContent", "The request content was invalid and could not be deserialized.")
    with state.writing:
        answer = state.writes[own.id].answer(Request(method, url.path, _query(url), content, here))
    if method != "GET":
        state.forget()
    return answer if answer or method == "GET" else _error(404, "NotFound", f"No route for {method} {url.path}.")


def _before(items: list[Item], count: int) -> list[Item]:
    """Return machines as they were before the last of them replaced others: as many, with other ids."""
    start = len(items) - count
    return [*items[:start], *({**one, "id": f"{one['id']}9", "name": f"{one['name']}9"} for one in items[start:])]


def _graph_row(item: Item, subscription: str) -> Item:
    properties = dict(item["properties"])
    view = properties.pop("instanceView", None)
    if view:
        code = next((one["code"] for one in view["statuses"] if one["code"].startswith("PowerState")), None)
        view = {**view, "powerState": {"code": code, "level": "Info"}} if code else view
        properties["extended"] = {"instanceView": {name: value for name, value in view.items() if name != "statuses"}}
    kind = item.get("type") or "Microsoft.Compute/virtualMachineScaleSets/virtualMachines/networkInterfaces"
    return {
        **{name: value for name, value in item.items() if name != "instanceId"},
        "type": kind.lower(),
        "resourceGroup": item["id"].split("/")[4].lower(),
        "subscriptionId": subscription,
        "properties": properties,
    }


def query_of(body: bytes) -> str:
    try:
        asked = json.loads(body)
        return re.sub(r"\s+", " ", f"{asked.get('query', '')} {json.dumps(asked.get('options', {}))}")
    except (ValueError, AttributeError):
        return ""


def _graph(state: State, asked: Item) -> Answer:
    allowed, headers = state.spend()
    if not allowed:
        return _error(429, "RateLimiting", "Please provide below info when asking for support.", headers)
    if set(asked) - {"query", "subscriptions", "managementGroups", "options"}:
        return _error(400, "BadRequest", "unknown field", headers)
    top = min(GRAPH_PAGE, asked.get("options", {}).get("$top", GRAPH_PAGE))
    key = json.dumps([asked, top])
    if key not in state.pages:
        ids = set(asked["subscriptions"]) if "subscriptions" in asked else None
        if ids is not None and not ids & {one.id for one in state.visible()}:
            return _error(403, "AccessDenied", "no subscription can be read", headers)
        try:
            result = f"{ids} {asked['query']}"
            if result not in state.results:
                state.results[result] = kql.run(asked["query"], state.tables(ids))
            state.pages[key] = _graph_page(state.results[result], asked, top)
        except kql.InvalidQueryError as exc:
            return _error(400, "BadRequest", "Bad query", headers, [{"code": "InvalidQuery", "message": str(exc)}])
    if len(state.pages[key]) > LIMIT:
        return _error(400, "ResponsePayloadTooLarge", "Response payload size is too large", headers)
    return 200, headers, state.pages[key]


def _graph_page(rows: list[Item], asked: Item, top: int) -> bytes:
    token = asked.get("options", {}).get("$skipToken")
    start = json.loads(base64.b64decode(token))["start"] if token else 0
    start = asked.get("options", {}).get("$skip", start)
    page = rows[start : start + top]
    answer: Item = {
        "totalRecords": len(rows),
        "count": len(page),
        "resultTruncated": "false",
        "facets": [],
        "data": page,
    }
    if start + top < len(rows):
        if not page or "id" not in page[0]:
            answer["resultTruncated"] = "true"
        else:
            answer["$skipToken"] = base64.b64encode(json.dumps({"start": start + top}).encode()).decode()
    return json.dumps(answer).encode()


_ROUTES: list[tuple[str, str]] = [
    (r"/providers/microsoft.compute/virtualmachines", "machines"),
    (r"/resourcegroups/([^/]+)/providers/microsoft.compute/virtualmachines", "machines"),
    (r"/providers/microsoft.network/networkinterfaces", "nics"),
    (r"/resourcegroups/([^/]+)/providers/microsoft.network/networkinterfaces", "nics"),
    (r"/providers/microsoft.network/publicipaddresses", "addresses"),
    (r"/providers/microsoft.compute/virtualmachinescalesets", "scale_sets"),
    (r"/resourcegroups/([^/]+)/providers/microsoft.compute/virtualmachinescalesets", "scale_sets"),
    (r"/resources", "names"),
    (r"/resourcegroups/([^/]+)/resources", "names"),
]
NAMES_PAGE = 1000
_MEMBERS = {
    "virtualmachines": "instances",
    "networkinterfaces": "instance_nics",
    "publicipaddresses": "instance_addresses",
}


def _arm(state: State, url: t.Any, here: str) -> Answer:
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
    size = NAMES_PAGE if path.endswith("/resources") else ARM_PAGE
    start = int(query.get("$skiptoken", "0"))
    answer: Item = {"value": items[start : start + size]}
    if start + size < len(items):
        kept = "&".join(f"{name}={quote(value)}" for name, value in query.items() if name != "$skiptoken")
        answer["nextLink"] = f"{here}{url.path}?{kept}&$skiptoken={start + size}"
    return _json(answer)


def _items(own: fleet.Subscription, rest: str, path: str, query: dict[str, str]) -> list[Item] | None:
    if rest == "/resourcegroups":
        names = [*own.groups, *(one["id"].split("/")[4].lower() for one in (*own.machines, *own.scale_sets))]
        return [{"id": f"/subscriptions/{own.id}/resourceGroups/{name}", "name": name} for name in dict.fromkeys(names)]
    for pattern, kind in _ROUTES:
        match = re.fullmatch(pattern, rest)
        if match:
            items = own.machines if kind == "names" else getattr(own, kind)
            if match.groups():
                items = [one for one in items if one["id"].split("/")[4].lower() == match[1]]
            if kind == "names":
                return _named(items, query)
            return _expanded(items, query) if kind == "machines" else items
    head, _slash, kind = path.rpartition("/")
    members = _MEMBERS.get(kind)
    return getattr(own, members).get(head) if members else None


def _named(items: list[Item], query: dict[str, str]) -> list[Item] | None:
    """Return what the list of resources says of machines; nobody here asks for another type."""
    if query.get("$filter") != "resourceType eq 'Microsoft.Compute/virtualMachines'":
        return None
    keys = ("id", "name", "type", "location", "tags")
    return [{key: one[key] for key in keys if one.get(key)} for one in items]


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


def _error(
    status: int, code: str, message: str, headers: dict[str, str] | None = None, details: list[Item] | None = None
) -> Answer:
    body = {"error": {"code": code, "message": message, "details": details or []}}
    return status, headers or {}, json.dumps(body).encode()
