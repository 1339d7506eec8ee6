# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
All checks, each with its function and its default parameters.

docs/health.md explains every parameter and names the source of each number.
"""

from __future__ import annotations

import typing as t


class Check(t.NamedTuple):
    """One check: its module in this package, its function, and its parameters."""

    module: str
    function: str
    params: dict[str, t.Any]
    # Whether it calls nvidia-smi, so that it applies only to machines with GPUs.
    nvidia_smi: bool = False


# A module is imported when one of its checks runs.
CHECKS: dict[str, Check] = {
    "gpu_count": Check("gpu", "count", {"timeout_seconds": 10, "unknown_samples": 2}),
    "gpu_model": Check("gpu", "model", {"tolerance_percent": 5}, nvidia_smi=True),
    "gpu_persistence": Check("gpu", "persistence", {}, nvidia_smi=True),
    "gpu_clocks": Check("gpu", "clocks", {"application": True}, nvidia_smi=True),
    "gpu_ecc": Check(
        "gpu",
        "ecc",
        {
            "sram_corrected_max": 10_000,
            "sram_uncorrected_max": 0,
            "dram_corrected_max": 20_000_000,
            "dram_uncorrected_max": 0,
        },
        nvidia_smi=True,
    ),
    "gpu_remap": Check("gpu", "remap", {"uncorrectable_max": 512, "retired_pages_max": 62}, nvidia_smi=True),
    "gpu_throttle": Check("gpu", "throttle", {"mask": 0xE8, "samples": 3}, nvidia_smi=True),
    "gpu_temperature": Check("gpu", "temperature", {"max_celsius": 93, "samples": 3}, nvidia_smi=True),
    "gpu_pcie": Check("gpu", "pcie", {"samples": 3}, nvidia_smi=True),
    "gpu_fabric": Check("fabric", "state", {"samples": 2}, nvidia_smi=True),
    "gpu_xid": Check(
        "xid", "check", {"kernel_log": "/dev/kmsg", "application": [13, 31, 43, 45], "warn": [63, 66, 94, 154]}
    ),
    "nvlink": Check("nvlink", "state", {"samples": 2}, nvidia_smi=True),
    "nvlink_errors": Check("nvlink", "errors", {"growth_max": 1000, "window_seconds": 3600}, nvidia_smi=True),
    "nccl_topology": Check("topology", "check", {}),
    "infiniband": Check("network", "infiniband", {"samples": 2}),
    "infiniband_errors": Check(
        "network",
        "infiniband_errors",
        {
            "growth_max_by_counter": {
                "symbol_error": 120,
                "link_error_recovery": 3,
                "port_rcv_errors": 100,
                "port_xmit_discards": 1000,
            },
            "window_seconds": 3600,
        },
    ),
    "infiniband_flaps": Check("network", "infiniband_flaps", {"flaps_max": 2, "window_seconds": 10_800}),
    "ethernet": Check("network", "ethernet", {"interfaces": [], "samples": 2}),
    "ethernet_flaps": Check("network", "ethernet_flaps", {"interfaces": [], "flaps_max": 3, "window_seconds": 86_400}),
    "memory": Check("hardware", "memory", {}),
    "cpus": Check("hardware", "cpus", {}),
    "nvme": Check("hardware", "nvme", {"ignored_models": ["MSFT NVMe Accelerator"]}),
    "raid": Check("hardware", "raid", {"members": {}}),
    "mounts": Check("storage", "mounts", {"mounts": [], "timeout_seconds": 5, "samples": 2}),
    "filesystems": Check(
        "storage",
        "filesystems",
        {"paths": ["/"], "blocks_max_percent": 90, "inodes_max_percent": 98, "timeout_seconds": 5},
    ),
    "clock": Check("services", "clock", {"offset_max_seconds": 1, "timeout_seconds": 5, "samples": 3}),
    "munge": Check("services", "munge", {"timeout_seconds": 5, "samples": 2}),
    "slurmd": Check("services", "slurmd", {"timeout_seconds": 5, "samples": 2}),
    "leftovers": Check("leftovers", "check", {"uid_min": 1000, "samples": 2}),
    "dcgm_health": Check("dcgm", "check", {"group": None, "ignored_watches": [], "timeout_seconds": 10}),
    "nhc": Check("site_checks", "check", {"path": None, "timeout_seconds": 15}),
    "host_to_device": Check("throughput", "host_to_device", {"timeout_seconds": 300}),
    "device_to_host": Check("throughput", "device_to_host", {"timeout_seconds": 300}),
    "nvlink_allreduce": Check("throughput", "allreduce", {"timeout_seconds": 600}),
    "infiniband_bandwidth": Check("throughput", "infiniband", {"timeout_seconds": 60}),
    "dcgm": Check("throughput", "dcgm", {"level": None, "timeout_seconds": 3600}),
}
