#!/usr/bin/python
# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action azure_stack."""

from __future__ import annotations

DOCUMENTATION = r"""
module: azure_stack
short_description: Create, change and remove a cluster in Azure as one deployment stack
version_added: 0.3.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Renders a literal ARM template from O(cluster) and deploys it as a deployment stack of the subscription, with a
    resource group of its own. An existing resource group is refused.
  - Asks the what-if of Azure before each write. It refuses to delete anything, to change a disk or a machine, and to
    take from the network what somebody else put there, unless O(allow) has the name.
  - A set with more machines than its C(count) is refused. The playbook C(azure_scale.yml) deletes machines by name.
  - With O(state=absent), deletes the stack, its resource group, and everything in it.
  - Nothing of it was tested against Azure itself.
extends_documentation_fragment:
  - hpcai.gpucluster._attributes
attributes:
  check_mode:
    support: full
    details: Asks what-if and the validation of Azure, and writes nothing.
  diff_mode:
    support: full
    details: Names each property that changes, with its values.
  idempotent:
    support: full
options:
  cluster:
    description: The cluster, usually C(azure_cluster). C(docs/azure-cluster.md) has its keys.
    type: raw
    required: true
  state:
    description: V(present) creates or changes the cluster, V(absent) removes it.
    type: str
    choices: [present, absent]
    default: present
  allow:
    description:
      - Resources that this run may delete, change or take over, as the message of a refusal names them, such as
        V(disks/hpc-data-0). Give them on the command line only.
    type: list
    elements: str
    default: []
  timeout:
    description: Time limit of the task in seconds. Azure continues after it, and the next run goes on from there.
    type: int
    default: 7200
requirements:
  - azure-identity, azure-mgmt-compute and azure-mgmt-resource-deploymentstacks on the control node
notes:
  - It is an action. All requests come from the control node. The sign-in is that of
    P(hpcai.gpucluster.azure_vms#inventory), from its environment variables.
  - The identity needs C(Contributor) on the subscription, and C(User Access Administrator) for C(expires) and elastic
    sets.
seealso:
  - module: hpcai.gpucluster.azure_nodes_absent
"""

EXAMPLES = r"""
- name: Create or change the cluster
  hpcai.gpucluster.azure_stack:
    cluster: "{{ azure_cluster }}"
"""

RETURN = r"""
changes:
  description: The resources that change, with C(resource), C(type), C(name), C(change) and C(properties).
  returned: success
  type: list
  elements: dict
summary:
  description: Lines for a person, such as how to log in, and what the what-if could not tell.
  returned: success
  type: list
  elements: str
"""
