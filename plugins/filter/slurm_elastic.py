# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter slurm_elastic."""

from __future__ import annotations

DOCUMENTATION = r"""
name: slurm_elastic
short_description: Return the nodes of elastic sets and the settings of their program
version_added: 0.3.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Elastic nodes have a machine only while jobs need them. Slurm starts and stops them by power saving.
  - Ignores sets with faults, because P(hpcai.gpucluster.slurm_input_problems#filter) refuses them.
options:
  _input:
    description: The sets, as the input C(slurm_elastic) of the role C(slurm) describes them.
    type: list
    elements: dict
    required: true
  azure:
    description: Where the scale sets are, as the input C(slurm_elastic_azure) describes it.
    type: dict
    default: {}
  directory:
    description: Directory of the program for its state, which all controllers share.
    type: str
    default: /var/spool/slurmctld/elastic
  assignments:
    description: Directory with the names of the nodes of machines in Azure.
    type: str
    default: /var/spool/slurmctld/elastic/nodes
"""

EXAMPLES = r"""
- name: Show the nodes of a set
  ansible.builtin.debug:
    msg: "{{ (sets | hpcai.gpucluster.slurm_elastic).nodes }}"
  vars:
    sets:
      - {name: h100, nodes: 'h100-[1-16]', vm_size: Standard_ND96isr_H100_v5, provider: command, program: /opt/cloud}
"""

RETURN = r"""
_value:
  description: What the sets add to the cluster.
  type: dict
  contains:
    nodes:
      description: Groups of equal nodes, as P(hpcai.gpucluster.cluster_nodes#filter) returns them.
      type: list
      elements: dict
    topology:
      description: Place by hostlist.
      type: dict
    program:
      description: Configuration of C(gpucluster-elastic).
      type: dict
"""

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue.plain import plain
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import elastic


def slurm_elastic(
    sets: t.Any,
    azure: t.Any = None,
    directory: str = "/var/spool/slurmctld/elastic",
    assignments: str = "/var/spool/slurmctld/elastic/nodes",
) -> dict[str, t.Any]:
    """Return what elastic sets add to the cluster."""
    given, place = plain(sets), plain(azure or {})
    try:
        return {
            "nodes": elastic.groups(given),
            "topology": elastic.places(given),
            "program": elastic.program(given, place, directory, assignments),
        }
    except (ValueError, KeyError, AttributeError, TypeError) as exc:
        raise AnsibleFilterError(f"hpcai.gpucluster.slurm_elastic: {exc!r}") from exc


class FilterModule:
    """Tell Ansible the name of the filter."""

    def filters(self) -> dict[str, t.Any]:
        """Return the filters of this file."""
        return {"slurm_elastic": slurm_elastic}
