# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter cluster_answers."""

from __future__ import annotations

DOCUMENTATION = r"""
name: cluster_answers
short_description: Return the parts of an inventory from the answers to init.yml
version_added: 0.3.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Expands ranges of machines and addresses, reads public keys, and numbers the users. The playbook C(init.yml) writes
    C(cluster.yml) from the result.
  - Fails if P(hpcai.gpucluster.check_input#module) would refuse the inventory. The message names each fault.
options:
  _input:
    description: The answers C(name), C(user), C(controller), C(nodes), C(vm_size) and C(users), all of them required.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show the parts
  ansible.builtin.debug:
    msg: "{{ answers | hpcai.gpucluster.cluster_answers }}"
  vars:
    answers:
      name: training
      user: ubuntu
      controller: head1=192.0.2.10
      nodes: gpu[1-4]=192.0.2.[11-14]
      vm_size: DGX_H100
      users: alice=~/.ssh/id_ed25519.pub, bob
"""

RETURN = r"""
_value:
  description:
    - The keys C(name), C(user), C(vm_size), C(controller), C(nodes), C(networks) and C(users).
    - C(controller) and C(nodes) have the variables of each machine by its name. C(networks) is empty unless all
      addresses are IP addresses.
  type: dict
"""

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs import answers as init_answers


def cluster_answers(answers: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the parts of the inventory."""
    try:
        return init_answers.inventory(answers)
    except init_answers.AnswerError as exc:
        raise AnsibleFilterError(f"Wrong answers. No file was written.\n{exc}") from exc


class FilterModule:
    """Tell Ansible the name of the filter."""

    def filters(self) -> dict[str, t.Any]:
        """Return the filters of this file."""
        return {"cluster_answers": cluster_answers}
