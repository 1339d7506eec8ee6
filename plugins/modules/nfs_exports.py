#!/usr/bin/python
# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module that manages the exports of an NFS server as a list."""

from __future__ import annotations

DOCUMENTATION = r"""
module: nfs_exports
short_description: Manage the exports of an NFS server as a list
version_added: 0.1.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Accepts the whole list of exports in one task. Creates the directories, writes one file of exports and publishes it
    with C(exportfs -ra), which does not disturb clients.
extends_documentation_fragment:
  - hpcai.gpucluster._attributes
attributes:
  check_mode:
    support: full
    details: An owner or group that does not exist is a pending change, since an earlier task would have made it.
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  exports:
    description: All exports of this file. Directories that are no longer exported are not removed.
    type: list
    elements: dict
    required: true
    suboptions:
      path:
        description: Directory to export. If it does not exist, it and its parents are created with owner root and mode
          C(0755).
        type: path
        required: true
      clients:
        description: Clients that may mount it, each with its options, such as C(10.0.0.0/24(rw,sync)).
        type: list
        elements: str
        required: true
      owner:
        description: User name or UID that owns the directory. Unchanged if not set.
        type: str
      group:
        description: Group name or GID of the directory. Unchanged if not set.
        type: str
      mode:
        description: Octal mode of the directory. Unchanged if not set.
        type: str
  file:
    description: File with the exports; its name ends in C(.exports).
    type: path
    default: /etc/exports.d/gpucluster.exports
seealso:
  - module: hpcai.gpucluster.nfs_mounts
"""

EXAMPLES = r"""
- name: Export the home directories
  hpcai.gpucluster.nfs_exports:
    exports:
      - path: /home
        clients: ["10.0.0.0/24(rw,sync,no_subtree_check,root_squash)"]
"""

RETURN = r"""
exported:
  description: Paths of the exported directories.
  returned: success
  type: list
  elements: str
  sample: [/home, /shared]
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.gpucluster.plugins.module_utils._storage import nfs_exports
from ansible_collections.hpcai.gpucluster.plugins.module_utils._storage.errors import StorageError
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import bounded_run
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "exports": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": {
                    "path": {"type": "path", "required": True},
                    "clients": {"type": "list", "elements": "str", "required": True},
                    "owner": {"type": "str"},
                    "group": {"type": "str"},
                    "mode": {"type": "str"},
                },
            },
            "file": {"type": "path", "default": "/etc/exports.d/gpucluster.exports"},
        },
        supports_check_mode=True,
    )
    file = module.params["file"]
    exports = [
        nfs_exports.Export(**{**export, "clients": tuple(export["clients"])}) for export in module.params["exports"]
    ]
    host, directories = (
        Host(bounded_run.feeding_runner(bounded_run.CHANGE)),
        nfs_exports.Directories(check=module.check_mode),
    )
    try:
        planned = nfs_exports.plan(exports, host, directories, file)
        if planned.changed and not module.check_mode:
            nfs_exports.apply(planned, host, directories, file)
    except StorageError as exc:
        module.fail_json(msg=str(exc))
    for path in nfs_exports.elsewhere(exports, host):
        module.warn(f"/etc/exports names {path} too; its clients and options add to those of {file}")
    module.exit_json(
        changed=planned.changed,
        exported=[export.path for export in exports],
        diff=nfs_exports.diff(planned, file),
    )


if __name__ == "__main__":
    main()
