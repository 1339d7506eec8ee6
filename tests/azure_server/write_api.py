"""The requests that write, and those that read one resource: Resource Manager in front of the services."""

from __future__ import annotations

import functools
import json
import re
import typing as t

from . import deployments, instances, quotas
from .store import RefusedError, Store

if t.TYPE_CHECKING:
    from .store import Operation

Item = dict[str, t.Any]
Answer = tuple[int, dict[str, str], bytes]

_STACK = r"(/subscriptions/[^/]+/resourcegroups/[^/]+/providers/microsoft\.resources/deploymentstacks/[^/]+)"
_GROUP = r"/subscriptions/[^/]+/resourcegroups/([^/]+)"
_DEPLOYMENT = r"(?:/resourcegroups/([^/]+))?/providers/microsoft\.resources/deployments/[^/]+/(validate|whatif)"
_SET = r"(/subscriptions/.*/providers/microsoft\.compute/virtualmachinescalesets/[^/]+)"
_MACHINE = r"(/subscriptions/[^/]+/resourcegroups/[^/]+/providers/microsoft\.compute/virtualmachines/[^/]+)"

_NAMESPACES = [
    f"Microsoft.{name}"
    for name in ("Authorization", "Compute", "ManagedIdentity", "NetApp", "Network", "Storage", "StorageCache")
]


class Request(t.NamedTuple):
    """A request below one subscription."""

    method: str
    path: str  # as the client wrote it
    query: dict[str, str]
    body: Item
    here: str


