# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
The format of a hardware record, as an Ansible argument spec.

docs/hardware.md explains every key. The key names the unit of a number: C(_mib) is 2**20 bytes, a clock is MHz,
C(_gbps) of a threshold is 10**9 bytes per second, C(_gbitps) and C(rate_gbps) are 10**9 bits per second.
"""

from __future__ import annotations

import typing as t

Spec = dict[str, dict[str, t.Any]]

# Lower limits of measured values. A health check or validate.yml judges each.
THRESHOLDS = (
    "host_to_device_gbps",
    "device_to_host_gbps",
    "nccl_allreduce_busbw_gbps",
    "nccl_allreduce_multinode_busbw_gbps",
    "ib_write_bw_gbitps",
)

_INT: dict[str, t.Any] = {"type": "int", "required": True}
_COUNT: dict[str, t.Any] = {"type": "int", "default": 0}
_LEVEL: dict[str, t.Any] = {"type": "float"}

_CPUS: Spec = {
    "sockets": _INT,
    "cores_per_socket": _INT,
    "threads_per_core": _INT,
    "architecture": {"type": "str", "default": "x86_64"},
    "vendor": {"type": "str"},
    "family": {"type": "int"},
    "model": {"type": "int"},
    "numbering": {"type": "str", "choices": ["block", "round_robin"], "default": "block"},
}

_GPUS: Spec = {
    "count": _INT,
    "model": {"type": "str"},
    "memory_mib": {"type": "int"},
    # Number of the first device file, such as 1 for /dev/nvidia1, if the GPUs before are not Slurm's.
    "first_device": {"type": "int"},
    "clocks": {"type": "dict", "options": {"memory": _INT, "graphics": _INT}},
    "pcie_generation": {"type": "int"},
    "pcie_width": {"type": "int", "default": 16},
    "nvlinks": {"type": "int"},
    # GPUs that NVLink joins, if they are more than those of the machine.
    "nvlink_domain": {"type": "int"},
    # Slices of the node by MIG profile, such as {1g.10gb: 56}.
    "mig": {"type": "dict"},
}

_TOPOLOGY: Spec = {
    "index": _INT,
    "numa_node": _INT,
    "pci": {"type": "str"},
    "hca": {"type": "str"},
    "hca_pci": {"type": "str"},
    "bridge": {"type": "int"},
}

RECORD: Spec = {
    "name": {"type": "str", "required": True},
    "cpus": {"type": "dict", "required": True, "options": _CPUS},
    "numa_nodes": _INT,
    "memory_mib": _INT,
    "memory_tolerance_percent": {"type": "float", "default": 3.0},
    "gpus": {"type": "dict", "required": True, "options": _GPUS},
    "nvme": {"type": "dict", "apply_defaults": True, "options": {"count": _COUNT}},
    "infiniband": {
        "type": "dict",
        "apply_defaults": True,
        "options": {"rate_gbps": _COUNT, "hcas": {"type": "list", "elements": "str", "default": []}},
    },
    "accelerated_network": {
        "type": "dict",
        "options": {"device": {"type": "str", "required": True}, "rate_gbps": _INT},
    },
    "topology": {"type": "list", "elements": "dict", "options": _TOPOLOGY, "default": []},
    "nccl": {
        "type": "dict",
        "apply_defaults": True,
        "options": {
            "family": {"type": "str"},
            "topology_file": {"type": "bool", "default": False},
            "max_message_gib": {"type": "int", "default": 4},
            "environment": {"type": "dict", "default": {}},
        },
    },
    "environment": {"type": "dict", "default": {}},
    "thresholds": {
        "type": "dict",
        "apply_defaults": True,
        "options": {
            name: {"type": "dict", "options": {"expected": _LEVEL, "warn": _LEVEL, "fail": _LEVEL}}
            for name in THRESHOLDS
        },
    },
}
