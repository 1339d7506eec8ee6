#!/usr/bin/python
# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module that creates one file system on whole disks, once."""

from __future__ import annotations

DOCUMENTATION = r"""
module: local_volume
short_description: Create one mounted file system on one or several whole disks, and never overwrite data
version_added: 0.1.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Joins several disks to an array with C(mdadm), creates a file system, and mounts it through a marked block of
    C(/etc/fstab). An existing array is assembled, not created again.
  - Changes nothing if a disk contains anything other than this volume, unless the disk is named in O(wipe). A disk is
    empty if C(blkid) finds nothing on it and its first MiB is zero.
  - Reports an array that lost a member. Redundant levels continue with a warning; otherwise the task fails and nothing
    is changed.
extends_documentation_fragment:
  - hpcai.gpucluster._attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
    details: Shows C(/etc/fstab).
  idempotent:
    support: full
requirements:
  - C(lsblk) and C(blkid) of util-linux
  - C(mdadm) for more than one disk, and C(mkfs.xfs) or C(mkfs.ext4)
options:
  name:
    description: Name of the array and label of the file system, up to 12 letters.
    type: str
    required: true
  path:
    description: Mount point. It is created if it does not exist; it must be empty.
    type: path
    required: true
  devices:
    description:
      - The disks. Links such as those below C(/dev/disk/by-id) are resolved.
      - If empty, all local NVMe drives without partitions are used.
    type: list
    elements: path
    default: []
  count:
    description:
      - Number of local NVMe drives, with or without partitions, that the machine must have if O(devices) is empty.
      - V(0) accepts any number.
    type: int
    default: 0
  exclude_models:
    description: Substrings of drive models that are not local. These drives are not used when O(devices) is empty.
    type: list
    elements: str
    default: []
  level:
    description: RAID level of more than one disk.
    type: str
    choices: [raid0, raid1, raid5, raid6, raid10]
    default: raid0
  filesystem:
    description: Type of the file system.
    type: str
    choices: [xfs, ext4]
    default: xfs
  mount_options:
    description: Mount options. C(nofail) and a device timeout of 60 s are added.
    type: str
    default: defaults
  mode:
    description: Octal mode, in quotes, of the top directory of a new file system. An integer is refused.
    type: raw
    default: "0755"
  wipe:
    description: Disks that may be overwritten although they contain data.
    type: list
    elements: path
    default: []
  rebuild:
    description: Create a new, empty array if the existing one lost a member or has another number of members.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Join the eight local drives of the machine
  hpcai.gpucluster.local_volume:
    name: scratch
    path: /scratch
    count: 8
"""

RETURN = r"""
devices:
  description: Disks, with links resolved.
  returned: success
  type: list
  elements: str
  sample: [/dev/nvme0n1, /dev/nvme1n1]
formatted:
  description: Whether a file system was created.
  returned: success
  type: bool
  sample: false
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.gpucluster.plugins.module_utils._storage import disks
from ansible_collections.hpcai.gpucluster.plugins.module_utils._storage.errors import StorageError
from ansible_collections.hpcai.gpucluster.plugins.module_utils._storage.local_volume import Spec, Volume, choose
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import bounded_run
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.modes import mode_problem

SPEC: dict[str, t.Any] = {
    "name": {"type": "str", "required": True},
    "path": {"type": "path", "required": True},
    "devices": {"type": "list", "elements": "path", "default": []},
    "count": {"type": "int", "default": 0},
    "exclude_models": {"type": "list", "elements": "str", "default": []},
    "level": {"type": "str", "choices": ["raid0", "raid1", "raid5", "raid6", "raid10"], "default": "raid0"},
    "filesystem": {"type": "str", "choices": ["xfs", "ext4"], "default": "xfs"},
    "mount_options": {"type": "str", "default": "defaults"},
    "mode": {"type": "raw", "default": "0755"},
    "wipe": {"type": "list", "elements": "path", "default": []},
    "rebuild": {"type": "bool", "default": False},
}


def reconcile(host: Host, params: t.Mapping[str, t.Any], check_mode: bool) -> tuple[dict[str, t.Any], list[str]]:
    """Create the volume; return the result and the warnings."""
    if mode_problem(params["mode"]):
        raise StorageError(f"mode is {params['mode']!r}; allowed: {mode_problem(params['mode'])}")
    found = disks.disks(host)
    if not params["devices"] and host.read("/run/systemd/container"):
        raise StorageError("a container has no drives of its own; name devices, or take the machine out of the play")
    devices = params["devices"] or choose(found, params["count"], params["exclude_models"])
    spec = Spec(
        name=params["name"],
        path=params["path"],
        devices=tuple(devices),
        level=params["level"],
        filesystem=params["filesystem"],
        options=params["mount_options"],
        wipe=tuple(params["wipe"]),
        rebuild=params["rebuild"],
        mode=params["mode"],
    )
    volume = Volume(host, spec, found)
    planned = volume.plan()
    result = volume.result(planned)
    if result["changed"] and not check_mode:
        volume.apply(planned)
    return result, list(planned.warnings)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True)
    try:
        result, warnings = reconcile(
            Host(bounded_run.feeding_runner(bounded_run.WORK)), module.params, module.check_mode
        )
    except StorageError as exc:
        module.fail_json(msg=str(exc))
    for warning in warnings:
        module.warn(warning)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
