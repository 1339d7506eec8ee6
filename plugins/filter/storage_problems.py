# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter storage_problems."""

from __future__ import annotations

DOCUMENTATION = r"""
name: storage_problems
short_description: What is wrong with the data about shared and local storage
version_added: 0.1.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Takes the variables of the roles P(hpcai.gpucluster.nfs#role) and P(hpcai.gpucluster.scratch#role) as one mapping,
    of which any may be missing, and returns a sentence for each fault with the variable, what was found and what is
    allowed.
  - Finds client networks that do not parse, have bits outside their mask or overlap, exports outside
    C(nfs_export_roots), two exports of one folder, two mounts on one path, mounts over the system's folders, mounts
    of one server with different C(nconnect), a disk used twice and a level of RAID with too few disks.
  - Looks at no machine. What only a machine knows, such as a mount point that is not empty, its module finds.
options:
  _input:
    description: Values of variables by their names.
    type: dict
    required: true
requirements:
  - netaddr
"""

EXAMPLES = r"""
- name: Check the exports before any machine is touched
  ansible.builtin.assert:
    that: __problems | length == 0
    fail_msg: "{{ __problems | join('; ') }}"
  vars:
    __problems: "{{ {'nfs_exports': nfs_exports, 'nfs_clients': nfs_clients} | hpcai.gpucluster.storage_problems }}"
"""

RETURN = r"""
_value:
  description: One sentence for each fault; empty if there is none.
  type: list
  elements: str
"""

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs import storage_checks


def storage_problems(settings: t.Mapping[str, t.Any]) -> list[str]:
    """Return one sentence for each fault."""
    if not storage_checks.ready():
        raise AnsibleFilterError(
            "hpcai.gpucluster.storage_problems needs the Python package netaddr where Ansible runs"
        )
    return storage_checks.problems(settings)


class FilterModule:
    """Filters about storage."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filters of this file by name."""
        return {"storage_problems": storage_problems}
