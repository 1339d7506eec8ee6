# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter pyxis_problems."""

from __future__ import annotations

DOCUMENTATION = r"""
name: pyxis_problems
short_description: What a release of pyxis would refuse, found before any job does
version_added: 0.1.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - An option that pyxis does not know, or a value that it does not take, fails every job of the cluster. This finds
    both.
  - The table of options by release comes from NVIDIA's source code, C(config.c) of pyxis 0.8.0 to 0.24.0, and lies
    beside the code in C(plugin_utils/_pyxis_options.yml). Of a newer release, options that are not in the table are let
    through.
positional: version
options:
  _input:
    description: Options by name. One that is V(null) is left out.
    type: dict
    required: true
  version:
    description: Release of pyxis, such as V(0.24.0).
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Refuse what pyxis would refuse
  ansible.builtin.assert:
    that: site_problems | length == 0
    fail_msg: "{{ site_problems | join('; ') }}"
  vars:
    site_problems: "{{ {'container_scope': 'job'} | hpcai.gpucluster.pyxis_problems('0.24.0') }}"
"""

RETURN = r"""
_value:
  description: One message for each problem; empty when there is none.
  type: list
  elements: str
"""

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import pyxis

if t.TYPE_CHECKING:
    from collections.abc import Callable


def pyxis_problems(options: t.Any, version: t.Any) -> list[str]:
    """Return what a release of pyxis would refuse."""
    if not isinstance(options, dict):
        raise AnsibleFilterError(f"hpcai.gpucluster.pyxis_problems: expected a mapping, not {options!r}")
    return pyxis.problems(options, version)


class FilterModule:
    """Tell Ansible the name of the filter."""

    def filters(self) -> dict[str, Callable[..., t.Any]]:
        """Return the filters of this file."""
        return {"pyxis_problems": pyxis_problems}
