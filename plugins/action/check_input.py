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
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs import (
    older_names,
    removed,
    roles,
    rules,
    sets,
)
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs import types as inputs_types
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import hostlist

if t.TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    Raw = Mapping[str, t.Any]

# Errors about values that are known only after a host was contacted. Its role checks such a value then.
_LATER = ("ansible_", "hostvars", "has no attribute")
_SIZES = ("gpucluster_vm_size", "azure_vm_size", "gpucluster_vm_size_record", "virtual_machine_size")
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
        read = _templated(self._loader, variables, names)
        return _failed(f"Wrong input of the role {role}.", read.faults + roles.problems(role, read.values))

    def _hosts(self, arguments: Raw, variables: Raw) -> dict[str, t.Any]:
        sizes = auto.read(arguments["vm_sizes"] or "")
        judge = _Judge(self._loader, variables, arguments["main"])
        for host in dict.fromkeys([arguments["main"], *arguments["hosts"]]):
            raw = variables["hostvars"].raw_get(host)
            if host in sizes and auto.is_auto(raw.get("gpucluster_vm_size")):
                raw = {**raw, "gpucluster_vm_size": sizes[host]}
            judge.take(host, raw)
        problems = judge.problems()
        if problems:
            return _failed("Wrong input. No machine was touched.", problems)
        return {"sets": len(judge.found), "late": judge.late(), "auto": judge.auto()}


class _Read(t.NamedTuple):
    """The inputs of one host, the errors in their templates, and the names that need facts."""

    values: dict[str, t.Any]
    faults: list[str]
    later: list[str]


class _Found(t.NamedTuple):
    """What was found about machines with equal inputs and the same tasks."""

    members: list[str]
    faults: list[str]
    sized: bool
    # Whether an input of a role waits for facts.
    late: bool
    # Whether the VM size of these compute nodes has to be found first.
    auto: bool


