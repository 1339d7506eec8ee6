"""Deployments: validation and what-if, which change nothing, and deployment stacks, which make and remove resources."""

from __future__ import annotations

import datetime
import functools
import re
import typing as t

from . import instances, quotas, whatif
from .store import STACK, RefusedError

if t.TYPE_CHECKING:
    from collections.abc import Callable

    from .store import Operation, Store

Item = dict[str, t.Any]

BUSY = ("creating", "validating", "waiting", "deploying", "canceling", "deletingresources", "deleting", "initializing")
_LEVELS = ("Template", "Provider", "ProviderNoRbac")


class Services:
    """The resource providers: what they check, and the faults that are switched on."""

    def __init__(self, store: Store, fault: Callable[[str, str, str], Item | None], limits: dict[str, int]) -> None:
        """Use a store; fault receives a stage, a type and an ID, limits are the quotas of vCPUs by family."""
        self.store = store
        self._fault = fault
        self._limits = limits

    def check(self, template: Item, group_id: str, location: str) -> None:
        """Refuse a template as the validation of level Provider does, with all reasons."""
        found: list[Item] = []
        machines: list[tuple[str, int]] = []
        for resource_id, kind, body in whatif.resources_of(template, group_id):
            fault = self._fault("check", kind, resource_id)
            if fault:
                found.append({"code": fault["code"], "message": fault["message"], "target": resource_id})
            machines += self._machines(resource_id, kind, body)
        found += quotas.exceeded(self.store, self._limits, location, machines)
        if found:
            raise RefusedError(
                400,
                "InvalidTemplateDeployment",
                "The template deployment is not valid according to the validation procedure. See inner errors for "
                "details.",
                details=found,
            )

    def _machines(self, resource_id: str, kind: str, body: Item) -> list[tuple[str, int]]:
        """Return size and number of the machines that a resource adds."""
        old = self.store.find(resource_id)
        if kind.lower() == "microsoft.compute/virtualmachinescalesets":
            return [(body["sku"]["name"], int(body["sku"]["capacity"]) - (int(old["sku"]["capacity"]) if old else 0))]
        if kind.lower() == "microsoft.compute/virtualmachines" and not old:
            return [(body["properties"]["hardwareProfile"]["vmSize"], 1)]
        return []

    def create(self, resource_id: str, kind: str, body: Item) -> None:
        """Make one resource of a deployment."""
        fault = self._fault("create", kind, resource_id)
        if fault and fault.get("effect") == "group_deleted":
            self.store.drop_group(resource_id.split("/")[4])
        if not self.store.group(resource_id.split("/")[4]):
            raise RefusedError(
                404, "ResourceGroupNotFound", f"Resource group '{resource_id.split('/')[4]}' could not be found."
            )
        if fault and "code" in fault:
            raise RefusedError(200, fault["code"], fault["message"], resource_id)
        self.store.put(resource_id, kind, _evaluated(self.store, body))

    def delete(self, resource_id: str, kind: str) -> None:
        """Delete one resource."""
        self.delete_check(kind, resource_id)
        self.store.delete(resource_id)

    def delete_check(self, kind: str, resource_id: str) -> None:
        """Refuse to delete a resource if that fault is switched on."""
        fault = self._fault("delete", kind, resource_id)
        if fault:
            raise RefusedError(409, fault["code"], fault["message"], resource_id)

    def scale(self, scale_set: Item, count: int) -> None:
        """Change the capacity of a set."""
        now = int(scale_set["sku"]["capacity"])
        fault = self._fault("scale", scale_set["type"], scale_set["id"]) if count > now else None
        if fault:
            raise RefusedError(200, fault["code"], fault["message"], scale_set["id"])
        over = quotas.exceeded(
            self.store, self._limits, str(scale_set.get("location")), [(scale_set["sku"]["name"], count - now)]
        )
        if over:
            raise RefusedError(409, "OperationNotAllowed", over[0]["message"])
        instances.resize(self.store, scale_set, count)


