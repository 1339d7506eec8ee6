#!/usr/bin/python
# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Set clocks, power limit and persistence mode of NVIDIA GPUs."""

from __future__ import annotations

DOCUMENTATION = r"""
module: nvidia_clocks
short_description: Set the clocks of NVIDIA GPUs
version_added: 0.1.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Sets memory and graphics clocks, power limit and persistence mode of some or all GPUs. Settings that are already
    correct are unchanged.
  - Checks everything before the first change, so wrong input changes no GPU.
  - Reads all settings back, because nvidia-smi exits with 0 even if it changed nothing.
  - No driver can read locked clocks back. The module keeps O(record) of them, which is valid for one boot and one load
    of the driver, and while persistence mode is on. If it is not valid, the clocks are locked again and the task
    reports a change.
  - All settings are lost at reboot and when the driver is unloaded. The role P(hpcai.gpucluster.gpu#role) sets them
    again.
extends_documentation_fragment:
  - hpcai.gpucluster._attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: partial
    details:
      - Locked clocks are set each time while persistence mode is off, because they end with the last client.
options:
  state:
    description:
      - V(max) is the highest pair that the GPU supports, V(set) is the values of the other options, V(default) is the
        default of the driver.
    type: str
    choices: [max, set, default]
    default: max
  method:
    description:
      - Method to set clocks.
      - V(application) uses application clocks, which drivers 590 and newer no longer support.
      - V(locked) locks the clocks, which overrides application clocks. The graphics clock can be locked on Volta
        and newer, the memory clock on Ampere and newer.
      - V(auto) uses application clocks if the driver and the GPU support them, otherwise locked clocks.
    type: str
    choices: [auto, application, locked]
    default: auto
  memory:
    description:
      - Memory clock in MHz, only with O(state=set). The default is the highest one that O(graphics) allows.
    type: int
  graphics:
    description:
      - Graphics clock in MHz, only with O(state=set). The default is the highest one that O(memory) allows.
    type: int
  graphics_min:
    description:
      - Lower limit of locked graphics clocks in MHz, only with O(state=set). The default is O(graphics).
    type: int
  power_limit:
    description:
      - Power limit in W, between the limits of the board, or V(default) or V(max) for the board's own values.
      - Unchanged by default, with any O(state).
    type: str
  persistence:
    description:
      - Whether persistence mode is on. Unchanged by default.
      - Without it every setting is lost when the last program that uses the GPU ends.
    type: bool
  gpus:
    description:
      - Indexes, PCI addresses or UUIDs of the GPUs. The default is all GPUs.
    type: list
    elements: str
  unsupported:
    description:
      - Action for a GPU that does not support a setting, V(fail) or V(warn).
    type: str
    choices: [fail, warn]
    default: fail
  force:
    description:
      - Whether to set clocks even if they are known to be correct.
    type: bool
    default: false
  record:
    description:
      - File with the record of locked clocks. It must be on a file system that does not survive a reboot.
    type: path
    default: /run/hpcai/nvidia_clocks.json
  executable:
    description:
      - Name or path of nvidia-smi.
    type: path
    default: nvidia-smi
  timeout:
    description:
      - Seconds after which a call of nvidia-smi is killed.
    type: int
    default: 60
  wait:
    description:
      - Seconds to wait for a driver that is not ready, as after a boot. In check mode the module does not wait.
    type: int
    default: 0
    version_added: 0.3.0
requirements:
  - nvidia-smi of the NVIDIA driver, 450 or newer
  - root with CAP_SYS_ADMIN to change anything; root inside a container is not enough
seealso:
  - module: hpcai.gpucluster.nvidia_info
"""

EXAMPLES = r"""
- name: Set every GPU to its highest clocks
  hpcai.gpucluster.nvidia_clocks:
    state: max
    persistence: true
  become: true

- name: Reset the clocks after use
  hpcai.gpucluster.nvidia_clocks:
    state: default
  become: true

- name: Set lower clocks and a lower power limit on two GPUs
  hpcai.gpucluster.nvidia_clocks:
    state: set
    graphics: 1410
    power_limit: "400"
    gpus: ["0", "0002:00:00.0"]
  become: true
"""

RETURN = r"""
driver_version:
  description: Version of the driver.
  returned: always
  type: str
  sample: 580.159.04
gpus:
  description: Result for each selected GPU.
  returned: success
  type: list
  elements: dict
  contains:
    index: {description: "Index of the driver; V(null) while GPUs are missing.", type: int}
    uuid: {description: UUID., type: str}
    pci_bus_id: {description: PCI address., type: str, sample: "0001:00:00.0"}
    name: {description: Product name., type: str, sample: NVIDIA H200}
    method: {description: "How clocks are set on this GPU, V(application) or V(locked).", type: str}
    changed: {description: Whether something was changed., type: bool}
    before:
      description:
        - Previous values of the changed settings. C(persistence), C(power_limit_w) in W, C(application_mhz),
          C(locked_graphics_mhz) and C(locked_memory_mhz) in MHz. V(unknown) is a lock without a record.
      type: dict
    after: {description: "The same, as it is now; V(null) is the default.", type: dict}
    msg:
      description: The same as a sentence.
      type: str
      sample: already at maximum (memory 3201 MHz, graphics 1980 MHz, application clocks)
lost:
  description: GPUs that fell off the bus, with C(pci_bus_id) and C(reason).
  returned: always
  type: list
  elements: dict
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia import record as nvidia_record
from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia.clocks import ApplyError, Record, apply
from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia.readiness import when_ready
from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia.smi import NvidiaSmi, NvidiaSmiError
from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia.wanted import Refused, Wanted
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.bounded_run import bounded_runner


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["max", "set", "default"], "default": "max"},
            "method": {"type": "str", "choices": ["auto", "application", "locked"], "default": "auto"},
            "memory": {"type": "int"},
            "graphics": {"type": "int"},
            "graphics_min": {"type": "int"},
            "power_limit": {"type": "str"},
            "persistence": {"type": "bool"},
            "gpus": {"type": "list", "elements": "str"},
            "unsupported": {"type": "str", "choices": ["fail", "warn"], "default": "fail"},
            "force": {"type": "bool", "default": False},
            "record": {"type": "path", "default": nvidia_record.PATH},
            "executable": {"type": "path", "default": "nvidia-smi"},
            "timeout": {"type": "int", "default": 60},
            "wait": {"type": "int", "default": 0},
        },
        supports_check_mode=True,
    )
    params = module.params
    if params["timeout"] <= 0:
        module.fail_json(msg=f"timeout: must be a positive number of seconds, found {params['timeout']}")
    smi = NvidiaSmi(bounded_runner(params["timeout"]), params["executable"])
    record = Record(params["record"], nvidia_record.stamps())
    wanted = Wanted(**{name: params[name] for name in Wanted._fields})
    tolerant, seconds = params["unsupported"] == "warn", 0 if module.check_mode else params["wait"]
    try:
        result = when_ready(lambda: apply(smi, wanted, record, module.check_mode, tolerant=tolerant), seconds)
    except Refused as exc:
        module.fail_json(msg=str(exc))
    except NvidiaSmiError as exc:
        module.fail_json(msg=str(exc), kind=exc.kind, lost=exc.lost)
    except ApplyError as exc:
        _warn(module, exc.result)
        module.fail_json(msg=str(exc), **exc.result)
    _warn(module, result)
    module.exit_json(**result)


def _warn(module: AnsibleModule, result: dict[str, t.Any]) -> None:
    for line in result.pop("warnings"):
        module.warn(line)


if __name__ == "__main__":
    main()