class _Judge:
    """The inputs of the hosts that were added, and the errors in them."""

    def __init__(self, loader: t.Any, variables: Raw, main: str) -> None:
        """Store the variables, and the host with the inputs of the whole cluster."""
        self._loader, self._main = loader, main
        self._inputs = {*rules.known(), *_SIZES}
        self._sets: dict[tuple[str, ...], sets.Distinct] = {}
        groups = {name: list(hosts) for name, hosts in variables["groups"].items()}
        self._cluster = inputs_cluster.Cluster(groups, {}, {})
        self._tasks = {task: frozenset(self._cluster.of(task)) for task in inputs_cluster.GROUPS}
        of_main = variables["hostvars"].raw_get(main)
        # Variables of the play and of Ansible itself.
        self._play = {name: value for name, value in variables.items() if name not in of_main}
        self._names: set[str] = set()
        self._machines: dict[str, dict[str, t.Any]] = {}
        self._cluster_values: dict[str, t.Any] = {}
        self.found: list[_Found] = []

    def take(self, host: str, raw: Raw) -> None:
        """Check the variables of a host, as written."""
        self._names.update(raw)
        self._machines[host] = {
            "host": raw.get("ansible_host", host),
            # The inventory plugins azure_vms and azure_rm.
            "computer_name": raw.get("azure_computer_name") or raw.get("computer_name", ""),
        }
        tasks = tuple(task for task, hosts in self._tasks.items() if host in hosts)
        equal = self._sets.setdefault(tasks, sets.Distinct(self._inputs.__contains__))
        if equal.add(host, raw):
            self.found.append(self._find(host, raw, tasks, equal.members[-1]))

    def _find(self, host: str, raw: Raw, tasks: tuple[str, ...], members: list[str]) -> _Found:
        """Check the inputs of the first host of a set, alone and with the defaults of the roles of its tasks."""
        read = _templated(self._loader, {**self._play, **raw}, self._inputs.intersection(raw))
        judged = rules.judge(read.values)
        if host == self._main:
            self._cluster_values = judged.good
        faults = dict.fromkeys(read.faults + judged.faults)
        late = bool(read.later)
        size = read.values.get("gpucluster_vm_size")
        unsized = auto.is_auto(size) and not read.values.get("gpucluster_vm_size_record") and "computes" in tasks
        for applied in [] if unsized else roles.APPLIED:
            if set(applied.tasks) & set(tasks):
                of_role = self._of_role(applied, raw)
                faults.update(dict.fromkeys(of_role.faults))
                late = late or bool(of_role.later)
        return _Found(members, list(faults), any(raw.get(name) for name in _SIZES), late, unsized)

    def _of_role(self, applied: roles.Applied, raw: Raw) -> _Read:
        """Return the inputs of a role with their defaults, and all errors; nothing if the machine skips the role."""
        variables = {
            **_file(self._loader, applied.role, "defaults"),
            **self._play,
            **raw,
            **_file(self._loader, applied.role, "vars"),
        }
        if not applied.applies(_templated(self._loader, variables, roles.DECIDING).values):
            return _Read({}, [], [])
        read = _templated(self._loader, variables, inputs_types.of_role(applied.role, applied.entry_point))
        # The rules of a role compare its inputs, so they need all of them.
        faults = [] if read.later else roles.problems(applied.role, read.values)
        return read._replace(faults=read.faults + faults)

    def late(self) -> list[str]:
        """Return the hosts with an input that waits for facts. Their roles have to check it."""
        return sorted(host for one in self.found if one.late for host in one.members)

    def auto(self) -> list[str]:
        """Return the compute nodes whose VM size has to be found."""
        return sorted(host for one in self.found if one.auto for host in one.members)

    def problems(self) -> list[str]:
        """Return each message once, with its hosts unless it applies to all hosts."""
        hosts: dict[str, list[str]] = {}
        for one in self.found:
            for fault in one.faults:
                hosts.setdefault(fault, []).extend(one.members)
        older = older_names.known(self._names, self._cluster.groups)
        own = self._cluster_values.get("gpucluster_own_variables") or []
        gone = removed.problems(self._names, own)
        return [
            *gone.values(),
            *rules.unknown(self._names - older - set(gone), own),
            *(_located(fault, found, len(self._machines)) for fault, found in hosts.items()),
            *self._of_cluster(),
        ]

    def _of_cluster(self) -> list[str]:
        unsized = [host for one in self.found if not one.sized for host in one.members]
        cluster = dataclasses.replace(
            self._cluster, values=self._cluster_values, machines=self._machines, unsized=unsized
        )
        return inputs_cluster.problems(cluster)


def _file(loader: t.Any, role: str, kind: str) -> dict[str, t.Any]:
    """Return the defaults or the variables of a role as written."""
    path = inputs_types.ROLES / role / kind / "main.yml"
    return (loader.load_from_file(str(path), trusted_as_template=True) or {}) if path.is_file() else {}


def _templated(loader: t.Any, raw: Raw, names: Collection[str]) -> _Read:
    """Return the inputs of one host. An error about facts that are not gathered is no fault."""
    templar = Templar(loader=loader, variables=dict(raw))
    read = _Read({}, [], [])
    for name in sorted(set(names).intersection(raw)):
        try:
            read.values[name] = plain(templar.template(raw[name]))
        except AnsibleError as exc:
            text = " ".join(str(exc).split())
            if any(word in text for word in _LATER):
                read.later.append(name)
            else:
                read.faults.append(f"{name}: {text}")
    return read


def _failed(summary: str, problems: list[str]) -> dict[str, t.Any]:
    """Return the result of a task that fails if there are problems."""
    if not problems:
        return {}
    lines = [summary, *problems[:_MOST], *filter(None, [words.more(problems, _MOST)])]
    return {"failed": True, "msg": "\n".join(lines)}


def _located(fault: str, hosts: list[str], total: int) -> str:
    if len(hosts) >= total:
        return fault
    try:
        return f"{fault} ({hostlist.compress(hosts)})"
    except ValueError:
        return f"{fault} ({', '.join(hosts[:5])})"
