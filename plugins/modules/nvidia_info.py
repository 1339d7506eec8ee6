#!/usr/bin/python
# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Return the information of nvidia-smi about the GPUs of a host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: nvidia_info
short_description: Read all information about the NVIDIA GPUs of a host
version_added: 0.1.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Reads model, clocks, power limits, persistence, MIG, memory errors and faults of every GPU.
  - Starts C(nvidia-smi -q -x) once. Output that cannot be parsed is no data, and RV(reason) names it.
  - Supports the drivers 450 to 610. A value that a GPU or driver does not offer is V(null), for every spelling of
    nvidia-smi.
  - A hanging nvidia-smi is killed after O(timeout) seconds.
extends_documentation_fragment:
  - hpcai.gpucluster._attributes
  - hpcai.gpucluster._attributes.info_module
options:
  executable:
    description:
      - Name or path of nvidia-smi.
    type: path
    default: nvidia-smi
  missing_ok:
    description:
      - Whether a host without a working driver or without a GPU is a valid result instead of a failure.
      - RV(available) is then V(false) and RV(reason) is the reason.
    type: bool
    default: false
  supported_clocks:
    description:
      - Whether to return all supported pairs of clocks, some hundred per GPU, in addition to the best pair.
    type: bool
    default: false
  topology:
    description:
      - Whether to return the links between GPUs and adapters, which needs a second start of nvidia-smi.
      - Inside a Slurm job or another cpuset the driver shows fewer CPUs or none. Virtual machines may hide the
        NUMA node of a GPU.
    type: bool
    default: false
  timeout:
    description:
      - Seconds after which nvidia-smi is killed.
      - The first start after boot may take half a minute on machines with eight GPUs and no persistence mode.
    type: int
    default: 60
requirements:
  - nvidia-smi of the NVIDIA driver, 450 or newer
seealso:
  - module: hpcai.gpucluster.nvidia_clocks
"""

EXAMPLES = r"""
- name: Read the GPUs
  hpcai.gpucluster.nvidia_info:
  register: gpus

- name: Show the clocks of each GPU
  ansible.builtin.debug:
    msg: "{{ item.index }}: {{ item.clocks_mhz.current }} of at most {{ item.best_clocks_mhz }}"
  loop: "{{ gpus.gpus }}"
  loop_control:
    label: "{{ item.pci_bus_id }}"

- name: Wait until the driver shows eight GPUs
  hpcai.gpucluster.nvidia_info:
    missing_ok: true
  register: gpus
  until: gpus.count == 8
  retries: 12
  delay: 10
"""

RETURN = r"""
topology:
  description: With O(topology=true), the matrix of C(nvidia-smi topo -m).
  returned: always; null where not asked for, and where there is none, with the reason in RV(notes)
  type: dict
  contains:
    gpus:
      description:
        - One entry for each GPU. C(index), C(name), C(links) (a word such as V(NV18), V(PIX), V(NODE), V(SYS)
          for each other device), C(cpus) and C(numa_nodes) (lists such as V(0-47,96-143), Linux CPU numbers),
          C(gpu_numa_node).
      type: list
      elements: dict
    nics:
      description: One entry for each adapter. C(name), C(device) (such as V(mlx5_0)), C(links).
      type: list
      elements: dict
available:
  description: Whether the driver answers and shows at least one GPU.
  returned: always
  type: bool
reason:
  description: Reason why there is no GPU, and the remedy. Empty otherwise.
  returned: always
  type: str
kind:
  description:
    - The reason as one word, one of V(not_installed), V(no_driver), V(no_device), V(blocked), V(mismatch), V(lost),
      V(timeout), V(argument), V(permission), V(power_cable), V(other). Empty if there are GPUs.
  returned: always
  type: str
driver_version:
  description: Version of the driver.
  returned: always
  type: str
  sample: 580.159.04
cuda_version:
  description: Highest CUDA version that the driver supports.
  returned: always
  type: str
  sample: "13.0"
count:
  description: Number of GPUs that answer.
  returned: always
  type: int
attached:
  description: Number of GPUs that the driver reports as attached.
  returned: always
  type: int
