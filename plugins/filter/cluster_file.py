# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter cluster_file."""

from __future__ import annotations

DOCUMENTATION = r"""
name: cluster_file
short_description: Write cluster.yml from answers
version_added: 0.3.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Returns the text of a file for P(hpcai.gpucluster.cluster#inventory), with comments. The playbook C(init.yml) uses
    this filter.
  - Fails if the resulting file would have a fault. The message names each one.
options:
  _input:
    description: The answers, all of them required.
    type: dict
    required: true
    suboptions:
      name:
        description: Name of the cluster.
        type: str
      user:
        description: User that Ansible logs in as.
        type: str
      controller:
        description: Controller, as C(NAME) or C(NAME=ADDRESS).
        type: str
      nodes:
        description: Compute nodes, as C(NAMES) or C(NAMES=ADDRESSES), such as V(gpu[1-4]=192.0.2.[11-14]).
        type: str
      vm_size:
        description: VM size of the nodes, or V(auto).
        type: str
      users:
        description:
          - Users, as C(NAME) or C(NAME=FILE), separated by commas. C(FILE) is a public key of ssh on the control node.
          - The first user may use sudo.
        type: str
  file:
    description: Name of the file. Ansible requires that it ends in C(cluster.yml).
    type: str
    default: cluster.yml
"""

EXAMPLES = r"""
- name: Show the file
  ansible.builtin.debug:
    msg: "{{ answers | hpcai.gpucluster.cluster_file }}"
  vars:
    answers:
      name: training
      user: ubuntu
      controller: head1=192.0.2.10
      nodes: gpu[1-4]=192.0.2.[11-14]
      vm_size: DGX_H100
      users: alice
"""

RETURN = r"""
_value:
  description: Text of the file.
  type: str
"""

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._cluster_file import answers as cluster_answers


def cluster_file(answers: t.Mapping[str, t.Any], file: str = "cluster.yml") -> str:
    """Return the text of cluster.yml."""
    try:
        return cluster_answers.text(answers, file)
    except cluster_answers.AnswerError as exc:
        raise AnsibleFilterError(f"Wrong answers. No file was written.\n{exc}") from exc


class FilterModule:
    """Tell Ansible the name of the filter."""

    def filters(self) -> dict[str, t.Any]:
        """Return the filters of this file."""
        return {"cluster_file": cluster_file}
