# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter cluster_homes."""

from __future__ import annotations

DOCUMENTATION = r"""
name: cluster_homes
short_description: Return where home directories are stored and which machine creates them
version_added: 0.1.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Home directories are created on the machine that stores them, not on the machines that mount them. The first machine
    of C(nfs_client) creates home directories on a filer outside the cluster.
positional: machine, mounts, volumes, base
options:
  _input:
    description: The variable C(groups).
    type: dict
    required: true
  machine:
    description: Inventory name of the machine to return the result for.
    type: str
    required: true
  mounts:
    description: Mounts of the clients, in the form of the input C(nfs_mounts) of the role nfs.
    type: list
    elements: dict
    required: true
  volumes:
    description: Disks of a server, in the form of the input C(nfs_volumes) of the role nfs.
    type: list
    elements: dict
    required: true
  base:
    description: Parent directory of the home directories.
    type: str
    default: /home
"""

EXAMPLES = r"""
- name: Show where the home directories are stored
  ansible.builtin.debug:
    msg: "{{ groups | hpcai.gpucluster.cluster_homes(inventory_hostname, [{'path': '/home'}], []) }}"
"""

RETURN = r"""
_value:
  description:
    - C(host) is the machine that owns the home directories. C(storage) is the mount point that they are on, or empty.
      C(create) is whether the machine creates them.
  type: dict
  sample: {host: nfs1, storage: /home, create: false}
"""

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs import homes

if t.TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


def cluster_homes(
    groups: Mapping[str, Sequence[str]],
    machine: str,
    mounts: Sequence[t.Any],
    volumes: Sequence[t.Any],
    base: str = "/home",
) -> dict[str, t.Any]:
    """Return where home directories are stored and which machine creates them."""
    try:
        return homes.homes(groups, machine, mounts or (), volumes or (), base)._asdict()
    except (AttributeError, TypeError) as exc:
        raise AnsibleFilterError(f"hpcai.gpucluster.cluster_homes: {exc}") from exc


class FilterModule:
    """Tell Ansible the name of the filter."""

    def filters(self) -> dict[str, Callable[..., t.Any]]:
        """Return the filters of this file."""
        return {"cluster_homes": cluster_homes}
