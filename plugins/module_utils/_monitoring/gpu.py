# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Figures of GPUs under the names of DCGM's exporter, from one start of nvidia-smi, and Xids from the kernel log."""

from __future__ import annotations

import collections
import re
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._health import xid
from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia import values

from .text import Sample, sample

if t.TYPE_CHECKING:
    from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia.smi import NvidiaSmi
    from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host

_IDENTITY = ("index", "uuid", "pci.bus_id", "name")
_ECC = "ecc.errors.{}.{}.{}"
_MASK = re.compile(r"0x[0-9a-fA-F]{1,16}")
_MINOR = re.compile(r"^Device Minor:\s*(\d+)", re.MULTILINE)

# By name of DCGM, the fields of nvidia-smi whose sum it is. Drivers from 470 on know all of them.
SERIES: dict[str, tuple[str, ...]] = {
    "DCGM_FI_DEV_GPU_UTIL": ("utilization.gpu",),
    "DCGM_FI_DEV_MEM_COPY_UTIL": ("utilization.memory",),
    "DCGM_FI_DEV_FB_USED": ("memory.used",),
    "DCGM_FI_DEV_FB_FREE": ("memory.free",),
    "DCGM_FI_DEV_POWER_USAGE": ("power.draw",),
    "DCGM_FI_DEV_GPU_TEMP": ("temperature.gpu",),
    "DCGM_FI_DEV_MEMORY_TEMP": ("temperature.memory",),
    "DCGM_FI_DEV_SM_CLOCK": ("clocks.sm",),
    "DCGM_FI_DEV_MEM_CLOCK": ("clocks.mem",),
    "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS": ("clocks_throttle_reasons.active",),
    "DCGM_FI_DEV_PCIE_LINK_GEN": ("pcie.link.gen.current",),
    "DCGM_FI_DEV_PCIE_LINK_WIDTH": ("pcie.link.width.current",),
    "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL": tuple(_ECC.format("corrected", "volatile", part) for part in ("sram", "dram")),
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": tuple(_ECC.format("uncorrected", "volatile", part) for part in ("sram", "dram")),
    "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS": ("remapped_rows.correctable",),
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": ("remapped_rows.uncorrectable",),
    "DCGM_FI_DEV_ROW_REMAP_PENDING": ("remapped_rows.pending",),
    "DCGM_FI_DEV_ROW_REMAP_FAILURE": ("remapped_rows.failure",),
}
# DCGM's exporter of the site, and the port that its figures come from, as /proc/net/tcp has it.
DCGM = "http://127.0.0.1:9400/metrics"
_LISTENS = re.compile(r"^ *\d+: [0-9A-F]+:24B8 [0-9A-F]+:0000 0A \S+ \S+ \S+ +(\d+) ", re.MULTILINE)
_LINE = re.compile(r'(DCGM_\w+)\{((?:\w+="(?:[^"\\]|\\.)*",?)*)\} (-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)(?: \d+)?')
_INDEX = re.compile("[0-9]{1,4}")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
# Names of DCGM 4 for older ones.
_RENAMED = {"DCGM_FI_DEV_CLOCKS_EVENT_REASONS": "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS"}
_USERS = 1000  # the first ID of a user, who can listen on this port, too
FIELDS = (*_IDENTITY, *(field for fields in SERIES.values() for field in fields))


def samples(smi: NvidiaSmi, host: Host) -> list[Sample]:
    """Return the figures of all GPUs. A figure that a GPU does not have is missing, never 0."""
    found = smi.query("gpu", FIELDS, needed=len(_IDENTITY))
    return [one for row in found.rows for one in _gpu(row, _minor(row["pci.bus_id"], host))]


def dcgm_runs(host: Host) -> bool:
    """Return whether DCGM's port is open on this machine, by programs of the system and by no user."""
    uids = [int(uid) for table in ("tcp", "tcp6") for uid in _LISTENS.findall(host.read(f"/proc/net/{table}"))]
    return bool(uids) and all(uid < _USERS for uid in uids)


