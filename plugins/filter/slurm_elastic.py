# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter slurm_elastic."""

from __future__ import annotations

DOCUMENTATION = r"""
name: slurm_elastic
short_description: Return the Azure resource ID of each elastic node
version_added: 0.3.0
author: HPC AI Infrastructure Team (@hpcai)
description:
  - Returns the host variable C(azure_id) of every host, as the input C(slurm_elastic) of the role C(slurm) accepts it.
    The inventory plugin P(hpcai.gpucluster.azure_vms#inventory) sets it.
  - The filter does not need the facts of any host.
extends_documentation_fragment:
  - hpcai.gpucluster._cluster_hosts
"""

EXAMPLES = r"""
- name: Show the machines of the elastic nodes
  ansible.builtin.debug:
    msg: "{{ groups['slurm_elastic'] | hpcai.gpucluster.slurm_elastic(hostvars) }}"
"""

RETURN = r"""
_value:
  description: Resource ID by host, empty if the host has none.
  type: dict
"""

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm.elastic import ids


class FilterModule:
    """Tell Ansible the name of the filter."""

    def filters(self) -> dict[str, t.Any]:
        """Return the filters of this file."""
        return {"slurm_elastic": ids}
