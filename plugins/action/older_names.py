# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of the module older_names."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase
from ansible.template import Templar

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue.plain import plain
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs import older_names, rules, sets

if t.TYPE_CHECKING:
    from collections.abc import Mapping

    Raw = Mapping[str, t.Any]

# Inputs of the machines that are not in the list of the roles.
_OTHERS = frozenset({"azure_vm_size", "gpucluster_vm_size_record"})


class ActionModule(ActionBase):
    """Translate the variables of DeepOps for many hosts; runs only on the control node."""

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """Return the inputs by host, the groups to add, and the summary."""
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        __, arguments = self.validate_argument_spec(
            argument_spec={"hosts": {"type": "list", "elements": "str", "required": True}}
        )
        variables = task_vars or {}
        raw = {host: variables["hostvars"].raw_get(host) for host in arguments["hosts"]}
        groups = {name: list(hosts) for name, hosts in variables["groups"].items()}
        names = {name for one in raw.values() for name in one}
        if not older_names.is_deepops(groups, names):
            return {**result, "changed": False, "inputs": {}, "groups": [], "summary": {}}
        addresses = {
            host: str(variables["hostvars"].raw_get(host).get("ansible_host", "")) for host in groups.get("all", ())
        }
        return {**result, "changed": False, **_translated(self._loader, raw, groups, addresses)}


def _translated(loader: t.Any, raw: Raw, groups: Mapping[str, list[str]], addresses: Raw) -> dict[str, t.Any]:
    """Translate each distinct set of variables once."""
    known = {name for variables in raw.values() for name in variables if older_names.entry(name)}
    inputs = rules.known() | _OTHERS
    kinds = sets.Distinct((known | inputs).__contains__)
    for host, variables in raw.items():
        kinds.add(host, variables)
    meanings, found, added = [], {}, {}
    for members in kinds.members:
        member = _host(loader, members[0], raw[members[0]], known, inputs)
        meaning = older_names.translate(member, groups, addresses)
        meanings.append(meaning)
        found.update(dict.fromkeys(members, meaning.inputs))
        added.update(older_names.memberships(member.values, groups))
    return {
        "inputs": found,
        # In the order of the inventory: the first machine of a group can have a task of its own.
        "groups": [{"name": host, "groups": added[host]} for host in dict.fromkeys([*raw, *added]) if host in added],
        "summary": older_names.summary(meanings),
    }


def _host(loader: t.Any, name: str, raw: Raw, known: set[str], inputs: set[str]) -> older_names.Member:
    """Return a host with the values of its templates."""
    templar = Templar(loader=loader, variables=dict(raw))
    values: dict[str, t.Any] = {}
    unread = set()
    for variable in known.intersection(raw):
        try:
            values[variable] = plain(templar.template(raw[variable]))
        except AnsibleError:
            unread.add(variable)
    taken = frozenset(variable for variable in inputs.intersection(raw) if raw[variable] not in (None, ""))
    return older_names.Member(name, values, taken, frozenset(unread))
