# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter nfs_mount_entries."""

from __future__ import annotations

DOCUMENTATION = r"""
name: nfs_mount_entries
short_description: Convert mounts to the form that the module nfs_mounts accepts
version_added: 0.1.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Adds the source and all options to every mount. Options of the user replace the defaults that they contradict.
    C(vers=3) replaces C(vers=4.2), and C(-name) removes a default.
  - Adds the options that systemd needs for a network mount, so that a mount never delays the boot.
  - In an entry with C(mountpoint), C(path) is the directory of the server.
positional: server, options
options:
  _input:
    description: Mounts in the form of the input C(nfs_mounts) of the role P(hpcai.gpucluster.nfs#role).
    type: list
    elements: dict
    required: true
  server:
    description: Name or address of the server for a mount that names no server.
    type: str
    default: ""
  options:
    description: Options of every NFS mount, in addition to those that systemd needs. Lustre mounts have their own.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Mount the home directories
  hpcai.gpucluster.nfs_mounts:
    mounts: "{{ [{'path': '/home'}] | hpcai.gpucluster.nfs_mount_entries('storage1', ['vers=4.2', 'hard']) }}"
"""

RETURN = r"""
_value:
  description: Entries of the option C(mounts) of M(hpcai.gpucluster.nfs_mounts).
  type: list
  elements: dict
"""

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs import nfs


def nfs_mount_entries(
    mounts: list[dict[str, t.Any]], server: str = "", options: nfs.Options = None
) -> list[dict[str, t.Any]]:
    """Return the mounts in the form of the module."""
    return [nfs.mount_entry(mount, server, options) for mount in mounts]


class FilterModule:
    """Offer the filter to Ansible."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filters of this file by name."""
        return {"nfs_mount_entries": nfs_mount_entries}
