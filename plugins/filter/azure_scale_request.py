# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter azure_scale_request."""

from __future__ import annotations

DOCUMENTATION = r"""
name: azure_scale_request
short_description: Check what is asked of a set of nodes in Azure
version_added: 0.3.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Checks the words of the playbook C(azure_scale) against C(azure_cluster) before any request.
  - Fails with all faults at once. Each names the word, the value found and what is allowed.
options:
  _input:
    description: The cluster, usually C(azure_cluster).
    type: dict
    required: true
  set:
    description: Name of the set.
    type: str
    required: true
  count:
    description: Number of machines that the set shall have, or an empty string.
    type: raw
    default: ''
  nodes:
    description: Names of the nodes that leave, as a list or separated by commas.
    type: raw
    default: []
  wait_for_jobs:
    description: Seconds to wait for jobs.
    type: raw
    default: 0
"""

EXAMPLES = r"""
- name: Show where a set is
  ansible.builtin.debug:
    msg: "{{ azure_cluster | hpcai.gpucluster.azure_scale_request(set='h100', count=16) }}"
"""

RETURN = r"""
_value:
  description: What is asked, as Python types.
  type: dict
  contains:
    subscription_id:
      description: Subscription of the cluster.
      type: str
    resource_group:
      description: Resource group of the cluster.
      type: str
    cluster:
      description: Name of the cluster.
      type: str
    set:
      description: Name of the set.
      type: str
    limit:
      description: Number of machines that one scale set may have.
      type: int
    count:
      description: Number of machines that the set shall have, or null.
      type: int
    nodes:
      description: Names of the nodes that leave.
      type: list
      elements: str
    wait_for_jobs:
      description: Seconds to wait for jobs.
      type: int
"""

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_scale import words
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_scale.scale_sets import ScaleError

if t.TYPE_CHECKING:
    from collections.abc import Callable


def azure_scale_request(
    cluster: t.Any,
    set: str,  # noqa: A002 - the word of the command line
    count: t.Any = "",
    nodes: t.Any = (),
    wait_for_jobs: t.Any = 0,
) -> dict[str, t.Any]:
    """Return what is asked, or fail with all faults."""
    try:
        return words.request(cluster, {"set": set, "count": count, "nodes": nodes, "wait_for_jobs": wait_for_jobs})
    except ScaleError as exc:
        raise AnsibleFilterError(str(exc)) from exc


class FilterModule:
    """Offer the filter to Ansible."""

    def filters(self) -> dict[str, Callable[..., t.Any]]:
        """Return the filters of this file by name."""
        return {"azure_scale_request": azure_scale_request}
