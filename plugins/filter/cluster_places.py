# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter cluster_places."""

from __future__ import annotations

DOCUMENTATION = r"""
name: cluster_places
short_description: Return the place of each node in the network, from the inventory
version_added: 0.1.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Returns the place of every host, as the input C(slurm_topology) of the role C(slurm) accepts it. It is the first of
    these host variables that is set, C(gpucluster_switch) (a path such as V(spine1/leaf3)), C(gpucluster_rack) and
    C(azure_slurm_switch).
  - A host with none of them has an empty place. The filter does not need the facts of any host.
extends_documentation_fragment:
  - hpcai.gpucluster._cluster_hosts
"""

EXAMPLES = r"""
- name: Show the places of the nodes
  ansible.builtin.debug:
    msg: "{{ groups['slurm_compute'] | hpcai.gpucluster.cluster_places(hostvars) }}"
"""

RETURN = r"""
_value:
  description: Place by host.
  type: dict
  sample: {gpu1: spine1/leaf1, gpu2: spine1/leaf2}
"""

import typing as t

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

VARIABLES = ("gpucluster_switch", "gpucluster_rack", "azure_slurm_switch")


def cluster_places(hosts: Iterable[str], hostvars: Mapping[str, Mapping[str, t.Any]]) -> dict[str, t.Any]:
    """Return the place of each host."""
    return {host: next((hostvars[host][name] for name in VARIABLES if hostvars[host].get(name)), "") for host in hosts}


class FilterModule:
    """Tell Ansible the name of the filter."""

    def filters(self) -> dict[str, t.Any]:
        """Return the filters of this file."""
        return {"cluster_places": cluster_places}
