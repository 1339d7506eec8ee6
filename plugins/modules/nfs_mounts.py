#!/usr/bin/python
# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module that manages the network mounts of a machine as a list."""

from __future__ import annotations

DOCUMENTATION = r"""
module: nfs_mounts
short_description: Manage all NFS and Lustre mounts of a machine as a list
version_added: 0.1.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Accepts the whole list of mounts in one task. Keeps them in a marked block of C(/etc/fstab), and mounts, remounts or
    unmounts only the differences.
  - Never unmounts a file system that is in use. If a mount is in use, its new options or its removal wait until the
    machine is drained or boots; RV(pending) names them.
  - Changes nothing if a mount point is not empty, if another file system is mounted there, or if a server does not
    answer.
  - A line of C(/etc/fstab) for NFS outside the block with the same mount point is moved into the block.
extends_documentation_fragment:
  - hpcai.gpucluster._attributes
attributes:
  check_mode:
    support: full
    details: A server that does not answer is only a warning, since an earlier task would have started it.
  diff_mode:
    support: full
    details: Shows C(/etc/fstab).
  idempotent:
    support: full
    details: A mount whose change must wait is tried again, and is reported without a change.
options:
  mounts:
    description: All network mounts of the host. Mounts of an earlier list that are missing here are unmounted.
    type: list
    elements: dict
    required: true
    suboptions:
      path:
        description: Mount point. It is created with mode C(0755) if it does not exist.
        type: path
        required: true
      source:
        description: Device of the mount, C(server:/path) or, for Lustre, C(10.0.0.4@tcp:/lustrefs).
        type: str
        required: true
      type:
        description: File system type.
        type: str
        choices: [nfs, nfs4, lustre]
        default: nfs
      options:
        description: All options of the mount, as in C(/etc/fstab).
        type: list
        elements: str
        default: [defaults]
      hide:
        description:
          - Allow a mount point that is not empty, if the server's directory has an entry of the same name for each of
            its entries.
          - So a mount can hide C(/home) of an image with an administrator's account, and the administrator can still
            log in.
        type: bool
        default: false
  timeout:
    description: Timeout for the answer of a server, in seconds.
    type: float
    default: 10.0
  missing_kernel:
    description:
      - Action if the kernel cannot mount such file systems, as in a container.
      - V(warn) changes nothing and prints a warning of one line.
    type: str
    choices: [fail, warn]
    default: fail
seealso:
  - module: ansible.posix.mount
"""

EXAMPLES = r"""
- name: Mount the home directories
  hpcai.gpucluster.nfs_mounts:
    mounts:
      - path: /home
        source: storage1:/home
        options: [vers=4.2, hard, nconnect=8, _netdev, nofail, x-systemd.automount]
"""

RETURN = r"""
pending:
  description: Changes that wait until the machine is drained or boots, one sentence each.
  returned: success
  type: list
  elements: str
  sample: ["/home: in use with its former options; drain the machine and run again, or boot it"]
mounted:
  description: Mount points of the list, parents first.
  returned: success
  type: list
  elements: str
  sample: [/home, /shared]
supported:
  description: Whether the kernel can mount these file systems.
  returned: success
  type: bool
  sample: true
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.gpucluster.plugins.module_utils._storage.errors import StorageError
from ansible_collections.hpcai.gpucluster.plugins.module_utils._storage.nfs_mounts import (
    Mounts,
    Wanted,
    diff,
    wanted_order,
)
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import bounded_run
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host

SPEC: dict[str, t.Any] = {
    "mounts": {
        "type": "list",
        "elements": "dict",
        "required": True,
        "options": {
            "path": {"type": "path", "required": True},
            "source": {"type": "str", "required": True},
            "type": {"type": "str", "choices": ["nfs", "nfs4", "lustre"], "default": "nfs"},
            "options": {"type": "list", "elements": "str", "default": ["defaults"]},
            "hide": {"type": "bool", "default": False},
        },
    },
    "timeout": {"type": "float", "default": 10.0},
    "missing_kernel": {"type": "str", "choices": ["fail", "warn"], "default": "fail"},
}


def reconcile(
    mounts: Mounts, wanted: list[Wanted], check_mode: bool, warn: t.Callable[[str], None]
) -> dict[str, t.Any]:
    """Apply the list of mounts to the machine and return what changed."""
    mounts.refuse(wanted)
    silent = mounts.unreachable(wanted)
    if silent and not check_mode:
        raise StorageError(f"{silent}; nothing was changed")
    if silent:
        warn(silent)
    plan = mounts.plan(wanted)
    changed = plan.needed
    pending: list[str] = []
    if plan.needed and not check_mode:
        mounts.refuse_loss(plan)
        changed, pending = mounts.apply(plan, wanted)
    return {"changed": changed, "pending": pending, "diff": diff(plan)}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True)
    wanted = [Wanted(**{**mount, "options": tuple(mount["options"])}) for mount in module.params["mounts"]]
    mounts = Mounts(Host(bounded_run.feeding_runner(bounded_run.CHANGE)), seconds=module.params["timeout"])
    result: dict[str, t.Any] = {"mounted": [mount.path for mount in wanted_order(wanted)], "supported": True}
    missing = mounts.support(wanted, load=not module.check_mode)
    if missing and module.params["missing_kernel"] == "fail":
        module.fail_json(msg=f"{missing}; take it out of the group nfs_client, or give it such a kernel")
    if missing:
        module.warn(f"{missing}; {', '.join(result['mounted'])} stay what they are")
        module.exit_json(changed=False, pending=[], **{**result, "supported": False})
    try:
        result.update(reconcile(mounts, wanted, module.check_mode, module.warn))
    except StorageError as exc:
        module.fail_json(msg=str(exc))
    for sentence in result["pending"]:
        module.warn(sentence)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
