# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of the module check_input."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase
from ansible.template import Templar

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import words
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue import auto
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue.plain import plain
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs import cluster as inputs_cluster
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs import older_names, roles, rules, sets
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs import types as inputs_types
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import hostlist

if t.TYPE_CHECKING:
    from collections.abc import Mapping

    Raw = Mapping[str, t.Any]

# Errors about values that are known only after a host was contacted. Its role checks such a value then.
_LATER = ("ansible_", "hostvars", "has no attribute")
_SIZES = ("gpucluster_vm_size", "azure_vm_size", "gpucluster_vm_size_record", "virtual_machine_size")
_STORAGE = ("nfs_", "scratch_", "gpucluster_networks", "gpucluster_nfs_server", *_SIZES)
_MOST = 40


class ActionModule(ActionBase):
    """Check the inputs of one role on one host, or of many hosts; runs only on the control node."""

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """Return the errors in the inputs; the task fails if there are any."""
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        spec = {
            "hosts": {"type": "list", "elements": "str"},
            "main": {"type": "str"},
            "vm_sizes": {"type": "path"},
            "role": {"type": "str"},
            "entry_point": {"type": "str"},
        }
        __, arguments = self.validate_argument_spec(
            argument_spec=spec,
            mutually_exclusive=[("hosts", "role")],
            required_one_of=[("hosts", "role")],
            required_together=[("hosts", "main")],
        )
        check = self._role if arguments["role"] else self._hosts
        return {**result, "changed": False, **check(arguments, task_vars or {})}

    def _role(self, arguments: Raw, variables: Raw) -> dict[str, t.Any]:
        role = arguments["role"]
        try:
            names = inputs_types.of_role(role, arguments["entry_point"])
        except ValueError as exc:
            return {"failed": True, "msg": str(exc)}
        values, faults = _templated(self._loader, variables, names)
        return _failed(f"Wrong input of the role {role}.", faults + roles.problems(role, values))

    def _hosts(self, arguments: Raw, variables: Raw) -> dict[str, t.Any]:
        judge = _Judge(self._loader, variables, arguments["main"])
        for host in dict.fromkeys([arguments["main"], *arguments["hosts"]]):
            judge.take(host)
        known = auto.read(arguments["vm_sizes"] or "")
        unsized = [host for host in judge.auto() if host not in known]
        found = {"sets": len(judge.sets.members), "storage": judge.storage(), "auto": unsized}
        return {**found, **_failed("Wrong input. No machine was touched.", judge.problems())}


class _Judge:
    """The inputs of the hosts that were added, and the errors in them."""

    def __init__(self, loader: t.Any, variables: Raw, main: str) -> None:
        """Store the variables and the host that has the inputs of the whole cluster."""
        self._loader, self._variables, self._main = loader, variables, main
        self._inputs = {*rules.known(), *_SIZES}
        self.sets = sets.Distinct(self._inputs.__contains__)
        self._storage: dict[str, sets.Distinct] = {
            task: sets.Distinct(_is_storage) for task in ("servers", "clients", "computes")
        }
        groups = {name: list(hosts) for name, hosts in variables["groups"].items()}
        self._cluster = inputs_cluster.Cluster(groups, {}, {})
        self._tasks = {task: frozenset(self._cluster.of(task)) for task in self._storage}
        self._faults: list[list[str]] = []
        self._sized: list[bool] = []
        self._auto: list[bool] = []
        self._names: set[str] = set()
        self._machines: dict[str, dict[str, t.Any]] = {}
        self._cluster_values: dict[str, t.Any] = {}

    def take(self, host: str) -> None:
        """Check the variables of a host."""
        raw = self._variables["hostvars"].raw_get(host)
        self._names.update(raw)
        self._machines[host] = {
            "host": raw.get("ansible_host", host),
            "computer_name": raw.get("azure_computer_name", ""),
        }
        for task, kinds in self._storage.items():
            if host in self._tasks[task]:
                kinds.add(host, raw)
        if self.sets.add(host, raw):
            values, faults = _templated(self._loader, raw, self._inputs)
            judged = rules.judge(values)
            self._faults.append(faults + judged.faults)
            self._sized.append(any(raw.get(name) for name in _SIZES))
            self._auto.append(auto.is_auto(values.get(_SIZES[0])) and not values.get(_SIZES[2]))
            if host == self._main:
                self._cluster_values = judged.good

    def storage(self) -> list[str]:
        """Return one host for each different storage setting of servers, clients and compute nodes."""
        return sorted({members[0] for kinds in self._storage.values() for members in kinds.members})

    def auto(self) -> list[str]:
        """Return the compute nodes whose VM size has to be found."""
        found = [host for members, wanted in zip(self.sets.members, self._auto) if wanted for host in members]
        return [host for host in found if host in self._tasks["computes"]]

    def problems(self) -> list[str]:
        """Return each message once, with its hosts unless it applies to all hosts."""
        hosts: dict[str, list[str]] = {}
        for faults, members in zip(self._faults, self.sets.members):
            for fault in faults:
                hosts.setdefault(fault, []).extend(members)
        older = older_names.known(self._names, self._cluster.groups)
        return [
            *rules.unknown(self._names - older, self._cluster_values.get("gpucluster_own_variables") or []),
            *(_located(fault, found, len(self._machines)) for fault, found in hosts.items()),
            *self._of_cluster(),
        ]

    def _of_cluster(self) -> list[str]:
        unsized = [host for members, sized in zip(self.sets.members, self._sized) if not sized for host in members]
        cluster = dataclasses.replace(
            self._cluster, values=self._cluster_values, machines=self._machines, unsized=unsized
        )
        return inputs_cluster.problems(cluster)


def _templated(loader: t.Any, raw: Raw, names: set[str]) -> tuple[dict[str, t.Any], list[str]]:
    """Return the inputs of one host, and the errors in their templates."""
    templar = Templar(loader=loader, variables=dict(raw))
    values: dict[str, t.Any] = {}
    faults: list[str] = []
    for name in sorted(names.intersection(raw)):
        try:
            values[name] = plain(templar.template(raw[name]))
        except AnsibleError as exc:
            text = " ".join(str(exc).split())
            if not any(word in text for word in _LATER):
                faults.append(f"{name}: {text}")
    return values, faults


def _failed(summary: str, problems: list[str]) -> dict[str, t.Any]:
    """Return the result of a task that fails if there are problems."""
    if not problems:
        return {}
    lines = [summary, *problems[:_MOST], *filter(None, [words.more(problems, _MOST)])]
    return {"failed": True, "msg": "\n".join(lines)}


def _is_storage(name: str) -> bool:
    return name.startswith(_STORAGE)


def _located(fault: str, hosts: list[str], total: int) -> str:
    if len(hosts) >= total:
        return fault
    try:
        return f"{fault} ({hostlist.compress(hosts)})"
    except ValueError:
        return f"{fault} ({', '.join(hosts[:5])})"
