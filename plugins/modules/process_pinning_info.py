# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Show the placement of the processes of a running job, and the best placement."""

from __future__ import annotations

DOCUMENTATION = r"""
module: process_pinning_info
author:
  - HPC AI Infrastructure Team (@hpcai)
version_added: 0.1.0
short_description: Show the placement of the processes of a running job, and the best placement
description:
  - Reads the processes on each GPU and the CPUs that each may use and last used, and compares them with the NUMA node
    of the GPU.
  - Warns about processes that are not pinned, span NUMA nodes, are far from their GPU, or have more busy threads than
    CPUs.
  - Reads only the kernel and C(nvidia-smi), so it works on any machine. Run it outside of jobs, as root, to see all
    processes.
extends_documentation_fragment:
  - hpcai.gpucluster._attributes
  - hpcai.gpucluster._attributes.info_module
options:
  pattern:
    description:
      - Regular expression for process names, such as V(all_reduce_perf). The kernel keeps 15 characters of a name.
      - The default is all processes that compute on a GPU.
    type: str
  record:
    description:
      - Hardware record, as P(hpcai.gpucluster.vm_size#filter) returns it.
      - It gives the location of the GPUs on machines that hide it, such as ND40rs_v2.
    type: dict
  executable:
    description: Name or path of nvidia-smi. On a machine without it, processes are found only by O(pattern).
    type: str
    default: nvidia-smi
  timeout:
    description: Timeout of C(nvidia-smi) in seconds.
    type: float
    default: 20
  sysfs:
    description: Mount point of sysfs. Another path is for tests.
    type: path
    default: /sys
  procfs:
    description: Mount point of procfs.
    type: path
    default: /proc
seealso:
  - plugin: hpcai.gpucluster.pinning
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Show the placement of the processes on the GPUs
  hpcai.gpucluster.process_pinning_info:
    record: "{{ 'Standard_ND40rs_v2' | hpcai.gpucluster.vm_size }}"
  register: pinning
"""

RETURN = r"""
processes:
  description: The processes that were found.
  returned: success
  type: list
  elements: dict
  contains:
    pid:
      description: Process ID.
      type: int
    name:
      description: Name of the process, at most 15 characters.
      type: str
    gpus:
      description: PCI addresses of its GPUs.
      type: list
      elements: str
    cpus:
      description: IDs of the CPUs that it may use, as ranges.
      type: str
    last_cpus:
      description: IDs of the CPUs on which its threads last ran, as ranges.
      type: str
    numa_nodes:
      description: NUMA nodes of the CPUs that it may use.
      type: list
      elements: int
    best_numa_nodes:
      description: NUMA nodes of its GPUs, if known.
      type: list
      elements: int
    best_cpus:
      description: IDs of the CPUs close to its GPUs, as ranges.
      type: str
    threads:
      description: Number of its threads.
      type: int
    running:
      description: Number of its threads that are running.
      type: int
    warnings:
      description: Faults of its placement.
      type: list
      elements: str
problems:
  description: Faults of the placement of all processes.
  returned: success
  type: list
  elements: str
notes:
  description: Reasons why a value is unknown.
  returned: success
  type: list
  elements: str
"""

import re
import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.gpucluster.plugins.module_utils._hardware import machine as hardware_machine
from ansible_collections.hpcai.gpucluster.plugins.module_utils._hardware import pinning, record
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.bounded_run import bounded_runner

if t.TYPE_CHECKING:
    from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.bounded_run import Runner


def collect(params: dict[str, t.Any], run: Runner) -> dict[str, t.Any]:
    """Return the placement of the processes."""
    machine = hardware_machine.read(params["sysfs"], params["procfs"])
    gpus, notes = pinning.gpu_processes(run, params["executable"])
    found = pinning.processes(params["procfs"], gpus, params["pattern"])
    topology = (params["record"] or {}).get("topology") or []
    places = pinning.place(found, machine, pinning.numa_nodes_of_gpus(machine, topology))
    return {
        "changed": False,
        "processes": [_described(place, machine) for place in places],
        "problems": pinning.warnings(places, machine),
        "notes": notes,
    }


def _described(place: pinning.Place, machine: hardware_machine.Machine) -> dict[str, t.Any]:
    process = place.process
    return {
        "pid": process.pid,
        "name": process.name,
        "gpus": process.gpus,
        "cpus": record.ranges(process.cpus),
        "last_cpus": record.ranges(process.last_cpus),
        "numa_nodes": place.numa_nodes,
        "best_numa_nodes": place.best_numa_nodes,
        "best_cpus": record.ranges(place.best_cpus),
        "threads": process.threads,
        "running": process.running,
        "warnings": pinning.process_warnings(place, machine),
    }


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "pattern": {"type": "str"},
            "record": {"type": "dict"},
            "executable": {"type": "str", "default": "nvidia-smi"},
            "timeout": {"type": "float", "default": 20},
            "sysfs": {"type": "path", "default": "/sys"},
            "procfs": {"type": "path", "default": "/proc"},
        },
        supports_check_mode=True,
    )
    try:
        re.compile(module.params["pattern"] or "")
        result = collect(module.params, bounded_runner(module.params["timeout"]))
    except re.error as exc:
        module.fail_json(msg=f"pattern is {module.params['pattern']!r}, which is no regular expression: {exc}")
    except (AttributeError, KeyError, TypeError, ValueError) as exc:
        module.fail_json(msg=f"record is not of the form that the filter vm_size returns: {exc!r}")
    module.exit_json(**result)


if __name__ == "__main__":
    main()