class Writes:
    """Everything below one subscription that is not a list."""

    def __init__(self, store: Store, services: deployments.Services, spec: Item) -> None:
        """Use what was specified: seconds per step, and the seconds that a client is asked to wait."""
        self._store = store
        self._services = services
        self._limits: dict[str, int] = spec.get("quotas", {})
        self._unregistered: list[str] = spec.get("unregistered", [])
        self._forbidden: list[str] = spec.get("forbidden", [])
        self._seconds = float(spec.get("seconds", 0))
        self._pause = str(spec.get("retry_after", 1 if self._seconds else 0))
        self._stacks = deployments.Stacks(services, self._seconds, spec.get("caller", "app"))

    def answer(self, request: Request) -> Answer | None:
        """Return the answer, or None if the request is not for this part."""
        try:
            return self._routed(request)
        except RefusedError as exc:
            return _json({"error": exc.error}, exc.status)

    def _routed(self, request: Request) -> Answer | None:
        path = request.path.lower()
        for pattern, methods, function in self._routes():
            match = re.fullmatch(pattern, path)
            if match and request.method in methods:
                return t.cast("Answer | None", function(request, match))
        return None

    def _routes(self) -> list[tuple[str, tuple[str, ...], t.Any]]:
        return [
            (r"/subscriptions/[^/]+/operations/([^/]+)", ("GET",), self._status),
            (r"/subscriptions/[^/]+/operationresults/([^/]+)", ("GET",), self._result),
            (_GROUP, ("GET", "PUT", "PATCH", "DELETE", "HEAD"), self._group),
            (f"{_GROUP}/resources", ("GET",), self._contents),
            (rf"{_GROUP}/providers/microsoft\.resources/tags/default", ("PATCH",), self._tags),
            (rf"/subscriptions/[^/]+{_DEPLOYMENT}", ("POST",), self._deployment),
            (_STACK, ("GET", "PUT", "DELETE"), self._stack),
            (rf"{_STACK}/exporttemplate", ("POST",), self._export),
            (rf"{_SET}/(delete|start|restart|poweroff|deallocate|reimage|redeploy)", ("POST",), self._action),
            (rf"{_SET}/instanceview", ("GET",), self._counts),
            (rf"{_MACHINE}/(start|restart|poweroff|deallocate|reimage|redeploy)", ("POST",), self._machine_action),
            (rf"{_SET}", ("PATCH",), self._patch_set),
            (r"/subscriptions/[^/]+/providers/microsoft\.compute/locations/([^/]+)/usages", ("GET",), self._usages),
            (r"/subscriptions/[^/]+/providers", ("GET",), self._providers),
            (r"/subscriptions/.*/providers/microsoft\.authorization/permissions", ("GET",), self._permissions),
            (r"/subscriptions/.*/providers/[^/]+/.*[^/]", ("GET", "PUT", "PATCH", "DELETE"), self._resource),
        ]

    # Operations

    def _accepted(self, request: Request, operation: Operation, body: Item | None = None, status: int = 202) -> Answer:
        """Return the answer to a request whose work goes on: both addresses, as the service writes them."""
        home = f"{request.here}/subscriptions/{self._store.own.id}"
        of = f"?api-version=1&of={request.path.split('/')[4]}"
        headers = {"Retry-After": self._pause}
        if status != 202 or "virtualMachineScaleSets" in request.path:
            headers["Azure-AsyncOperation"] = f"{home}/operations/{operation.id}{of}"
        if status == 202:
            headers["Location"] = f"{home}/operationresults/{operation.id}{of}"
        return status, headers, json.dumps(body).encode() if body is not None else b""

    def _operation(self, name: str) -> Operation:
        found = self._store.operations.get(name)
        if not found:
            raise RefusedError(404, "OperationNotFound", f"The operation {name} could not be found.")
        return found

    def _status(self, _request: Request, match: re.Match[str]) -> Answer:
        operation = self._operation(match[1])
        if not operation.ended:
            return _json({"name": operation.id, "status": "InProgress"}, headers={"Retry-After": self._pause})
        if operation.error:
            return _json({"name": operation.id, "status": "Failed", "error": operation.error})
        return _json({"name": operation.id, "status": "Succeeded"})

    def _result(self, request: Request, match: re.Match[str]) -> Answer:
        operation = self._operation(match[1])
        if not operation.ended:
            address = f"{request.here}{request.path}?api-version=1&of={request.query.get('of', '')}"
            return 202, {"Retry-After": self._pause, "Location": address}, b""
        if operation.error:
            return _json({"error": operation.error}, 409)
        found = operation.result()
        return _json(found) if found is not None else (200, {}, b"")

    # Resource groups

    def _group(self, request: Request, match: re.Match[str]) -> Answer:
        name = request.path.split("/")[4]
        found = self._store.group(name)
        if request.method == "PUT":
            made, new = self._store.put_group(name, request.body)
            return _json(made, 201 if new else 200)
        if not found:
            raise RefusedError(404, "ResourceGroupNotFound", f"Resource group '{name}' could not be found.")
        if request.method == "PATCH":
            found["tags"] = request.body.get("tags", found["tags"])
            self._store.groups[name.lower()] = found
        if request.method == "DELETE":
            self._services.delete_check("Microsoft.Resources/resourceGroups", found["id"])
            self._store.groups[name.lower()] = found
            found["properties"]["provisioningState"] = "Deleting"
            return self._accepted(request, self._store.start([lambda: self._store.drop_group(name)], self._seconds))
        return _json(found)

    def _tags(self, request: Request, _match: re.Match[str]) -> Answer:
        """Merge tags into those of a group."""
        self._need_group(request.path)
        found = t.cast("Item", self._store.group(request.path.split("/")[4]))
        if request.body.get("operation") != "Merge":
            raise RefusedError(400, "InvalidTagsOperation", "The operation is not supported here.")
        found["tags"] = {**(found.get("tags") or {}), **request.body["properties"]["tags"]}
        self._store.groups[found["name"].lower()] = found
        return _json({"properties": {"tags": found["tags"]}})

    def _contents(self, request: Request, _match: re.Match[str]) -> Answer | None:
        name = request.path.split("/")[4]
        if "$filter" in request.query:
            return None  # the inventory's question
        if not self._store.group(name):
            raise RefusedError(404, "ResourceGroupNotFound", f"Resource group '{name}' could not be found.")
        return _json({"value": self._store.contents(name)})

    def _need_group(self, path: str) -> str:
        """Return the id of the group of a path; refuse one that does not exist."""
        name = path.split("/")[4]
        found = self._store.group(name)
        if not found:
            raise RefusedError(404, "ResourceGroupNotFound", f"Resource group '{name}' could not be found.")
        return str(found["id"])

    # Deployments and stacks

    def _deployment(self, request: Request, match: re.Match[str]) -> Answer:
        properties = deployments.read_properties(request.body)
        if not match[1]:
            return self._subscription_deployment(request, properties, match[2])
        group_id = self._need_group(request.path)
        location = str(self._store.group(group_id.split("/")[4])["location"])  # type: ignore[index]
        if match[2] == "validate":
            self._services.check(properties["template"], group_id, location)
            return _json({"id": request.path, "name": "x", "properties": {"provisioningState": "Succeeded"}})
        answer = deployments.what_if(self._services, request.body, group_id, location)
        return self._accepted(request, self._store.start([lambda: None], self._seconds, lambda: answer))

    def _subscription_deployment(self, request: Request, properties: Item, action: str) -> Answer:
        """Validate a template at the scope of the subscription: groups, and deployments inside them."""
        if action != "validate" or not request.body.get("location"):
            raise RefusedError(400, "InvalidRequestContent", "A deployment of a subscription needs a location.")
        resources = properties["template"]["resources"]
        new = {
            one["name"].lower(): one for one in resources if one["type"].lower() == "microsoft.resources/resourcegroups"
        }
        for one in resources:
            if one["type"].lower() != "microsoft.resources/deployments":
                continue
            name = one["resourceGroup"]
            known = self._store.group(name) or new.get(name.lower())
            if not known:
                raise RefusedError(404, "ResourceGroupNotFound", f"Resource group '{name}' could not be found.")
            inner = deployments.read_properties(one)
            home = f"/subscriptions/{self._store.own.id}/resourceGroups/{name}"
            self._services.check(inner["template"], home, str(known["location"]))
        return _json({"id": request.path, "properties": {"provisioningState": "Succeeded"}})

    def _stack(self, request: Request, _match: re.Match[str]) -> Answer:
        self._need_group(request.path)
        if request.method == "PUT":
            made, new, operation = self._stacks.put(request.path, request.body)
            if operation:
                return self._accepted(request, operation, deployments.shown(made), 201 if new else 200)
            return _json(deployments.shown(made))
        if request.method == "DELETE":
            started = self._stacks.delete(request.path, request.query)
            return self._accepted(request, started) if started else (204, {}, b"")
        return _json(deployments.shown(self._known(request.path)))

    def _export(self, request: Request, match: re.Match[str]) -> Answer:
        return _json({"template": self._known(match[1])["_template"] or {}})

    def _known(self, resource_id: str) -> Item:
        found = self._store.find(resource_id)
        if not found:
            name = "/".join(resource_id.split("/")[-2:])
            raise RefusedError(404, "ResourceNotFound", f"The Resource '{name}' was not found.")
        return found

    # Scale sets

    def _patch_set(self, request: Request, _match: re.Match[str]) -> Answer:
        found = self._known(request.path)
        count = (request.body.get("sku") or {}).get("capacity")
        if "tags" in request.body:
            found["tags"] = request.body["tags"]
        if count is None:
            return _json(found)
        found["properties"]["provisioningState"] = "Updating"
        return self._accepted(
            request, self._compute(found, lambda: self._services.scale(found, int(count))), found, 200
        )

    def _compute(self, scale_set: Item, step: t.Callable[[], t.Any]) -> Operation:
        def settled(error: Item | None = None) -> Item | None:
            scale_set["properties"]["provisioningState"] = "Failed" if error else "Succeeded"
            return error

        return self._store.start([step, settled], self._seconds / 2, failed=settled)

    def _action(self, request: Request, match: re.Match[str]) -> Answer:
        found, action = self._known(match[1]), match[2]
        wanted = request.body.get("instanceIds")
        if action == "delete" and not wanted:
            raise RefusedError(400, "InvalidParameter", "Required parameter 'instanceIds' is missing (null).")
        numbers = None if wanted in (None, ["*"]) else [str(one) for one in t.cast("list[t.Any]", wanted)]
        gone = instances.missing(self._store, found, numbers or [])
        if gone:
            raise RefusedError(
                400,
                "InvalidParameter",
                f"The provided instanceId {gone[0]} is not an active Virtual Machine Scale Set VM instanceId.",
            )
        every = [one["instanceId"] for one in self._store.own.instances.get(found["id"].lower(), [])]
        if action == "delete":
            step = functools.partial(instances.delete, self._store, found, every if numbers is None else numbers)
        else:
            step = functools.partial(instances.power, self._store, found, every if numbers is None else numbers, action)
        return self._accepted(request, self._compute(found, step))

    def _counts(self, _request: Request, match: re.Match[str]) -> Answer:
        """Return how many machines a scale set has by state, which Azure counts apart from the list."""
        rows = self._store.own.instances.get(self._known(match[1])["id"].lower(), [])
        states = [str(one["properties"]["provisioningState"]).lower() for one in rows]
        counts = [{"code": f"ProvisioningState/{state}", "count": states.count(state)} for state in sorted({*states})]
        return _json({"virtualMachine": {"statusesSummary": counts}})

    def _machine_action(self, request: Request, match: re.Match[str]) -> Answer:
        found, action = self._known(match[1]), match[2]
        step = functools.partial(instances.set_power, found, instances.POWER[action])
        return self._accepted(request, self._store.start([step], self._seconds))

    def _usages(self, _request: Request, _match: re.Match[str]) -> Answer:
        return _json({"value": quotas.listed(self._store, self._limits)})

    # Any resource

    def _providers(self, _request: Request, _match: re.Match[str]) -> Answer:
        states = dict.fromkeys(_NAMESPACES, "Registered") | dict.fromkeys(self._unregistered, "NotRegistered")
        return _json({"value": [{"namespace": name, "registrationState": state} for name, state in states.items()]})

    def _permissions(self, _request: Request, _match: re.Match[str]) -> Answer:
        return _json({"value": [{"actions": ["*"], "notActions": self._forbidden}]})

    def _resource(self, request: Request, _match: re.Match[str]) -> Answer | None:
        if request.method == "GET":
            found = self._store.find(request.path) or self._instance(request.path)
            return _json(_without_view(found, request.query)) if found else None
        kind = _type_of(request.path)
        if request.method == "DELETE":
            if not self._store.find(request.path):
                return 204, {}, b""
            return self._accepted(
                request, self._store.start([lambda: self._services.delete(request.path, kind)], self._seconds)
            )
        self._need_group(request.path)
        if request.method == "PATCH":
            old = self._known(request.path)
            body = {**old, **request.body, "properties": {**old["properties"], **request.body.get("properties", {})}}
            return _json(self._store.put(request.path, kind, body))
        new = self._store.find(request.path) is None
        self._services.create(request.path, kind, request.body)
        return _json(self._known(request.path), 201 if new else 200)

    def _instance(self, resource_id: str) -> Item | None:
        rows = (row for some in self._store.own.instances.values() for row in some)
        return next((row for row in rows if row["id"].lower() == resource_id.lower()), None)


def _without_view(found: Item, query: dict[str, str]) -> Item:
    if query.get("$expand") == "instanceView":
        return found
    return {**found, "properties": {key: value for key, value in found["properties"].items() if key != "instanceView"}}


def _type_of(resource_id: str) -> str:
    """Return the type that a resource id names, such as Microsoft.Network/virtualNetworks/subnets."""
    provider, *rest = resource_id.rpartition("/providers/")[2].split("/")
    return "/".join([provider, *rest[::2]])


def _json(answer: t.Any, status: int = 200, headers: dict[str, str] | None = None) -> Answer:
    return status, headers or {}, json.dumps(answer).encode()
