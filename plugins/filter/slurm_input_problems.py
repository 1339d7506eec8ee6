# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter slurm_input_problems."""

from __future__ import annotations

DOCUMENTATION = r"""
name: slurm_input_problems
short_description: Find errors in the inputs of the role slurm before any host is contacted
version_added: 0.1.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Checks each input of the role C(slurm), their combination, and the resulting configuration files. This includes
    accounts, partitions, the topology and the source of Slurm.
options:
  _input:
    description: The inputs by name, as the role's entry point C(check_input) passes them.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Refuse inputs that Slurm would refuse
  ansible.builtin.assert:
    that: problems | length == 0
    fail_msg: "{{ problems | join('\n') }}"
  vars:
    problems: "{{ slurm_inputs | hpcai.gpucluster.slurm_input_problems }}"
"""

RETURN = r"""
_value:
  description: One sentence for each problem. Empty if there is none.
  type: list
  elements: str
"""

import typing as t
from collections.abc import Mapping

from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue.plain import plain
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs import slurm_checks

if t.TYPE_CHECKING:
    from collections.abc import Callable


def slurm_input_problems(inputs: Mapping[str, t.Any]) -> list[str]:
    """Return the errors in the inputs of the role slurm."""
    if not isinstance(inputs, Mapping):
        raise AnsibleFilterError(f"hpcai.gpucluster.slurm_input_problems: expected a mapping, found {inputs!r}")
    try:
        return slurm_checks.problems(plain(inputs))
    except (KeyError, AttributeError, TypeError) as exc:
        raise AnsibleFilterError(f"hpcai.gpucluster.slurm_input_problems: {exc!r}") from exc


class FilterModule:
    """Tell Ansible the name of the filter."""

    def filters(self) -> dict[str, Callable[..., t.Any]]:
        """Return the filters of this file."""
        return {"slurm_input_problems": slurm_input_problems}