def _evaluated(store: Store, body: t.Any) -> t.Any:
    """Return a body with the values of reference(): the one function that our templates use."""
    if isinstance(body, dict):
        return {key: _evaluated(store, value) for key, value in body.items()}
    if isinstance(body, list):
        return [_evaluated(store, value) for value in body]
    if isinstance(body, str) and body.startswith("[reference("):
        inside, _bracket, path = body[1:-1].removeprefix("reference(").rpartition(")")
        target = store.find(inside.split(",")[0].strip().strip("'"))
        if target is None:
            raise RefusedError(200, "ResourceNotFound", f"The resource of {body} is not defined in the template.")
        value: t.Any = target if "'Full'" in inside else target["properties"]
        for name in re.findall(r"\w+", path):
            value = value[int(name) if isinstance(value, list) else name]
        return value
    return body


def read_properties(body: Item) -> Item:
    """Return the properties of a deployment after the checks that Resource Manager itself makes."""
    properties = body.get("properties")
    if not isinstance(properties, dict) or not isinstance(properties.get("template"), dict):
        raise RefusedError(400, "InvalidRequestContent", "The request content was invalid: no template.")
    if properties.get("mode", "Incremental") not in ("Incremental", "Complete"):
        raise RefusedError(400, "InvalidRequestContent", "The deployment mode is not valid.")
    if properties.get("validationLevel", "Provider") not in _LEVELS:
        raise RefusedError(400, "InvalidRequestContent", "The validation level is not valid.")
    for one in properties["template"].get("resources", []):
        missing = [name for name in ("type", "apiVersion", "name") if not one.get(name)]
        if missing:
            raise RefusedError(400, "InvalidTemplate", f"A resource of the template has no {missing[0]}.")
    return properties


def what_if(services: Services, body: Item, group_id: str, location: str) -> Item:
    """Return the answer of what-if."""
    properties = read_properties(body)
    if (properties.get("whatIfSettings") or {}).get("resultFormat", "FullResourcePayloads") != "FullResourcePayloads":
        raise RefusedError(400, "InvalidRequestContent", "This stand-in answers FullResourcePayloads only.")
    if properties.get("validationLevel", "Provider") != "Template":
        services.check(properties["template"], group_id, location)
    found = whatif.changes(services.store, properties["template"], group_id)
    return {"status": "Succeeded", "properties": {"changes": found}}


