# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter azure_template."""

from __future__ import annotations

DOCUMENTATION = r"""
name: azure_template
short_description: Render the ARM template of a cluster
version_added: 0.3.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Checks C(azure_cluster) and renders a literal template for a resource group. The template has no parameter, no copy,
    no nested template, and no expression but one C(reference()) for the identity of the controller.
  - Fails with all problems of the input at once. Each names the variable, the value found and what is allowed.
  - The keys of C(azure_cluster) are described in C(docs/azure-cluster.md).
positional: capacities
options:
  _input:
    description: The cluster, usually C(azure_cluster).
    type: dict
    required: true
  capacities:
    description:
      - The current number of machines of each scale set by name. It takes precedence over C(count) of the set, so that
        a second run does not undo a change of the scale.
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Show what the cluster costs and how to log in
  ansible.builtin.debug:
    msg: "{{ (azure_cluster | hpcai.gpucluster.azure_template).summary }}"
"""

RETURN = r"""
_value:
  description: The template and what follows from the same input.
  type: dict
  contains:
    template:
      description: The template for a deployment at the scope of a resource group.
      type: dict
    sets:
      description:
        - One mapping per scale set, with V(set), V(scale_set), V(vm_size), V(count), V(max_count) and V(priority).
        - The scale sets of one set have the order in which they grow.
      type: list
      elements: dict
    summary:
      description: Lines for a person, with the commands to log in, and the costs where prices are given.
      type: list
      elements: str
    messages:
      description: What the author of the input may not expect, such as a set that is split over placement groups.
      type: list
      elements: str
    variables:
      description: Variables for C(group_vars) that follow from the template, such as C(gpucluster_networks).
      type: dict
    name:
      description: Name of the cluster.
      type: str
    subscription_id:
      description: Subscription of the cluster.
      type: str
    resource_group:
      description: Resource group of the cluster.
      type: str
    location:
      description: Region of the cluster.
      type: str
    tags:
      description: Tags of all resources.
      type: dict
"""

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_cluster import inputs, template

if t.TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def azure_template(cluster: t.Any, capacities: Mapping[str, t.Any] | None = None) -> dict[str, t.Any]:
    """Return the template of a cluster and what follows from the same input."""
    try:
        return template.rendered(cluster, capacities)
    except inputs.InputError as exc:
        raise AnsibleFilterError(f"hpcai.gpucluster.azure_template: {exc}") from exc


class FilterModule:
    """Tell Ansible the name of the filter."""

    def filters(self) -> dict[str, Callable[..., t.Any]]:
        """Return the filters of this file."""
        return {"azure_template": azure_template}
