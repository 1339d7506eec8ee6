# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter enroot_problems."""

from __future__ import annotations

DOCUMENTATION = r"""
name: enroot_problems
short_description: What is wrong with the data about enroot, registries and images
version_added: 0.1.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Takes the variables of the role P(hpcai.gpucluster.enroot#role) as one mapping, of which any may be missing, and
    returns a sentence for each fault with the variable, what was found and what is allowed.
  - No sentence holds a password. Looks at no machine.
options:
  _input:
    description: Values of variables by their names.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Check logins before any machine is touched
  ansible.builtin.assert:
    that: __problems | length == 0
    fail_msg: "{{ __problems | join('; ') }}"
  vars:
    __problems: "{{ {'enroot_credentials': enroot_credentials} | hpcai.gpucluster.enroot_problems }}"
"""

RETURN = r"""
_value:
  description: One sentence for each fault; empty if there is none.
  type: list
  elements: str
"""

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs import enroot_checks


def enroot_problems(settings: t.Mapping[str, t.Any]) -> list[str]:
    """Return one sentence for each fault."""
    return enroot_checks.problems(settings)


class FilterModule:
    """Filters about enroot."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filters of this file by name."""
        return {"enroot_problems": enroot_problems}
