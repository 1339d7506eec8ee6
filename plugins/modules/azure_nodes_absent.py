#!/usr/bin/python
# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action azure_nodes_absent."""

from __future__ import annotations

DOCUMENTATION = r"""
module: azure_nodes_absent
short_description: Delete the machines of nodes that left Slurm
version_added: 0.3.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Deletes the virtual machines of the given nodes, with their interfaces and system disks. It deletes no others.
  - Refuses a node that is not in O(removed), that is still in O(in_slurm), or that is in no set of the cluster.
  - Nothing of it was tested against Azure itself.
extends_documentation_fragment:
  - hpcai.gpucluster._attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: full
options:
  cluster:
    description: The cluster, usually C(azure_cluster).
    type: raw
    required: true
  nodes:
    description: Names of the nodes.
    type: list
    elements: str
    required: true
  removed:
    description: The nodes that have left according to the inventory, usually C(gpucluster_removed_nodes).
    type: list
    elements: str
    required: true
  in_slurm:
    description: The nodes that Slurm knows now.
    type: list
    elements: str
    required: true
  timeout:
    description: Time limit of the task in seconds.
    type: int
    default: 7200
requirements:
  - azure-identity, azure-mgmt-compute and azure-mgmt-resource-deploymentstacks on the control node
seealso:
  - module: hpcai.gpucluster.azure_stack
"""

EXAMPLES = r"""
- name: Delete the machine of a node that node_remove.yml removed
  hpcai.gpucluster.azure_nodes_absent:
    cluster: "{{ azure_cluster }}"
    nodes: [hpc-h100-4]
    removed: "{{ gpucluster_removed_nodes }}"
    in_slurm: []
"""

RETURN = r"""
removed:
  description: Names of the machines that were deleted.
  returned: success
  type: list
  elements: str
absent:
  description: Names without a machine, such as those that an earlier run deleted.
  returned: success
  type: list
  elements: str
"""
