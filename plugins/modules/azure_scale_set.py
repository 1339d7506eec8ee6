#!/usr/bin/python
# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action azure_scale_set."""

from __future__ import annotations

DOCUMENTATION = r"""
module: azure_scale_set
short_description: Read a set of nodes in Azure, grow it, or remove named nodes from it
version_added: 0.3.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - A set is one entry of C(gpu_sets) in C(azure_cluster). It has one scale set for each placement group. Their tags
    C(gpucluster_set) and C(slurm_cluster) name the set and the cluster.
  - With O(count), grows the set by one request for each scale set that grows, in their order, and waits until the
    machines run. Starts machines that exist and do not run, such as evicted spot machines.
  - Never reduces the capacity of a scale set below the number of its machines, because Azure would choose the machines
    to delete. A set shrinks by the names of nodes, with O(remove).
  - If Azure refuses or cannot make all machines, those that run stay. Machines that Azure could not make, which do not
    run, are deleted by name, and the capacity becomes the number of machines. The task then fails, and says what
    happened and what to do. The result is the same as that of a task that succeeds.
  - Refuses scale sets of CycleCloud, which changes them itself.
  - The required role is Virtual Machine Contributor on the resource group.
  - Use the playbook C(azure_scale) for nodes of a cluster. It also drains, joins and removes them in Slurm.
extends_documentation_fragment:
  - hpcai.gpucluster._attributes
  - hpcai.gpucluster._azure_sign_in.module
  - hpcai.gpucluster._azure_session
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  cluster:
    description: Name of the cluster.
    type: str
    required: true
  set:
    description: Name of the set.
    type: str
    required: true
  count:
    description:
      - Number of machines that the set shall have. It must not be less than the set has.
      - Without this option and without O(remove), the task only reads.
    type: int
  remove:
    description: Host names of the nodes to delete. A node without a machine is no error.
    type: list
    elements: str
    default: []
  limit:
    description:
      - Number of machines that one scale set may have, C(instances_per_group) of the set. V(0) is the limit of Azure,
        100 with a single placement group.
    type: int
    default: 0
seealso:
  - module: hpcai.gpucluster.azure_stack
  - plugin: hpcai.gpucluster.azure_scale_nodes
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Grow a set to sixteen machines
  hpcai.gpucluster.azure_scale_set:
    resource_group: hpc
    cluster: hpc
    set: h100
    count: 16

- name: Delete two machines
  hpcai.gpucluster.azure_scale_set:
    resource_group: hpc
    cluster: hpc
    set: h100
    remove: [hpc-h100-00000E, hpc-h100-00000F]
"""

RETURN = r"""
scale_sets:
  description: The scale sets in the order in which they grow, with C(name), C(capacity), C(limit), C(vm_size), C(spot).
  returned: success, or a set that is not as asked
  type: list
  elements: dict
machines:
  description:
    - The machines, with C(scale_set), C(id), C(name), C(node) (host name in lower case), C(provisioning), C(power),
      C(vm_id), C(usable), C(broken), C(stopped).
  returned: success, or a set that is not as asked
  type: list
  elements: dict
prefixes:
  description: Beginnings of the host names of the scale sets.
  returned: success, or a set that is not as asked
  type: list
  elements: str
added:
  description: Host names of the new machines that run. In check mode, empty strings.
  returned: success, or a set that is not as asked
  type: list
  elements: str
removed:
  description: Host names of the deleted machines.
  returned: success, or a set that is not as asked
  type: list
  elements: str
problems:
  description: What is not as asked, one sentence each.
  returned: success, or a set that is not as asked
  type: list
  elements: str
requests:
  description: Number of requests to Azure.
  returned: success
  type: int
"""
