#!/usr/bin/python
# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Module that reads the settings that must be equal on all nodes of a cluster."""

from __future__ import annotations

DOCUMENTATION = r"""
module: node_consistency_info
short_description: Read the settings that must be equal on all nodes of a cluster
version_added: 0.1.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Returns the versions of kernel, NVIDIA driver, OFED, Slurm and NCCL, the state of clock synchronization, the state
    of mounts, and the UID and GID of users.
  - Does not compare them; see M(hpcai.gpucluster.validation_stage).
extends_documentation_fragment:
  - hpcai.gpucluster._attributes
  - hpcai.gpucluster._attributes.info_module
options:
  mounts:
    description:
      - Directories that must be mount points.
    type: list
    elements: str
    default: []
  users:
    description:
      - Names of users that must resolve.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Read the settings that must be equal on all nodes
  hpcai.gpucluster.node_consistency_info:
    mounts: [/home]
    users: [slurm, munge]
  register: __node
"""

RETURN = r"""
versions:
  description: Version by component; null where a component is not installed.
  returned: always
  type: dict
  sample: {kernel: 6.12.43, driver: 580.159.04, ofed: null, slurm: 24.11.5, nccl: 2.28.9}
clock:
  description: Whether the clock is synchronized, its offset in seconds (both null if unknown), and the program that
    reports it.
  returned: always
  type: dict
own_name:
  description: The host name as C(name), and its addresses in the resolver's order as C(addresses), empty if it does not
    resolve and null if nothing answers in 10 s.
  returned: always
  type: dict
  sample: {name: gpu1, addresses: [10.0.0.21]}
nccl_conf:
  description: Settings of C(/etc/nccl.conf) by name; empty without the file, null if it cannot be read.
  returned: always
  type: dict
  sample: {NCCL_TOPO_FILE: /opt/microsoft/ndv5-topo.xml}
mounts:
  description: V(ok), V(missing) or V(hangs) by path.
  returned: always
  type: dict
users:
  description: UID and GID as C(uid) and C(gid) by name; null if a name does not resolve.
  returned: always
  type: dict
"""


from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.gpucluster.plugins.module_utils._hardware import node_facts
from ansible_collections.hpcai.gpucluster.plugins.module_utils._nccl import conf
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import bounded_run


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "mounts": {"type": "list", "elements": "str", "default": []},
            "users": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    node = node_facts.Node(bounded_run.feeding_runner(bounded_run.ASK))
    nccl = node.nccl_conf()
    module.exit_json(
        changed=False,
        versions=node.versions(),
        clock=node.clock(),
        own_name=node.own_name(),
        nccl_conf=None if nccl is None else conf.read(nccl),
        mounts=node.mounts(module.params["mounts"]),
        users=node_facts.users(module.params["users"]),
    )


if __name__ == "__main__":
    main()