class Stacks:
    """The deployment stacks of resource groups."""

    def __init__(self, services: Services, seconds: float, who: str = "app") -> None:
        """Each resource takes this number of seconds."""
        self._services = services
        self._store = services.store
        self._seconds = seconds
        self._who = who

    def put(self, stack_id: str, body: Item) -> tuple[Item, bool, Operation | None]:
        """Begin to make what the template says; return the stack, whether it is new, and the operation."""
        properties = read_properties(body)
        for name in ("actionOnUnmanage", "denySettings"):
            if not isinstance(properties.get(name), dict):
                raise RefusedError(400, "InvalidRequestContent", f"The property {name} is required.")
        old = self._store.resources.get(stack_id.lower())
        self._refuse_busy(old)
        new = old is None
        stack = self._store.resources[stack_id.lower()] = self._stack(stack_id, body, properties, old)
        group_id = stack_id.split("/providers/")[0]
        wanted = _ordered(whatif.resources_of(properties["template"], group_id))
        steps: list[Callable[[], t.Any]] = [functools.partial(self._make, stack, *one) for one in wanted]
        named = {one[0].lower() for one in wanted}
        dropped = [one for one in stack["properties"]["resources"] if one["id"].lower() not in named]
        steps += [functools.partial(self._unmanage, stack, one) for one in dropped]
        steps.append(lambda: self._finish(stack, properties["template"]))
        return stack, new, self._store.start(steps, self._seconds, failed=lambda error: _fail(stack, error))

    def delete(self, stack_id: str, query: dict[str, str]) -> Operation | None:
        """Begin to remove a stack, with its resources if the query says so."""
        stack = self._store.resources.get(stack_id.lower())
        if stack is None:
            return None
        self._refuse_busy(stack)
        stack["properties"]["provisioningState"] = "deletingResources"
        both = query.get("unmanageAction.Resources", query.get("unmanageaction.resources", "detach"))
        rows = list(reversed(stack["properties"]["resources"])) if both == "delete" else []
        steps: list[Callable[[], t.Any]] = [functools.partial(self._unmanage, stack, one) for one in rows]
        steps.append(lambda: self._store.resources.pop(stack_id.lower(), None))
        return self._store.start(
            steps, self._seconds, failed=lambda error: _fail(stack, error, "DeploymentStackDeleteResourcesFailed")
        )

    def _refuse_busy(self, stack: Item | None) -> None:
        state = stack["properties"]["provisioningState"] if stack else "succeeded"
        if state.lower() in BUSY:
            raise RefusedError(
                409,
                "DeploymentStackInNonTerminalState",
                "The deployment stack resource could not be updated as it is currently in a non-terminal state "
                f"'{state}'.",
            )

    def _stack(self, stack_id: str, body: Item, properties: Item, old: Item | None) -> Item:
        now = datetime.datetime.now(datetime.timezone.utc).isoformat()
        kept = ("actionOnUnmanage", "denySettings", "description", "parameters", "validationLevel")
        return {
            "id": stack_id,
            "name": stack_id.split("/")[-1],
            "type": "Microsoft.Resources/deploymentStacks",
            "tags": dict(body.get("tags") or {}),
            "systemData": {
                "createdBy": self._who,
                "createdByType": "Application",
                "createdAt": (old or {}).get("systemData", {}).get("createdAt", now),
                "lastModifiedBy": self._who,
                "lastModifiedByType": "Application",
                "lastModifiedAt": now,
            },
            "properties": {
                **{name: properties[name] for name in kept if name in properties},
                "provisioningState": "deploying",
                "resources": list(old["properties"]["resources"]) if old else [],
                "detachedResources": [],
                "deletedResources": [],
                "failedResources": [],
                "outputs": {},
            },
            "_template": (old or {}).get("_template"),
        }

    def _make(self, stack: Item, resource_id: str, kind: str, body: Item) -> None:
        try:
            self._services.create(resource_id, kind, body)
        except RefusedError as exc:
            stack["properties"]["failedResources"].append({"id": resource_id, "error": exc.error})
            raise
        rows = stack["properties"]["resources"]
        if resource_id.lower() not in {one["id"].lower() for one in rows}:
            rows.append({"id": resource_id, "status": "managed", "denyStatus": "none"})

    def _unmanage(self, stack: Item, row: Item) -> None:
        found = self._store.find(row["id"])
        if stack["properties"]["actionOnUnmanage"]["resources"] == "delete" and found:
            try:
                self._services.delete(row["id"], found["type"])
            except RefusedError:
                row["status"] = "deleteFailed"
                raise
        stack["properties"]["deletedResources"].append({"id": row["id"]})
        stack["properties"]["resources"].remove(row)

    def _finish(self, stack: Item, template: Item) -> None:
        outputs = _evaluated(self._store, template.get("outputs") or {})
        stack["properties"].update(provisioningState="succeeded", outputs=outputs, duration="PT1M")
        stack["_template"] = template


def _fail(stack: Item, error: Item, code: str = "DeploymentStackDeploymentFailed") -> Item:
    """Note the failure in the stack, and return the error as the operation shows it."""
    stack["properties"]["provisioningState"] = "failed"
    inner = {
        "code": "DeploymentFailed",
        "message": "At least one resource deployment operation failed. Please list deployment operations for details.",
        "details": [error],
    }
    stack["properties"]["error"] = {
        "code": code,
        "message": "One or more resources could not be deployed.",
        "details": [inner],
    }
    return t.cast("Item", stack["properties"]["error"])


def _ordered(rows: list[tuple[str, str, Item]]) -> list[tuple[str, str, Item]]:
    """Return the resources so that what others depend on comes first."""
    left = list(rows)
    done: list[tuple[str, str, Item]] = []
    while left:
        names = {one[0].lower() for one in left}
        ready = [one for one in left if not any(str(need).lower() in names for need in one[2].get("dependsOn", []))]
        if not ready:
            raise RefusedError(400, "InvalidTemplate", "Circular dependency detected.")
        done += ready
        left = [one for one in left if one not in ready]
    return done


def shown(resource: Item) -> Item:
    """Return a resource without what only this server knows."""
    return {key: value for key, value in resource.items() if not key.startswith("_")}


__all__ = ["STACK", "Services", "Stacks", "read_properties", "shown", "what_if"]
