# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
Expectations of the health program for a machine.

They come from its hardware record, the inputs of the roles that configure it, and the defaults in the check table.
"""

from __future__ import annotations

import copy
import re
import typing as t
from collections.abc import Mapping

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ansible_collections.hpcai.gpucluster.plugins.module_utils._hardware import record as _places
from ansible_collections.hpcai.gpucluster.plugins.module_utils._health import table
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue.plain import plain

if t.TYPE_CHECKING:
    from collections.abc import Iterator

Params = dict[str, t.Any]

FORMAT = 1

# Parameters of every check.
COMMON: Params = {"enabled": True, "samples": 1, "unknown_samples": 3, "gap_seconds": 5}

THRESHOLDS: dict[str, Params] = {name: check.params for name, check in table.CHECKS.items()}

THROUGHPUT = ("host_to_device", "device_to_host", "nvlink_allreduce", "infiniband_bandwidth", "dcgm")
# They start nvidia-smi once and read files below /sys and /proc: within a second on eight GPUs.
PROLOG = ("gpu_count", "gpu_ecc", "gpu_remap", "gpu_xid", "infiniband", "mounts")
# Seconds for a whole set. Slurm ends a health check after 60.
DEADLINES = {"fast": 30, "prolog": 10, "throughput": 5400, "all": 5400}

# Checks that need another program, and the parameter that requests them.
_REQUESTED = {"dcgm_health": "group", "nhc": "path"}

_NVIDIA_SMI = tuple(name for name, check in table.CHECKS.items() if check.nvidia_smi)


# Inputs of the roles gpu and nccl that change the state of a healthy node. The role decides an input without a value.
INPUTS: dict[str, dict[str, t.Any]] = {
    "gpu_count": {"type": "int"},
    "gpu_persistence": {"type": "bool", "default": True},
    "gpu_clocks": {"type": "str", "choices": ["max", "default", "job", "keep"], "default": "max"},
    "gpu_memory_clock": {"type": "int", "default": 0},
    "gpu_graphics_clock": {"type": "int", "default": 0},
    "gpu_clock_method": {"type": "str", "choices": ["auto", "application", "locked"], "default": "auto"},
    "nccl_hardware": {"type": "dict"},
    "nccl_topology": {"type": "str", "choices": ["record", "machine", "none"]},
    "nccl_topology_path": {"type": "str"},
}
# GPUs without ECC, or with ECC off by default.
_WORKSTATION = re.compile(r"\b(geforce|gtx|rtx|titan|quadro)\b", re.IGNORECASE)


class HealthError(ValueError):
    """An override or an input is invalid; the message states what to change."""


def expectations(
    record: Mapping[str, t.Any],
    overrides: Mapping[str, t.Any] | None = None,
    prolog: t.Sequence[str] | None = None,
    inputs: Mapping[str, t.Any] | None = None,
) -> dict[str, t.Any]:
    """Return the configuration of the health program for a machine with this record and these inputs."""
    told = _told(inputs)
    if told["gpu_count"] is not None:
        record = {**record, "gpus": {**record["gpus"], "count": told["gpu_count"]}}
    checks = {
        name: {**COMMON, **params, **_hardware(name, record), **_set_up(name, record, told)}
        for name, params in _defaults().items()
    }
    faults = list(_problems(checks, overrides)) + [
        f"unknown check {name!r} for the prolog" for name in prolog or () if name not in checks
    ]
    if faults:
        raise HealthError(f"{'; '.join(faults)}; known checks: {', '.join(checks)}")
    for name, params in (overrides or {}).items():
        checks[name].update(copy.deepcopy(dict(params)))
    return {
        "format": FORMAT,
        "vm_size": record["name"],
        "deadline_seconds": dict(DEADLINES),
        "sets": {
            "fast": [name for name in checks if name not in THROUGHPUT and _requested(name, checks[name])],
            "prolog": list(PROLOG if prolog is None else prolog),
            "throughput": list(THROUGHPUT),
        },
        "checks": checks,
    }


def _requested(name: str, params: Params) -> bool:
    """Return whether a check that needs another program has been requested."""
    return name not in _REQUESTED or params[_REQUESTED[name]] is not None


def _defaults() -> dict[str, Params]:
    defaults = copy.deepcopy(THRESHOLDS)
    for name in _NVIDIA_SMI:
        defaults[name].setdefault("timeout_seconds", defaults["gpu_count"]["timeout_seconds"])
    return defaults


def _hardware(name: str, record: Mapping[str, t.Any]) -> Params:
    """Return the parameters of one check from the record; None means that nothing is expected or judged."""
    gpus, fabric, cpus = record["gpus"], record.get("infiniband") or {}, record["cpus"]
    adapters = list(fabric.get("hcas") or [])
    clocks, copies = gpus.get("clocks") or {}, _places.most_copies(record)
    values: dict[str, Params] = {
        "gpu_count": {"count": gpus["count"] or None, "slices": gpus.get("mig") or {}},
        "gpu_model": {"model": gpus.get("model"), "memory_mib": gpus.get("memory_mib")},
        "gpu_clocks": {"memory_mhz": clocks.get("memory"), "graphics_mhz": clocks.get("graphics")},
        "gpu_pcie": {"generation": gpus.get("pcie_generation"), "width": gpus.get("pcie_width")},
        "gpu_ecc": {"required": not _WORKSTATION.search(gpus.get("model") or "")},
        "gpu_remap": {"required": not _WORKSTATION.search(gpus.get("model") or "")},
        "nvlink": {"links": gpus.get("nvlinks")},
        "infiniband": {"adapters": adapters or None, "rate_gbps": fabric.get("rate_gbps") or None},
        "memory": {
            "memory_mib": record["memory_mib"],
            "tolerance_percent": record.get("memory_tolerance_percent", 3.0),
        },
        "cpus": {
            "count": cpus["sockets"] * cpus["cores_per_socket"] * cpus["threads_per_core"],
            "numa_nodes": record["numa_nodes"],
        },
        "nvme": {"count": (record.get("nvme") or {}).get("count") or None},
        "dcgm_health": {"ignored_watches": [] if gpus.get("nvlinks") else ["NVLINK", "NVSwitch"]},
        "host_to_device": {"gbps_min": _fail(record, "host_to_device_gbps"), "gbps_max": copies},
        "device_to_host": {"gbps_min": _fail(record, "device_to_host_gbps"), "gbps_max": copies},
        "nvlink_allreduce": {
            "gbps_min": _fail(record, "nccl_allreduce_busbw_gbps"),
            "gbps_max": _places.most(record) or _places.FASTEST_BUS,
            "gpus": gpus["count"] or None,
            "message_gib": (record.get("nccl") or {}).get("max_message_gib"),
        },
        "infiniband_bandwidth": {"gbitps_min": _fail(record, "ib_write_bw_gbitps")},
    }
    found = values.get(name, {})
    if not gpus["count"] and (name in _NVIDIA_SMI or name in ("gpu_xid", "dcgm_health")):
        found["enabled"] = False
    if name == "nvlink_errors" and not gpus.get("nvlinks"):
        found["enabled"] = False
    if name in ("infiniband_errors", "infiniband_flaps") and not adapters:
        found["enabled"] = False
    return found


def _told(inputs: Mapping[str, t.Any] | None) -> Params:
    """Return every input with its value, converted as in the role."""
    if inputs is not None and not isinstance(inputs, Mapping):
        raise HealthError(f"the inputs must be a mapping, not {type(inputs).__name__}")
    given = {name: value for name, value in plain(inputs or {}).items() if value not in (None, "")}
    checked = ArgumentSpecValidator(INPUTS).validate(given)
    if checked.error_messages:
        raise HealthError("; ".join(checked.error_messages))
    return dict(checked.validated_parameters)


def _set_up(name: str, record: Mapping[str, t.Any], told: Params) -> Params:
    """Return the parameters of one check from the inputs of roles; they override the record."""
    if name == "gpu_persistence" and not told["gpu_persistence"]:
        return {"enabled": False}
    if name == "gpu_clocks":
        # Only these settings keep the application clocks of an idle node at the maximum.
        capped = told["gpu_memory_clock"] or told["gpu_graphics_clock"]
        return {"application": told["gpu_clocks"] == "max" and told["gpu_clock_method"] != "locked" and not capped}
    return _topology(told["nccl_hardware"] or record, told) if name == "nccl_topology" else {}


def _topology(record: Mapping[str, t.Any], told: Params) -> Params:
    nccl = record.get("nccl") or {}
    source = told["nccl_topology"] or ("record" if nccl.get("topology_file") else "none")
    family = nccl.get("family")
    path = f"/opt/microsoft/{family}-topo.xml" if family else "/opt/gpucluster/nccl/topo.xml"
    devices = {}
    # A file made from the PCI tree of the machine has the devices and CPUs of that tree, which are in no record.
    for gpu in (record.get("topology") or []) if source != "machine" else []:
        for key in ("pci", "hca_pci"):
            if gpu.get(key):
                devices[gpu[key]] = gpu["numa_node"]
    known = bool(devices) or source == "machine"
    nodes = range(record["numa_nodes"]) if source != "machine" else ()
    cpus = {str(node): _places.ranges(_places.numa_cpus(dict(record), node)) for node in nodes}
    return {
        "path": (told["nccl_topology_path"] or path) if source != "none" else None,
        "devices": devices if known else None,
        "cpus": cpus,
    }


def _fail(record: Mapping[str, t.Any], name: str) -> t.Any:
    return ((record.get("thresholds") or {}).get(name) or {}).get("fail")


def _problems(checks: Mapping[str, Params], overrides: t.Any) -> Iterator[str]:
    """Yield the faults of the overrides."""
    if overrides is not None and not isinstance(overrides, Mapping):
        yield f"the overrides must be a mapping of checks, not {type(overrides).__name__}"
        return
    for name, params in (overrides or {}).items():
        if name not in checks:
            yield f"unknown check {name!r}"
        elif not isinstance(params, Mapping):
            yield f"{name} must be a mapping of parameters, not {type(params).__name__}"
        else:
            yield from _params_problems(name, checks[name], params)


def _params_problems(name: str, known: Params, params: Mapping[str, t.Any]) -> Iterator[str]:
    for key, value in params.items():
        if key not in known:
            yield f"{name} has no parameter {key!r}; it has {', '.join(known)}"
            continue
        kind = _kind(key, known[key])
        if value is not None and not _is(kind, value):
            yield f"{name}.{key} must be a {kind}, not {value!r}"


def _kind(key: str, default: t.Any) -> str:
    if key in ("path", "kernel_log", "model"):
        return "text"
    if key in ("devices", "cpus", "adapters"):
        return "list" if key == "adapters" else "mapping"
    kinds = {bool: "boolean", dict: "mapping", list: "list"}
    return kinds.get(type(default), "number")


def _is(kind: str, value: t.Any) -> bool:
    if kind == "number":
        return isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0
    kinds: dict[str, t.Any] = {"text": str, "boolean": bool, "mapping": Mapping, "list": list}
    return isinstance(value, kinds[kind])
