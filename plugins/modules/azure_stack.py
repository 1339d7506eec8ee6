#!/usr/bin/python
# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action azure_stack."""

from __future__ import annotations

DOCUMENTATION = r"""
module: azure_stack
short_description: Create, change and remove all Azure resources of a cluster as one deployment stack
version_added: 0.3.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Deploys a literal ARM template as a deployment stack at the scope of a resource group. It creates the resource group
    if it does not exist.
  - Compares first, with the what-if operation of Azure, and writes only if something differs. A run that finds no
    change sends three requests; it sends one more each time that Azure has not finished the comparison.
  - A property that no template of this stack named is a default of the service. Its absence in the template is no
    change.
  - Before a write, Azure validates the template with its resource providers, so that a quota or a VM size that is not
    available is an error before anything is created.
  - A resource that the template no longer names is deleted. Machines and data need O(delete) for that.
  - With O(state=absent), deletes the stack with its resources and role assignments, then what Azure created beside
    them, such as disks, then the resource group if this module created it and it holds nothing else.
  - Refuses a template with a resource that exists, that this stack did not make and that has no tag
    C(gpucluster_cluster) of the cluster, unless O(adopt) has its name. Refuses a removal that would delete a resource
    without this tag.
  - Refuses a stack or a resource group whose tag C(gpucluster_cluster) names another cluster, and a stack without it.
  - Waits while another run changes the stack, then compares again. A run after an interrupted or failed run continues.
extends_documentation_fragment:
  - hpcai.gpucluster._attributes
  - hpcai.gpucluster._azure_sign_in.module
  - hpcai.gpucluster._azure_session
attributes:
  check_mode:
    support: full
    details: Sends requests that read, validate and compare only. Before the first run, it also tells which resource
      providers are not registered and which rights the caller lacks.
  diff_mode:
    support: full
    details: Names each property that changes, with its values. Custom data, user data and passwords are not shown.
  idempotent:
    support: full
options:
  name:
    description: Name of the deployment stack.
    type: str
    required: true
  cluster:
    description: Name of the cluster that owns the stack. It becomes the tag C(gpucluster_cluster).
    type: str
    required: true
  state:
    description: V(present) creates or changes the stack, V(absent) removes it.
    type: str
    choices: [present, absent]
    default: present
  create_resource_group:
    description: Create the resource group if it does not exist.
    type: bool
    default: true
  location:
    description: Location of a new resource group, such as V(southcentralus).
    type: str
    default: ''
  template:
    description:
      - The ARM template for the scope of a resource group, required with O(state=present).
      - It is literal. Parameters, variables, copy loops and conditions are refused. The only expression is
        C([reference(...)]), for a value that Azure creates, such as the principal ID of an identity.
    type: dict
  tags:
    description: Tags of the stack, and of the resource group if this module created it.
    type: dict
    default: {}
  keep_capacity:
    description:
      - Keep the number of instances of scale sets that exist. Set it to V(false) to apply C(sku.capacity) of the
        template, which deletes instances, also with jobs, if it is lower.
    type: bool
    default: true
  delete:
    description:
      - Names of resources with machines or data that the template no longer names and that the module may delete. These
        are scale sets with machines, virtual machines, disks, storage accounts, volumes and file systems.
      - Without the name of each, the module changes nothing and fails.
    type: list
    elements: str
    default: []
  adopt:
    description:
      - Names of resources that exist, that this stack did not make and that it may take over, with a slash after each
        parent. The module changes them as the template says, and O(state=absent) deletes them.
    type: list
    elements: str
    default: []
    version_added: 0.3.0
  deny:
    description:
      - What Azure denies to other callers for the resources of the stack (C(denySettings)).
      - A value other than V(none) also denies changes by scaling, and needs the role C(Azure Deployment Stack Owner).
    type: str
    choices: [none, denyDelete, denyWriteAndDelete]
    default: none
  validation:
    description: Level of the validation. V(Template) finds neither quotas nor VM sizes that are not available.
    type: str
    choices: [Provider, ProviderNoRbac, Template]
    default: Provider
notes:
  - The identity needs C(Contributor) on the subscription, or on an existing resource group. For role assignments in the
    template it also needs C(Role Based Access Control Administrator), and for role definitions
    C(User Access Administrator).
seealso:
  - plugin: hpcai.gpucluster.azure_vms
    plugin_type: inventory
"""

EXAMPLES = r"""
- name: Create or change the cluster
  hpcai.gpucluster.azure_stack:
    name: training
    cluster: training
    resource_group: training-rg
    location: southcentralus
    template: "{{ azure_template }}"
    tags:
      owner: research

- name: Remove the cluster
  hpcai.gpucluster.azure_stack:
    name: training
    cluster: training
    resource_group: training-rg
    state: absent
"""

RETURN = r"""
changes:
  description: The changes, in the order of the template.
  returned: success
  type: list
  elements: dict
  contains:
    resource:
      description: ID of the resource.
      type: str
    type:
      description: Type of the resource.
      type: str
    name:
      description: Name of the resource, with a slash after each parent.
      type: str
    change:
      description: V(Create), V(Modify), V(Delete), or V(Unsupported) if what-if cannot compare a resource of a template
        that was edited.
      type: str
    properties:
      description: The properties that change.
      type: list
      elements: dict
      contains:
        path:
          description: Path of the property.
          type: str
        before:
          description: Value in Azure; null if there is none.
          type: raw
        after:
          description: Value of the template; null if there is none.
          type: raw
outputs:
  description: Values of the outputs of the template, as of the last deployment.
  returned: success
  type: dict
kept:
  description: What was not changed on purpose, one sentence each, such as the number of instances of a scale set.
  returned: success
  type: list
  elements: str
requests:
  description: Number of requests to Azure Resource Manager, with retries, without the sign-in.
  returned: always
  type: int
seconds:
  description: Duration in seconds.
  returned: always
  type: float
"""
