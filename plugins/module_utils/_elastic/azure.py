# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
The scale sets of one set in Azure, with the managed identity of the controller.

Azure names the instances of a scale set, so each gets a node of Slurm when it appears. Nodes belong to a scale set by
their order, the first ones to the first, so that the topology of Slurm is right before a machine exists. A scale set
grows by one request for the number of machines that its nodes need, which can be repeated. It shrinks by names.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._azure_machine.client import AzureError, RefusedError
from ansible_collections.hpcai.gpucluster.plugins.module_utils._azure_machine.reasons import (
    NO_MACHINES,
    causes,
    explained,
)

from .cloud import ElasticError, Machine

if t.TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ansible_collections.hpcai.gpucluster.plugins.module_utils._azure_machine.client import Client

    from .cloud import Set
    from .slurm import Node
    from .state import Memory

    Body = dict[str, t.Any]

_VERSION = {"api-version": "2025-04-01"}  # of Microsoft.Compute
_FAILED = re.compile(r"ProvisioningState/failed/.", re.IGNORECASE)


class Instance(t.NamedTuple):
    """One instance: its number, its host name, its states in lower case, and why Azure could not make it."""

    id: str
    host: str
    provisioning: str
    power: str
    viewed: bool
    failure: str

    @property
    def broken(self) -> bool:
        """Return whether Azure could not make the machine. A failed update of one that runs is no such case."""
        return self.viewed and self.provisioning in ("failed", "canceled") and self.power not in ("running", "starting")


class Group(t.NamedTuple):
    """One scale set with its nodes."""

    path: str
    name: str
    sku: Body
    state: str
    nodes: tuple[str, ...]
    instances: tuple[Instance, ...]

    @property
    def capacity(self) -> int:
        """Return the number of machines that Azure wants to have."""
        return int(self.sku.get("capacity") or 0)

    def key(self, instance: Instance) -> str:
        """Return the name of an instance in the memory."""
        return f"{self.path}/{instance.id}".lower()


