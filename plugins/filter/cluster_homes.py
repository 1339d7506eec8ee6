# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter cluster_homes."""

from __future__ import annotations

DOCUMENTATION = r"""
name: cluster_homes
short_description: Where home directories are kept, and which machine makes them
version_added: 0.1.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Homes are made where they are kept, not where they are mounted. Homes on a filer outside of the cluster are made by
    the first machine of C(nfs_client).
positional: machine, mounts, volumes, base
options:
  _input:
    description: The variable C(groups).
    type: dict
    required: true
  machine:
    description: Inventory name of the machine that asks.
    type: str
    required: true
  mounts:
    description: What clients mount, as the role nfs takes it (C(nfs_mounts)).
    type: list
    elements: dict
    required: true
  volumes:
    description: The disks of a server, as the role nfs takes them (C(nfs_volumes)).
    type: list
    elements: dict
    required: true
  base:
    description: Directory of the homes.
    type: str
    default: /home
"""

EXAMPLES = r"""
- name: Show where homes are
  ansible.builtin.debug:
    msg: "{{ groups | hpcai.gpucluster.cluster_homes(inventory_hostname, [{'path': '/home'}], []) }}"
"""

RETURN = r"""
_value:
  description:
    - C(host) is the machine that owns the homes, C(storage) the mount point that they lie on, or empty, and C(create)
      says whether the machine makes them.
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
    """Return where homes are kept and who makes them."""
    try:
        return homes.homes(groups, machine, mounts or (), volumes or (), base)._asdict()
    except (AttributeError, TypeError) as exc:
        raise AnsibleFilterError(f"hpcai.gpucluster.cluster_homes: {exc}") from exc


class FilterModule:
    """Tell Ansible the name of the filter."""

    def filters(self) -> dict[str, Callable[..., t.Any]]:
        """Return the filters of this file."""
        return {"cluster_homes": cluster_homes}
