# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter nfs_export_entries."""

from __future__ import annotations

DOCUMENTATION = r"""
name: nfs_export_entries
short_description: Convert exports to the form that the role nfs writes
version_added: 0.1.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Adds clients and options to every export. The default options are C(rw), C(sync), C(no_subtree_check) and
    C(root_squash).
  - An entry whose C(options) also contain clients, such as C(*(rw,sync)), is unchanged.
positional: clients
options:
  _input:
    description: Exports in the form of the input C(nfs_exports) of the role P(hpcai.gpucluster.nfs#role).
    type: list
    elements: dict
    required: true
  clients:
    description: Clients of an export that names no clients.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Show how the home directories are exported
  ansible.builtin.debug:
    msg: "{{ [{'path': '/home'}] | hpcai.gpucluster.nfs_export_entries(['10.0.0.0/24']) }}"
"""

RETURN = r"""
_value:
  description: Entries with path and clients, such as C(10.0.0.0/24(rw,sync)), and with owner, group and mode if given.
  type: list
  elements: dict
"""

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs import nfs


def nfs_export_entries(exports: list[dict[str, t.Any]], clients: t.Any = None) -> list[dict[str, t.Any]]:
    """Return the exports in the form of the role."""
    return [nfs.export_entry(export, clients) for export in exports]


class FilterModule:
    """Offer the filter to Ansible."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filters of this file by name."""
        return {"nfs_export_entries": nfs_export_entries}
