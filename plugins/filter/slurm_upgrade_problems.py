# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter slurm_upgrade_problems."""

from __future__ import annotations

DOCUMENTATION = r"""
name: slurm_upgrade_problems
short_description: Why Slurm cannot go from one version to another in one step
version_added: 0.1.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Says why the state of one version cannot be read by another, and by way of which releases one gets there.
  - Releases up to 24.05 read the two major releases before, those from 24.11 on the three before.
  - A step back is refused.
  - The source is SchedMD's upgrade guide (doc/html/upgrades.shtml, section Compatibility Window).
positional: wanted
options:
  _input:
    description: The version that is present, as Slurm or its package names it, such as V(24.11.5).
    type: str
    required: true
  wanted:
    description: The version that is wanted.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Refuse a gap that Slurm does not support
  ansible.builtin.assert:
    that: __site_problems | length == 0
    fail_msg: "{{ __site_problems | join('\n') }}"
  vars:
    __site_problems: "{{ '22.05.8' | hpcai.gpucluster.slurm_upgrade_problems('26.05.4') }}"
"""

RETURN = r"""
_value:
  description: One message for each problem; empty when the step is supported.
  type: list
  elements: str
"""

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import release

if t.TYPE_CHECKING:
    from collections.abc import Callable


def slurm_upgrade_problems(present: str, wanted: str) -> list[str]:
    """Return why Slurm cannot be taken from one version to another in one step."""
    try:
        return release.upgrade_problems(present, wanted)
    except release.VersionError as exc:
        raise AnsibleFilterError(f"hpcai.gpucluster.slurm_upgrade_problems: {exc}") from exc


class FilterModule:
    """Tell Ansible the name of the filter."""

    def filters(self) -> dict[str, Callable[..., t.Any]]:
        """Return the filters of this file."""
        return {"slurm_upgrade_problems": slurm_upgrade_problems}
