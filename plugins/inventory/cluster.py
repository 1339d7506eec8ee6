# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Inventory plugin for cluster.yml, one file that describes a cluster."""

from __future__ import annotations

DOCUMENTATION = r"""
name: cluster
short_description: One file that describes a Slurm cluster
version_added: 0.3.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Reads a file whose name ends in C(cluster.yml) or C(cluster.yaml), and sets the hosts, groups and variables that the
    playbooks of this collection use. C(ansible-inventory), C(--limit), C(group_vars) and C(host_vars) work as with any
    inventory.
  - C(docs/cluster-file.md) describes the file. The JSON Schema C(plugins/plugin_utils/_cluster_file/schema.json) has
    each key. It gives editors completion, and the plugin checks the file against it.
  - P(hpcai.gpucluster.cluster#inventory) creates the groups C(slurm_controller), C(slurm_database), C(slurm_build),
    C(slurm_login), C(slurm_compute), C(nfs_server), C(nfs_client) and C(monitoring_server). A group without machines is
    empty.
  - The variables of the file are variables of the group C(all), those of a machine are variables of its host.
    C(group_vars) beside the file have precedence over the former, C(host_vars) over both.
  - The message about a fault names the file, its line, the key, the value found, what is allowed, and the nearest
    allowed word. Ansible still exits with status 0 unless E(ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED) is set, as in the
    C(ansible.cfg) of this collection.
extends_documentation_fragment:
  - ansible.builtin.constructed
options:
  plugin:
    description: Identifies the file for Ansible.
    type: str
    required: true
    choices: [hpcai.gpucluster.cluster]
  name:
    description: Name of the cluster in Slurm.
    type: str
    required: true
  connection:
    description: How Ansible connects to the machines.
    type: dict
  admins:
    description: Users of the file who may use sudo.
    type: list
    elements: str
  machines:
    description: Machines or ranges of machines such as V(gpu[1-64]), with their roles, addresses and VM sizes.
    type: dict
  vm_size:
    description: Hardware of the compute nodes without a VM size of their own, a size of the catalogue or V(auto).
    type: str
  users:
    description: Users of the cluster by login name.
    type: dict
  user_groups:
    description: Groups of users by name.
    type: dict
  partitions:
    description: Slurm partitions by name.
    type: dict
  slurm:
    description: Release and configuration of Slurm.
    type: dict
  storage:
    description: Shared directories.
    type: dict
  mirror:
    description: URL of a mirror of upstream releases.
    type: str
  proxy:
    description: Proxy for downloads.
    type: dict
  features:
    description: What is on.
    type: dict
  options:
    description: Site options by name, V(present) or V(absent).
    type: dict
  azure:
    description: The cluster that the playbook C(azure_up.yml) creates.
    type: dict
  vars:
    description: Any other variable of all machines. A secret in clear text is refused.
    type: dict
"""

EXAMPLES = r"""
# Four DGX H100. The controller exports /home and /shared.
plugin: hpcai.gpucluster.cluster
name: training
connection: {user: ubuntu}
vm_size: DGX_H100
machines:
  head1: {address: 192.0.2.10, roles: [controller, database, build, nfs_server]}
  dgx[01-04]: {address: '192.0.2.[11-14]', roles: compute}
admins: [alice]
users:
  alice: {uid: 2001, ssh_keys: [ssh-ed25519 AAAA... alice@laptop]}
partitions:
  batch: {default: true, max_time: 7-00:00:00}
features: {pam_adopt: true}
vars:
  base_packages: [htop]
---
# Machines that other files of the inventory have.
plugin: hpcai.gpucluster.cluster
name: training
machines: {}
users:
  alice: {uid: 2001}
"""

import typing as t

from ansible.errors import AnsibleParserError
from ansible.plugins.inventory import BaseInventoryPlugin, Constructable
from ansible.template import trust_as_template

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure import expressions
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._cluster_file import inventory as cluster_inventory
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._cluster_file import problems

if t.TYPE_CHECKING:
    from ansible.inventory.data import InventoryData
    from ansible.parsing.dataloader import DataLoader

_RANGED = ("ansible_host", "gpucluster_switch", "gpucluster_rack")
_SUFFIXES = ("cluster.yml", "cluster.yaml")


class InventoryModule(BaseInventoryPlugin, Constructable):  # type: ignore[misc]
    """Read cluster.yml."""

    NAME = "hpcai.gpucluster.cluster"
    # The file belongs to the administrator, as other inventory files.
    trusted_by_default = True

    def verify_file(self, path: str) -> bool:
        """Return whether the name of the file is one of this plugin."""
        return bool(super().verify_file(path)) and path.endswith(_SUFFIXES)

    def parse(self, inventory: InventoryData, loader: DataLoader, path: str, cache: bool = True) -> None:
        """Add the hosts, groups and variables of the file."""
        super().parse(inventory, loader, path, cache)
        self._found: t.Any = inventory
        data = loader.load_from_file(path, cache="none", trusted_as_template=True)
        faults = problems.find(data)
        if faults:
            text = loader.get_text_file_contents(path)
            raise AnsibleParserError(f"Wrong input.\n{problems.message(faults, path, text)}")
        self.set_options(direct=data, var_options=self._vars)
        self._add(cluster_inventory.build(data))

    def _add(self, found: cluster_inventory.Inventory) -> None:
        """Add an inventory to that of Ansible."""
        for group in found.groups:
            self._found.add_group(group)
        for name, variables in found.hosts.items():
            self._add_host(name, variables)
        for group, members in found.groups.items():
            for host in members:
                self._found.add_child(group, host)
        for group, variables in found.variables.items():
            for name, value in variables.items():
                self._found.set_variable(group, name, value)
        self._construct(found)

    def _add_host(self, name: str, variables: dict[str, t.Any]) -> None:
        """Add one host. Setting the variables on the host is faster than C(inventory.set_variable)."""
        self._found.add_host(name)
        host = self._found.get_host(name)
        for key, value in variables.items():
            # The values of a range are new strings, which are no templates yet.
            host.set_variable(key, trust_as_template(value) if key in _RANGED else value)

    def _construct(self, found: cluster_inventory.Inventory) -> None:
        """Add the variables and groups that expressions define."""
        compose, groups, keyed = (self.get_option(name) for name in ("compose", "groups", "keyed_groups"))
        strict = self.get_option("strict")
        nodes = set(found.groups["slurm_compute"])
        for name in found.hosts if compose or groups or keyed else ():
            host = self._found.get_host(name)
            shared = found.variables["slurm_compute"] if name in nodes else {}
            known = {**found.variables["all"], **shared, **host.get_vars()}
            self._set_composite_vars(compose, known, name, strict=strict)
            known.update(host.get_vars())
            self._add_host_to_composed_groups(groups, known, name, strict=strict, fetch_hostvars=False)
            self._add_host_to_keyed_groups(keyed, known, name, strict=strict, fetch_hostvars=False)

    def _compose(self, template: t.Any, variables: dict[str, t.Any], disable_lookups: t.Any = ...) -> t.Any:  # noqa: ARG002
        """Evaluate the name of a variable directly; Jinja needs a millisecond for each host."""
        simple = isinstance(template, str) and not self.get_option("use_extra_vars")
        read = expressions.value_of(template) if simple else None
        try:
            value = read(variables) if read else "{{"
        except (expressions.MissingError, expressions.LeaveToJinjaError):
            value = "{{"
        return super()._compose(template, variables) if isinstance(value, str) and "{{" in value else value
