# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Return the errors in the hardware that an inventory sets for a machine."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue import records

DOCUMENTATION = r"""
name: vm_size_problems
author: HPC AI Infrastructure Team (@hpcai)
version_added: 0.1.0
short_description: Return the errors in the hardware that an inventory sets for a machine
description:
  - Use it to check all machines before any host is contacted. It never fails.
  - If there is no error, P(hpcai.gpucluster.vm_size#filter) returns the record.
positional: record
options:
  _input:
    description: Name of the VM size.
    type: str
    required: true
  record:
    description: A record of the site. It has precedence if it is set and not empty.
    type: dict
seealso:
  - plugin: hpcai.gpucluster.vm_size
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Refuse hardware with errors
  ansible.builtin.assert:
    that: gpucluster_vm_size | hpcai.gpucluster.vm_size_problems(gpucluster_vm_size_record | default({})) == []
"""

RETURN = r"""
_value:
  description: One message per error, with the variable, its value and the allowed values. Empty if there is no error.
  type: list
  elements: str
"""


def vm_size_problems(name: t.Any, record: t.Any = None) -> list[str]:
    """Return the errors in the hardware that an inventory sets for a machine."""
    if record:
        return [f"gpucluster_vm_size_record: {problem}" for problem in records.problems(record)]
    try:
        records.find(name)
    except records.CatalogueError as exc:
        return [f"gpucluster_vm_size: {exc}"]
    return []


class FilterModule:
    """Offer the filter to Ansible."""

    def filters(self) -> dict[str, t.Any]:
        """Return the filters by name."""
        return {"vm_size_problems": vm_size_problems}
