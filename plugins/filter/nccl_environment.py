# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Return the environment variables of NCCL for jobs on a machine."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue import records

DOCUMENTATION = r"""
name: nccl_environment
author: HPC AI Infrastructure Team (@hpcai)
version_added: 0.1.0
short_description: Return the environment variables of NCCL for jobs on a machine
description:
  - Returns the variables of the hardware record as strings, with the topology file if there is one.
  - For a job on a single node, E(NCCL_TOPO_FILE) is empty. A topology file breaks such jobs on some sizes, as the
    single-node checks of Azure's own images found on H100 and H200. An empty variable overrides the one in
    C(nccl.conf), because the environment of the process has precedence.
positional: topology_file, nodes, kind
options:
  _input:
    description: A hardware record, as P(hpcai.gpucluster.vm_size#filter) returns it.
    type: dict
    required: true
  topology_file:
    description: Path of the topology file on the machine. Empty or not set if there is none.
    type: str
  nodes:
    description: Number of nodes of the job.
    type: int
    default: 2
  kind:
    description:
      - V(nccl) returns only the variables of NCCL, which may be set in C(nccl.conf).
      - V(other) returns all others, such as those of UCX, which must be in the environment of the job.
      - V(all) returns both.
    type: str
    choices: [nccl, other, all]
    default: nccl
"""

EXAMPLES = r"""
- name: Run an all-reduce on one node, without the topology file
  ansible.builtin.command:
    argv: [srun, -N1, --gpus-per-node=8, all_reduce_perf, -g8]
  environment: "{{ record | hpcai.gpucluster.nccl_environment(nodes=1, kind='all') }}"
  changed_when: false
"""

RETURN = r"""
_value:
  description: Values by the name of the variable.
  type: dict
  sample: {NCCL_IB_PCI_RELAXED_ORDERING: "1", NCCL_TOPO_FILE: /opt/microsoft/ndv4-topo.xml}
"""


def nccl_environment(
    record: t.Any, topology_file: str | None = None, nodes: int = 2, kind: str = "nccl"
) -> dict[str, str]:
    """Return the environment variables of NCCL for jobs on a machine."""
    try:
        record = records.checked(record, "hpcai.gpucluster.nccl_environment")
    except records.CatalogueError as exc:
        raise AnsibleFilterError(str(exc)) from exc
    if kind not in ("nccl", "other", "all"):
        raise AnsibleFilterError(f"hpcai.gpucluster.nccl_environment: kind is {kind!r}, it must be nccl, other or all")
    found: dict[str, t.Any] = {}
    if kind != "nccl":
        found.update(record["environment"])
    if kind != "other":
        found.update(record["nccl"]["environment"])
        if int(nodes) == 1:
            found["NCCL_TOPO_FILE"] = ""
        elif topology_file:
            found["NCCL_TOPO_FILE"] = topology_file
    return {str(name): str(value) for name, value in found.items()}


class FilterModule:
    """Offer the filter to Ansible."""

    def filters(self) -> dict[str, t.Any]:
        """Return the filters by name."""
        return {"nccl_environment": nccl_environment}
