# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter cluster_groups."""

from __future__ import annotations

DOCUMENTATION = r"""
name: cluster_groups
short_description: Return machines of older group names that are missing from the groups of this collection
version_added: 0.1.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Maps the group names of older playbooks to those of this collection. V(slurm-master) becomes V(slurm_controller),
    V(slurm-node) becomes V(slurm_compute), V(slurm-login) becomes V(slurm_login), V(slurm-nfs) becomes V(nfs_server)
    and V(slurm-nfs-client) becomes V(nfs_client).
  - Returns only missing memberships. The list is empty for an inventory that uses the names of this collection, or that
    was mapped before.
options:
  _input:
    description: The variable C(groups).
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Add machines of older group names to the groups of this collection
  ansible.builtin.add_host:
    name: "{{ item.name }}"
    groups: "{{ item.groups }}"
  loop: "{{ groups | hpcai.gpucluster.cluster_groups }}"
"""

RETURN = r"""
_value:
  description: One mapping for each machine, in the order of the inventory.
  type: list
  elements: dict
  sample: [{name: head1, groups: [slurm_controller]}]
"""

import typing as t
from collections.abc import Mapping

from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs import cluster

if t.TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def cluster_groups(groups: Mapping[str, Sequence[str]]) -> list[dict[str, t.Any]]:
    """Return the machines of older groups, each with the groups of this collection that it is missing from."""
    if not isinstance(groups, Mapping):
        raise AnsibleFilterError(f"hpcai.gpucluster.cluster_groups: expected the variable groups, found {groups!r}")
    return [{"name": host, "groups": names} for host, names in cluster.missing_members(groups).items()]


class FilterModule:
    """Tell Ansible the name of the filter."""

    def filters(self) -> dict[str, Callable[..., t.Any]]:
        """Return the filters of this file."""
        return {"cluster_groups": cluster_groups}
