# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Return the NCCL topology file of a machine."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.module_utils._nccl import build
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue import records

DOCUMENTATION = r"""
name: nccl_topology
author: HPC AI Infrastructure Team (@hpcai)
version_added: 0.1.0
short_description: Return the NCCL topology file of a machine
description:
  - The file lists NUMA nodes with their CPUs, GPUs and adapters with their PCI addresses, and the switches between
    them. NCCL reads it from the path in E(NCCL_TOPO_FILE). NVLink is skipped, because NCCL detects it.
  - Before the filter returns the file, it parses it by the rules of NCCL.
  - Fails if the record has no PCI addresses of its GPUs.
options:
  _input:
    description: A hardware record, as P(hpcai.gpucluster.vm_size#filter) returns it.
    type: dict
    required: true
seealso:
  - plugin: hpcai.gpucluster.vm_size
    plugin_type: filter
  - module: hpcai.gpucluster.nccl_topology
"""

EXAMPLES = r"""
- name: Show the file
  ansible.builtin.debug:
    msg: "{{ 'Standard_ND96asr_v4' | hpcai.gpucluster.vm_size | hpcai.gpucluster.nccl_topology }}"
"""

RETURN = r"""
_value:
  description: The content of the file.
  type: str
"""


def nccl_topology(record: t.Any) -> str:
    """Return the NCCL topology file of a machine."""
    try:
        return build.from_record(records.checked(record, "hpcai.gpucluster.nccl_topology"))
    except records.CatalogueError as exc:
        raise AnsibleFilterError(str(exc)) from exc
    except build.TopologyError as exc:
        raise AnsibleFilterError(f"hpcai.gpucluster.nccl_topology: {exc}") from exc


class FilterModule:
    """Offer the filter to Ansible."""

    def filters(self) -> dict[str, t.Any]:
        """Return the filters by name."""
        return {"nccl_topology": nccl_topology}