lost:
  description: GPUs that fell off the bus.
  returned: always
  type: list
  elements: dict
  contains:
    pci_bus_id: {description: PCI address., type: str}
    reason: {description: The driver's words., type: str}
notes:
  description: Other lines that nvidia-smi printed, such as a corrupted infoROM.
  returned: always
  type: list
  elements: str
gpus:
  description: One entry for each GPU in the driver's order.
  returned: always
  type: list
  elements: dict
  contains:
    index:
      description: >-
        Index of the driver; V(null) while GPUs are missing, since the order is unsure then.
      type: int
    uuid: {description: UUID., type: str, sample: GPU-0a000000-0000-4000-8000-000000000000}
    pci_bus_id: {description: PCI address in the kernel's form., type: str, sample: "0001:00:00.0"}
    name: {description: Product name., type: str, sample: NVIDIA H200}
    architecture: {description: "Product architecture; drivers before 510 do not tell.", type: str, sample: Hopper}
    serial: {description: Serial number., type: str}
    vbios_version: {description: Version of the VBIOS., type: str}
    minor_number: {description: "Number of the device file /dev/nvidiaN; not always the index.", type: int}
    persistence: {description: Whether persistence mode is on., type: bool}
    mig:
      description: Multi-Instance GPU.
      type: dict
      contains:
        current: {description: "Whether it is on; V(null) if the GPU cannot.", type: bool}
        pending: {description: Whether it is on after the next reset., type: bool}
        devices:
          description: >-
            MIG devices with index, gpu_instance, compute_instance and memory_total_mib.
          type: list
    memory_mib: {description: "Frame buffer in MiB: total, used, free, reserved.", type: dict}
    clocks_mhz:
      description:
        - Clocks in MHz. C(current), C(application), C(default_application) and C(max), each with memory and graphics,
          C(current) and C(max) also with sm.
        - Application clocks are V(null) from driver 590 on.
      type: dict
      sample: {application: {memory: 3201, graphics: 1980}}
    application_clocks:
      description: >-
        Whether application clocks are V(available), V(deprecated) by the driver, or V(unsupported) by the GPU.
      type: str
    best_clocks_mhz:
      description:
        - The highest supported pair in MHz, V(null) if the GPU lists none.
        - C(clocks_mhz.max) is no substitute, because some GPUs report a maximum that cannot be set.
      type: dict
      sample: {memory: 3201, graphics: 1980}
    supported_clocks_mhz:
      description: With O(supported_clocks=true), graphics clocks in MHz (highest first) for each memory clock in MHz.
      type: list
      elements: dict
      sample: [{memory: 3201, graphics: [1980, 1965]}]
    power_w:
      description: "Power in W: draw, limit (requested), enforced_limit, default_limit, min_limit, max_limit."
      type: dict
    temperature_c: {description: "Temperature in degrees Celsius: gpu, memory.", type: dict}
    utilization_percent: {description: "Utilization in percent: gpu, memory.", type: dict}
    ecc:
      description: >-
        ECC mode (current, pending) and error counts (volatile_corrected, volatile_uncorrected, aggregate_corrected,
        aggregate_uncorrected; volatile is since the driver was loaded).
      type: dict
    remapped_rows:
      description: >-
        Rows remapped: correctable, uncorrectable (counts), pending, failure (booleans).
      type: dict
    retired_pages:
      description: >-
        Pages retired, before Ampere: single_bit, double_bit (counts), pending (boolean).
      type: dict
    throttle_reasons:
      description: Active reasons for lower clocks, without prefix.
      type: list
      elements: str
      sample: [gpu_idle]
    performance_state: {description: Performance state., type: str, sample: P0}
    compute_mode: {description: Compute mode., type: str, sample: Default}
    fabric: {description: "NVLink fabric: state, status.", type: dict}
    pcie: {description: "PCIe link: generation, generation_max, width, width_max.", type: dict}
    faults:
      description: >-
        Messages of the driver in place of values, such as V(GPU requires reset).
      type: list
      elements: str
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia.report import Report
from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia.smi import NvidiaSmi, NvidiaSmiError
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.bounded_run import bounded_runner


def result(report: Report, supported_clocks: bool = False) -> dict[str, t.Any]:
    """Return the module's result for a machine with a working driver."""
    return {
        "available": bool(report.gpus),
        "reason": "",
        "kind": "",
        "driver_version": report.driver_version,
        "cuda_version": report.cuda_version,
        "count": len(report.gpus),
        "attached": report.attached,
        "lost": report.lost,
        "notes": report.notes,
        "gpus": [_gpu(gpu, supported_clocks) for gpu in report.gpus],
        "topology": None,
    }


def absent(error: NvidiaSmiError) -> dict[str, t.Any]:
    """Return the result for a machine without a working driver or GPU."""
    nothing = Report(driver_version=None, cuda_version=None, attached=None, gpus=[], lost=error.lost, notes=[])
    return {**result(nothing), "reason": str(error), "kind": error.kind}


def _add_topology(smi: NvidiaSmi, answer: dict[str, t.Any]) -> None:
    try:
        answer["topology"] = smi.topology()
    except NvidiaSmiError as exc:
        answer["notes"] = [*answer["notes"], str(exc)]


def _gpu(gpu: dict[str, t.Any], supported_clocks: bool) -> dict[str, t.Any]:
    table = [
        {"memory": memory, "graphics": gpu["supported_clocks_mhz"][memory]}
        for memory in sorted(gpu["supported_clocks_mhz"], reverse=True)
    ]
    shown = {key: value for key, value in gpu.items() if key != "supported_clocks_mhz"}
    return {**shown, "supported_clocks_mhz": table} if supported_clocks else shown


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "executable": {"type": "path", "default": "nvidia-smi"},
            "missing_ok": {"type": "bool", "default": False},
            "supported_clocks": {"type": "bool", "default": False},
            "topology": {"type": "bool", "default": False},
            "timeout": {"type": "int", "default": 60},
        },
        supports_check_mode=True,
    )
    if module.params["timeout"] <= 0:
        module.fail_json(msg=f"timeout: must be a positive number of seconds, found {module.params['timeout']}")
    smi = NvidiaSmi(bounded_runner(module.params["timeout"]), module.params["executable"])
    try:
        answer = result(smi.read(), module.params["supported_clocks"])
        if module.params["topology"]:
            _add_topology(smi, answer)
    except NvidiaSmiError as exc:
        answer = absent(exc)
        if not module.params["missing_ok"]:
            module.fail_json(msg=answer["reason"], **answer)
    module.exit_json(changed=False, **answer)


if __name__ == "__main__":
    main()
