"""What a subscription keeps of what was written: resource groups, resources, and operations that take time."""

from __future__ import annotations

import dataclasses
import itertools
import re
import time
import typing as t
import uuid

from . import defaults, instances

if t.TYPE_CHECKING:
    from collections.abc import Callable

    from .fleet import Subscription

Item = dict[str, t.Any]

# By type, the list of the subscription that Resource Manager and Resource Graph show.
LISTS = {
    "microsoft.compute/virtualmachines": "machines",
    "microsoft.compute/virtualmachinescalesets": "scale_sets",
    "microsoft.network/networkinterfaces": "nics",
    "microsoft.network/publicipaddresses": "addresses",
}
STACK = "microsoft.resources/deploymentstacks"


class RefusedError(Exception):
    """Azure refuses a request or ends an operation: status, code, message, and more errors inside."""

    def __init__(
        self, status: int, code: str, message: str, target: str = "", details: list[Item] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.error: Item = {"code": code, "message": message}
        if target:
            self.error["target"] = target
        if details:
            self.error["details"] = details


@dataclasses.dataclass
class Operation:
    """One that Azure continues by itself: steps are called one after another, each after some seconds."""

    id: str
    steps: list[Callable[[], t.Any]]
    seconds: float
    result: Callable[[], Item | None]
    failed: Callable[[Item], Item | None]
    started: float = dataclasses.field(default_factory=time.monotonic)
    done: int = 0
    error: Item | None = None

    @property
    def ended(self) -> bool:
        return self.error is not None or self.done == len(self.steps)

    def advance(self) -> bool:
        """Do the steps that are due; the first that fails ends the operation. Return whether one was due."""
        before = self.done
        while not self.ended and time.monotonic() >= self.started + self.seconds * (self.done + 1):
            try:
                self.steps[self.done]()
            except RefusedError as exc:
                self.error = self.failed(exc.error) or exc.error
                return True
            self.done += 1
        return self.done > before


class Store:
    """The groups, the resources by id in lower case, and the operations of one subscription."""

    def __init__(self, own: Subscription) -> None:
        self.own = own
        self.groups: dict[str, Item] = {}
        self.resources: dict[str, Item] = {}
        self.operations: dict[str, Operation] = {}
        self._numbers = itertools.count(1)
        self.address = itertools.count(300_000)

    # Groups

    def group(self, name: str) -> Item | None:
        """Return a resource group; those of a prepared fleet exist without a write."""
        known = self.groups.get(name.lower())
        if known:
            return known
        rows = (*self.own.machines, *self.own.scale_sets)
        names = {*map(str.lower, self.own.groups), *(one["id"].split("/")[4].lower() for one in rows)}
        return _group(self.own.id, name, {"location": "southcentralus"}) if name.lower() in names else None

    def put_group(self, name: str, body: Item) -> tuple[Item, bool]:
        """Create or replace a group; return it and whether it is new."""
        old = self.group(name)
        if old and old["location"] != body.get("location"):
            raise RefusedError(
                409,
                "InvalidResourceGroupLocation",
                f"Invalid resource group location '{body.get('location')}'. The Resource group already exists in "
                f"location '{old['location']}'.",
            )
        made = self.groups[name.lower()] = _group(self.own.id, old["name"] if old else name, body)
        return made, old is None

    def drop_group(self, name: str) -> None:
        """Delete a group with everything in it, also the role assignments of its resources."""
        home = f"/subscriptions/{self.own.id}/resourcegroups/{name}/".lower()
        for key in [one for one in self.resources if one.startswith(home)]:
            self.delete(key)
        self.groups.pop(name.lower(), None)
        self.own.groups[:] = [one for one in self.own.groups if one.lower() != name.lower()]

    def contents(self, name: str) -> list[Item]:
        """Return what the list of resources says of a group; extensions and stacks are not in it."""
        home = f"/subscriptions/{self.own.id}/resourcegroups/{name}/providers/".lower()
        keys = ("id", "name", "type", "location", "tags", "managedBy")
        found = [one for key, one in self.resources.items() if key.startswith(home)]
        shown = [
            one for one in found if not re.search(r"roleAssignments|roleDefinitions|deploymentStacks", one["type"])
        ]
        return [{key: one[key] for key in keys if one.get(key)} for one in shown]

    # Resources

    def put(self, resource_id: str, kind: str, body: Item) -> Item:
        """Store a resource as the service shows it: with defaults, and without what can only be written."""
        key = resource_id.lower()
        old = self.resources.get(key)
        made = defaults.stored(kind, {**body, "id": resource_id, "name": resource_id.split("/")[-1], "type": kind}, old)
        self.resources[key] = made
        self._show(kind, made)
        if kind.lower() == "microsoft.compute/virtualmachinescalesets":
            instances.resize(self, made, int(made["sku"]["capacity"]))
        if kind.lower() == "microsoft.compute/virtualmachines":
            instances.attach(self, made)
        return made

    def delete(self, resource_id: str) -> bool:
        """Delete a resource with what hangs on it; return whether it was there."""
        key = resource_id.lower()
        gone = self.resources.pop(key, None)
        for below in [one for one in self.resources if one.startswith(f"{key}/")]:
            del self.resources[below]
        for name in LISTS.values():
            rows = getattr(self.own, name)
            rows[:] = [one for one in rows if one["id"].lower() != key]
        for name in ("instances", "instance_nics", "instance_addresses"):
            getattr(self.own, name).pop(key, None)
        return gone is not None

    def find(self, resource_id: str) -> Item | None:
        """Return a resource by its id, also one of the prepared fleet."""
        key = resource_id.lower()
        if key in self.resources:
            return self.resources[key]
        rows = (row for name in LISTS.values() for row in getattr(self.own, name))
        return next((row for row in rows if row["id"].lower() == key), None)

    def _show(self, kind: str, made: Item) -> None:
        name = LISTS.get(kind.lower())
        if name:
            rows = getattr(self.own, name)
            rows[:] = [*(one for one in rows if one["id"].lower() != made["id"].lower()), made]

    # Operations

    def start(
        self,
        steps: list[Callable[[], t.Any]],
        seconds: float,
        result: Callable[[], Item | None] = lambda: None,
        failed: Callable[[Item], Item | None] = lambda _error: None,
    ) -> Operation:
        """Begin an operation; with no seconds, its steps are done by the next request."""
        name = f"{next(self._numbers)}-{uuid.uuid5(uuid.NAMESPACE_DNS, self.own.id).hex[:8]}"
        made = self.operations[name] = Operation(name, steps, seconds, result, failed)
        return made

    def advance(self) -> bool:
        """Let time pass for all operations; return whether anything happened."""
        return sum(one.advance() for one in self.operations.values() if not one.ended) > 0


def _group(subscription: str, name: str, body: Item) -> Item:
    return {
        "id": f"/subscriptions/{subscription}/resourceGroups/{name}",
        "name": name,
        "type": "Microsoft.Resources/resourceGroups",
        "location": body.get("location"),
        "tags": dict(body.get("tags") or {}),
        "properties": {"provisioningState": "Succeeded"},
    }
