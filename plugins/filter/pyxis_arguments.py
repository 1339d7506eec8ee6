# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter pyxis_arguments."""

from __future__ import annotations

DOCUMENTATION = r"""
name: pyxis_arguments
short_description: Return the options of pyxis in the form of Slurm's plugstack.conf
version_added: 0.1.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Returns one word for each option, in the order of the mapping. An option that is V(null) is skipped.
  - The filter does not check the options. M(hpcai.gpucluster.check_input) checks them as inputs of the role
    P(hpcai.gpucluster.pyxis#role).
options:
  _input:
    description: Options by name.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show the line of pyxis
  ansible.builtin.debug:
    # required /usr/local/lib/slurm/spank_pyxis.so runtime_path=/run/pyxis sbatch_support=1
    msg: "required /usr/local/lib/slurm/spank_pyxis.so {{ options | hpcai.gpucluster.pyxis_arguments | join(' ') }}"
  vars:
    options: {runtime_path: /run/pyxis, sbatch_support: true}
"""

RETURN = r"""
_value:
  description: The words.
  type: list
  elements: str
"""

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import pyxis

if t.TYPE_CHECKING:
    from collections.abc import Callable


def pyxis_arguments(options: t.Any) -> list[str]:
    """Return the words that follow the plugin in plugstack.conf."""
    if not isinstance(options, dict):
        raise AnsibleFilterError(f"hpcai.gpucluster.pyxis_arguments: expected a mapping, not {options!r}")
    return pyxis.arguments(options)


class FilterModule:
    """Tell Ansible the name of the filter."""

    def filters(self) -> dict[str, Callable[..., t.Any]]:
        """Return the filters of this file."""
        return {"pyxis_arguments": pyxis_arguments}
