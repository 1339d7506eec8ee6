# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter input_problems."""

from __future__ import annotations

DOCUMENTATION = r"""
name: input_problems
short_description: What is wrong with inputs of roles
version_added: 0.1.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Takes values of inputs by their names, and returns a sentence for each fault with the input, what was found and what
    is allowed. M(hpcai.gpucluster.check_input) does the same for all inputs of many hosts.
options:
  _input:
    description: Values of inputs by their names.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Refuse a mode without quotes
  ansible.builtin.assert:
    that: problems | length == 0
    fail_msg: "{{ problems | join('\n') }}"
  vars:
    problems: "{{ {'users_home_mode': users_home_mode} | hpcai.gpucluster.input_problems }}"
"""

RETURN = r"""
_value:
  description: One sentence for each fault; empty if there is none.
  type: list
  elements: str
"""

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs import rules
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs.plain import plain


def input_problems(values: t.Mapping[str, t.Any]) -> list[str]:
    """Return one sentence for each fault."""
    return rules.judge(plain(values)).faults


class FilterModule:
    """Tell Ansible the name of the filter."""

    def filters(self) -> dict[str, t.Any]:
        """Return the filters of this file."""
        return {"input_problems": input_problems}
