# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter slurm_gres_conf."""

from __future__ import annotations

DOCUMENTATION = r"""
name: slurm_gres_conf
short_description: The text of gres.conf
version_added: 0.1.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - The GPUs of every kind of machine with their device files and the cores beside them, from the catalogue.
  - Nothing is detected on the nodes, so that a node which lost a GPU is found out instead of being believed.
options:
  _input:
    description: Groups of nodes, as P(hpcai.gpucluster.cluster_nodes#filter) returns them.
    type: list
    elements: dict
    required: true
"""

EXAMPLES = r"""
- name: Show the file
  ansible.builtin.debug:
    msg: "{{ groups['slurm_compute'] | hpcai.gpucluster.cluster_nodes(hostvars) | hpcai.gpucluster.slurm_gres_conf }}"
"""

RETURN = r"""
_value:
  description: The text, every line ended; it carries no comment.
  type: str
"""

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.filter.gres_lines import gres_lines


def slurm_gres_conf(nodes: list[dict[str, t.Any]]) -> str:
    """Return the text of gres.conf."""
    lines = ["AutoDetect=off"]
    for group in nodes:
        if group["record"]["gpus"]["count"]:
            lines += gres_lines(group["record"], group["hosts"])
    return "".join(f"{line}\n" for line in lines)


class FilterModule:
    """Tell Ansible the name of the filter."""

    def filters(self) -> dict[str, t.Any]:
        """Return the filters of this file."""
        return {"slurm_gres_conf": slurm_gres_conf}