class AzureCloud:
    """The machines of one set. A pass makes one object, and asks for the machines first."""

    def __init__(
        self,
        client: Client,
        one: Set,
        memory: Memory,
        save: Callable[[], None],
        publish: Callable[[Mapping[str, str]], None],
    ) -> None:
        """Save writes the memory at once; publish tells each host its node, when the memory is safe."""
        self._client = client
        self._set = one
        self._memory = memory
        self._save = save
        self._publish = publish
        self._groups: list[Group] = []
        self._registered: set[str] = set()
        self._running: set[str] = set()
        self._unsure: list[str] = []

    def machines(self, nodes: Mapping[str, Node]) -> list[Machine]:
        """Return all instances with their nodes."""
        self._groups = self._read()
        self._forget()
        self._pair([nodes[name] for name in self._set.nodes if name in nodes])
        self._publish(self._hosts())
        return [self._machine(group, one) for group in self._groups for one in group.instances]

    def start(self, nodes: Sequence[str]) -> dict[str, str]:
        """Give nodes to instances that have none, request the others, and return the nodes that get none."""
        failed: dict[str, str] = {}
        for group in self._groups:
            mine = [node for node in nodes if node in group.nodes]
            if mine:
                left = self._assigned(group, mine)
                reason = (self._broken(group) or self._grown(group, len(left))) if left else ""
                failed.update(dict.fromkeys(left, reason) if reason else {})
        known = {node for group in self._groups for node in group.nodes}
        failed.update(
            {node: "no scale set has room for this node; run azure_up" for node in nodes if node not in known}
        )
        return failed

    def stop(self, machines: Sequence[Machine]) -> None:
        """Delete instances by their numbers, by one request per scale set, which also lowers the capacity."""
        wanted = {machine.id for machine in machines}
        for group in self._groups:
            ids = [one.id for one in group.instances if group.key(one) in wanted]
            if ids:
                self._sent("POST", f"{group.path}/delete", {"instanceIds": ids})

    def _read(self) -> list[Group]:
        options = self._set.options
        base = f"/subscriptions/{options['subscription_id']}/resourceGroups/{options['resource_group']}"
        rows = self._rows(f"{base}/providers/Microsoft.Compute/virtualMachineScaleSets")
        mine = [row for row in rows if _is_of(row, str(options["cluster"]), self._set.name)]
        if not mine:
            raise ElasticError(f"Azure has no scale set of the set {self._set.name}; run azure_up")
        size, found = int(options["instances_per_group"]), []
        for row in sorted(mine, key=self._number):
            # By its name: a list may lack the scale sets before it.
            number = self._number(row)
            members = self._rows(f"{row['id']}/virtualMachines", **{"$expand": "instanceView"})
            nodes = self._set.nodes[number * size : (number + 1) * size]
            found.append(_group(row, nodes, [_instance(one) for one in members]))
        return found

    def _number(self, row: Body) -> int:
        """Return the number of a scale set in its set, from 0 on. azure_up gives these names."""
        first = f"{self._set.options['cluster']}--{self._set.name}"
        match = re.fullmatch(rf"{re.escape(first)}(?:--([0-9]+))?", str(row.get("name")), re.IGNORECASE)
        if not match or match[1] in ("0", "1"):
            raise ElasticError(
                f"found the scale set {row.get('name')}; allowed: {first}, {first}--2, ...; run azure_up"
            )
        return int(match[1] or 1) - 1

    def _pair(self, nodes: Sequence[Node]) -> None:
        """
        Pair instances with nodes by the host names with which machines registered.

        The memory may be old or lost. It counts only for machines that have not registered.
        """
        own = [node for node in nodes if node.host and node.host != node.name.lower()]
        names = [node.host for node in own if node.runs or "POWERING_DOWN" in node.flags]
        hosts = {node.host: node.name for node in own if names.count(node.host) == 1}
        for group in self._groups:
            for one in group.instances:
                node = hosts.get(one.host)
                if node:
                    for key in [key for key, name in self._memory.assigned.items() if name == node]:
                        del self._memory.assigned[key]
                    self._memory.assigned[group.key(one)] = node
                    self._registered.add(group.key(one))
        paired = set(self._memory.assigned.values())
        self._running = {node.name for node in nodes if node.runs}
        self._unsure = [node.name for node in nodes if node.runs and node.name not in paired and node not in own]

    def _machine(self, group: Group, one: Instance) -> Machine:
        node = "" if self._is_broken(group, one) else self._memory.assigned.get(group.key(one), "")
        return Machine(group.key(one), node, one.provisioning == "deleting", one.host)

    def _is_broken(self, group: Group, one: Instance) -> bool:
        return one.broken and group.key(one) not in self._registered

    def _forget(self) -> None:
        """Forget the nodes of instances that are gone. A list that lacks a known instance may be incomplete."""
        there = {group.key(one) for group in self._groups for one in group.instances}
        there.update(self._memory.known.get(self._set.name, {}))
        ours = tuple(f"{group.path}/".lower() for group in self._groups)
        for key in [key for key in self._memory.assigned if key.startswith(ours) and key not in there]:
            del self._memory.assigned[key]

    def _hosts(self) -> dict[str, str]:
        known = [
            (one.host, self._memory.assigned.get(group.key(one))) for group in self._groups for one in group.instances
        ]
        return {host: node for host, node in known if node}

    def _assigned(self, group: Group, nodes: list[str]) -> list[str]:
        """Give nodes to new instances and return the nodes that are left."""
        free = [
            one
            for one in group.instances
            if not self._is_broken(group, one)
            and one.provisioning != "deleting"
            and group.key(one) not in self._memory.assigned
        ]
        if free and self._unsure:
            raise ElasticError(
                f"{free[0].host} may be the machine of {self._unsure[0]}, which runs without one; no node gets it"
            )
        self._memory.assigned.update({group.key(one): node for one, node in zip(free, nodes)})
        if free:
            self._save()
            self._publish(self._hosts())
        return nodes[len(free) :]

    def _broken(self, group: Group) -> str:
        """Return the failure of the last request for machines; then Azure must not try on at the cost of the site."""
        reason = self._operation(group)
        broken = [one for one in group.instances if self._is_broken(group, one)]
        if not reason and not broken:
            return ""
        # Also those that this list lacks: below the number of machines, Azure chooses which ones go.
        known = [key for key in self._memory.known.get(self._set.name, {}) if key.startswith(f"{group.path}/".lower())]
        running = len(self._running.intersection(group.nodes))
        exist = max(len({*known, *map(group.key, group.instances)}), running + len(broken))
        if group.capacity > exist:
            self._sent("PATCH", group.path, {"sku": {**group.sku, "capacity": exist}})
        if broken:
            self._sent("POST", f"{group.path}/delete", {"instanceIds": [one.id for one in broken]})
        views = list(dict.fromkeys(one.failure for one in broken if one.failure and one.failure not in reason))
        return "; ".join(filter(None, (reason, *views))) or f"Azure could not make the machine ({broken[0].host})"

    def _operation(self, group: Group) -> str:
        """Return the error of the request in progress, if it has ended with one."""
        url = self._memory.operations.get(group.path)
        if not url:
            return ""
        try:
            found = self._client.ask("GET", url, {}).body
        except RefusedError as exc:
            if exc.status != 404:
                raise ElasticError(str(exc)) from None
            found = {}
        except AzureError as exc:
            raise ElasticError(str(exc)) from None
        status = str(found.get("status") or "").lower()
        if status in ("inprogress", "running", "accepted", "updating"):
            return ""
        self._memory.operations.pop(group.path, None)
        return "" if status in ("", "succeeded") else explained(causes(found)) or status

    def _grown(self, group: Group, count: int) -> str:
        """Request machines so that count more exist; return why that is not possible."""
        kept = sum(one.provisioning != "deleting" for one in group.instances)
        pending = max(0, group.capacity - kept)
        wanted = max(group.capacity, kept) + max(0, count - pending)
        waits = group.path in self._memory.operations or group.state in ("updating", "creating")
        if wanted == group.capacity and waits:
            return ""
        try:
            body = {"sku": {**group.sku, "capacity": wanted}}
            answer = self._client.ask("PATCH", group.path, _VERSION, body)
        except RefusedError as exc:
            if _passes(exc):
                raise ElasticError(str(exc)) from None
            return str(exc)
        except AzureError as exc:
            raise ElasticError(str(exc)) from None
        if answer.operation:
            self._memory.operations[group.path] = answer.operation
            self._save()
        return ""

    def _rows(self, path: str, **query: str) -> list[Body]:
        try:
            return self._client.rows(path, {**_VERSION, **query})
        except AzureError as exc:
            raise ElasticError(str(exc)) from None

    def _sent(self, method: str, path: str, body: Body) -> None:
        try:
            self._client.ask(method, path, _VERSION, body)
        except AzureError as exc:
            raise ElasticError(str(exc)) from None


