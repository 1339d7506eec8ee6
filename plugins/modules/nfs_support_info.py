#!/usr/bin/python
# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module that tells whether a machine can serve or mount NFS."""

from __future__ import annotations

DOCUMENTATION = r"""
module: nfs_support_info
short_description: Tell whether the running kernel can serve or mount NFS
version_added: 0.1.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Looks for the file system in C(/proc/filesystems), and otherwise asks C(modprobe --dry-run) for its module. Loads
    nothing.
  - A container on a host without NFS in its kernel can do neither.
extends_documentation_fragment:
  - hpcai.gpucluster._attributes
  - hpcai.gpucluster._attributes.info_module
options:
  kind:
    description: File system, V(nfsd) for a server.
    type: str
    choices: [nfs, nfsd, lustre]
    default: nfs
  required:
    description: Whether the task fails where the kernel lacks it. Otherwise the task warns in one line.
    type: bool
    default: true
"""

EXAMPLES = r"""
- name: Look for the kernel's NFS server
  hpcai.gpucluster.nfs_support_info:
    kind: nfsd
    required: false
  register: support
"""

RETURN = r"""
supported:
  description: Whether the kernel has it.
  returned: success
  type: bool
  sample: true
reason:
  description: Why it does not; empty if it does.
  returned: success
  type: str
  sample: "the kernel of this machine cannot serve NFS: modprobe: FATAL: Module nfsd not found"
cpus:
  description: Number of CPUs that are online, from which the number of threads of a server follows.
  returned: success
  type: int
  sample: 96
"""

import os

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.gpucluster.plugins.module_utils._storage import nfs_support
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import bounded_run
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "kind": {"type": "str", "choices": ["nfs", "nfsd", "lustre"], "default": "nfs"},
            "required": {"type": "bool", "default": True},
        },
        supports_check_mode=True,
    )
    # The first mount or the start of the server loads the module; asking does not.
    reason = nfs_support.missing(Host(bounded_run.feeding_runner(bounded_run.ASK)), module.params["kind"], load=False)
    if reason and module.params["required"]:
        module.fail_json(msg=reason)
    if reason:
        module.warn(reason)
    module.exit_json(changed=False, supported=not reason, reason=reason, cpus=os.cpu_count() or 1)


if __name__ == "__main__":
    main()
