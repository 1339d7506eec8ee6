#!/usr/bin/python
# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module that returns whether a machine can serve or mount NFS."""

from __future__ import annotations

DOCUMENTATION = r"""
module: nfs_support_info
short_description: Return whether the running kernel can serve or mount NFS
version_added: 0.1.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Looks for the file system in C(/proc/filesystems), and otherwise for its module with C(modprobe --dry-run). Loads no
    module.
  - A container on a host without NFS in its kernel can neither serve nor mount NFS.
extends_documentation_fragment:
  - hpcai.gpucluster._attributes
  - hpcai.gpucluster._attributes.info_module
options:
  kind:
    description: File system type; V(nfsd) for a server.
    type: str
    choices: [nfs, nfsd, lustre]
    default: nfs
  required:
    description: Whether the task fails if the kernel does not support it. Otherwise the task prints a warning of one
      line.
    type: bool
    default: true
"""

EXAMPLES = r"""
- name: Check the kernel for NFS server support
  hpcai.gpucluster.nfs_support_info:
    kind: nfsd
    required: false
  register: support
"""

RETURN = r"""
supported:
  description: Whether the kernel supports it.
  returned: success
  type: bool
  sample: true
reason:
  description: Reason why it does not; empty if it does.
  returned: success
  type: str
  sample: "the kernel of this machine cannot serve NFS: modprobe: FATAL: Module nfsd not found"
cpus:
  description: Number of online CPUs, which determines the number of threads of a server.
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
    # The first mount or the start of the server loads the module; this check does not.
    reason = nfs_support.missing(Host(bounded_run.feeding_runner(bounded_run.ASK)), module.params["kind"], load=False)
    if reason and module.params["required"]:
        module.fail_json(msg=reason)
    if reason:
        module.warn(reason)
    module.exit_json(changed=False, supported=not reason, reason=reason, cpus=os.cpu_count() or 1)


if __name__ == "__main__":
    main()