def dcgm(page: str) -> list[Sample]:
    """Return the figures of DCGM's exporter. Raise ValueError for a page without one, or with an unreadable one."""
    lines = [line for line in page.splitlines() if "DCGM_" in line and not line.startswith("#")]
    found = []
    for line in lines:
        match = _LINE.fullmatch(line)
        if not match:
            raise ValueError(f"DCGM's exporter printed {line[:200]!r}")
        labels = {name: re.sub(r"\\(.)", _unescaped, text) for name, text in _LABEL.findall(match[2])}
        if not _INDEX.fullmatch(labels.get("gpu", "0")):
            raise ValueError(f"DCGM's exporter printed the GPU {labels['gpu'][:60]!r}")
        found.append(Sample(match[1], labels, float(match[3])))
    if not found:
        raise ValueError("DCGM's exporter has no figure")
    if not page.endswith("\n"):
        raise ValueError(f"DCGM's exporter printed a page that is cut: {page[-60:]!r}")
    return found


def _unescaped(match: re.Match[str]) -> str:
    return "\n" if match[1] == "n" else match[1]


def filled(given: list[Sample], ours: list[Sample]) -> list[Sample]:
    """Return the figures of DCGM, and those of ours that DCGM does not have for that GPU."""
    has = {(_RENAMED.get(one.name, one.name), one.labels.get("UUID")) for one in given}
    return [*given, *(one for one in ours if (one.name, one.labels["UUID"]) not in has)]


def _gpu(row: dict[str, str], minor: str) -> t.Iterator[Sample]:
    labels = {
        "gpu": row["index"],
        "UUID": row["uuid"],
        "device": f"nvidia{minor or row['index']}",
        "modelName": row["name"],
        "pci_bus_id": row["pci.bus_id"],
    }
    for name, fields in SERIES.items():
        cells = [_number(field, row.get(field)) for field in fields]
        known = [cell for cell in cells if cell is not None]
        if len(known) == len(cells):
            yield sample(name, sum(known), **labels)


def _number(field: str, cell: str | None) -> float | None:
    """Return a cell in the form of its field as a number: a bit mask, 1 and 0 for Yes and No, or a count."""
    if field.endswith(".active"):
        return int(cell, 16) if cell is not None and _MASK.fullmatch(cell) else None
    value = values.number(cell, field=field)
    if value is None and field.endswith((".pending", ".failure")):
        known = values.flag((cell or "").strip("[]"))
        return None if known is None else float(known)
    return value


def _minor(bus_id: str, host: Host) -> str:
    """Return the number of the device file, by which Slurm counts GPUs. Its order can differ from nvidia-smi's."""
    address = values.bus_id(bus_id) or ""
    text = host.read(f"/proc/driver/nvidia/gpus/{address[-12:].lower()}/information")
    match = _MINOR.search(text)
    return match[1] if match else ""


def xids(lines: t.Iterable[str], classes: t.Mapping[str, t.Collection[int]]) -> list[Sample]:
    """Return how often each Xid stands in the kernel log, with its class: application, warn or fault."""
    found = xid.standing(xid.events(lines))
    counts = collections.Counter((one.device, one.number, one.kind, _severity(one, classes)) for one in found)
    return [
        sample(
            "gpucluster_xid_total",
            count,
            pci_bus_id=device,
            xid=str(number or ""),
            kind=kind.rstrip(":"),
            severity=severity,
        )
        for (device, number, kind, severity), count in sorted(counts.items())
    ]


def _severity(event: xid.Event, classes: t.Mapping[str, t.Collection[int]]) -> str:
    if event.kind == "Xid" and event.number in classes.get("application", ()):
        return "application"
    if event.kind == "Xid" and not event.demands:
        return "warn" if event.number in classes.get("warn", ()) or event.says else "fault"
    return "fault" if event.kind == "SXid" or event.demands else "warn"
