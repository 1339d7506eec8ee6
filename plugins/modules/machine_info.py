#!/usr/bin/python
# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Return what identifies the hardware of a machine."""

from __future__ import annotations

DOCUMENTATION = r"""
module: machine_info
short_description: Read what identifies the hardware of a machine
version_added: 0.3.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Reads the PCI ids of the GPUs, and the numbers of CPUs, NUMA nodes, NVMe drives and RDMA adapters, and the memory.
  - Reads sysfs and procfs only. It starts no command, and needs no driver of the GPUs and no privileges.
  - The action M(hpcai.gpucluster.vm_sizes) compares the result with the hardware catalogue.
extends_documentation_fragment:
  - hpcai.gpucluster._attributes
  - hpcai.gpucluster._attributes.info_module
options: {}
seealso:
  - module: hpcai.gpucluster.vm_sizes
"""

EXAMPLES = r"""
- name: Read what identifies the machine
  hpcai.gpucluster.machine_info:
  register: machine
"""

RETURN = r"""
machine:
  description:
    - RV(ignore:machine.gpus) has the number of GPUs by their PCI device id.
    - RV(ignore:machine.memory_mib) is the memory in MiB that the kernel reports.
    - A value that cannot be read is 0 or empty.
  returned: always
  type: dict
  sample:
    gpus: {"2330": 8}
    cpus: 224
    numa_nodes: 2
    memory_mib: 2063425
    nvme: 10
    hcas: 12
    architecture: x86_64
    product: DGXH100
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.gpucluster.plugins.module_utils._hardware import look


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec={}, supports_check_mode=True)
    module.exit_json(changed=False, machine=look.read())


if __name__ == "__main__":
    main()