def _passes(exc: RefusedError) -> bool:
    """Return whether a refusal passes: Azure is busy, or somebody else changes the scale set."""
    lasts = any(one.kind in NO_MACHINES for one in exc.causes)
    return exc.status in (408, 429) or exc.status >= 500 or (exc.status == 409 and not lasts)


def _is_of(row: Body, cluster: str, name: str) -> bool:
    tags = {str(key).lower(): str(value) for key, value in (row.get("tags") or {}).items()}
    return tags.get("gpucluster_set") == name and tags.get("slurm_cluster", cluster) == cluster


def _natural(name: str) -> list[tuple[int, str]]:
    """Return a key that sorts h100-2 before h100-10."""
    return [(int(part), "") if part.isdigit() else (-1, part.lower()) for part in re.split(r"(\d+)", name)]


def _group(row: Body, nodes: Sequence[str], instances: Sequence[Instance]) -> Group:
    state = str((row.get("properties") or {}).get("provisioningState") or "").lower()
    ordered = tuple(sorted(instances, key=lambda one: _natural(one.id)))
    return Group(str(row["id"]), str(row["name"]), dict(row.get("sku") or {}), state, tuple(nodes), ordered)


def _instance(row: Body) -> Instance:
    properties = row.get("properties") or {}
    statuses = (properties.get("instanceView") or {}).get("statuses") or []
    codes = [str(one.get("code") or "") for one in statuses]
    # A status such as ProvisioningState/failed/AllocationFailed, with the text of the error.
    failed = [{**one, "code": code.split("/")[2]} for one, code in zip(statuses, codes) if _FAILED.match(code)]
    number = str(row.get("instanceId") or "")
    if not number.isdecimal():
        raise ElasticError(f"Azure lists an instance without a number: {row.get('id')}; nothing is changed")
    power = next((code.partition("/")[2] for code in codes if code.startswith("PowerState/")), "")
    return Instance(
        id=number,
        host=str((properties.get("osProfile") or {}).get("computerName") or row.get("name") or "").lower(),
        provisioning=str(properties.get("provisioningState") or "").lower(),
        power=power.lower(),
        viewed=bool(codes),
        failure=explained(causes({"details": failed})),
    )
