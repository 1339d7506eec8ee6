#!/usr/bin/env python
# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""
The arithmetic of tests/gpu/run: rows of the table, and the values of nodes.

Usage: table.py nccl|training RESULTS | verdict REPORT | driver HOST_VARS | shrink GPUS HOST_VARS...
"""

from __future__ import annotations

import json
import re
import statistics
import sys
from pathlib import Path

# Size, and the bus bandwidth out of place, of a row of nccl-tests.
_ROW = re.compile(r"^ +(\d+) +\d+ +float +sum +-?\d+ +[\d.]+ +[\d.]+ +([\d.]+)", re.MULTILINE)


def nccl(results: Path) -> None:
    """Print Slurm against bare, by size: medians, and the spread of the bare runs as the noise."""
    tables = {
        kind: [dict(_ROW.findall(file.read_text(encoding="utf-8"))) for file in sorted(results.glob(f"nccl.{kind}.*"))]
        for kind in ("bare", "slurm")
    }
    for size in sorted(set().union(*tables["bare"], *tables["slurm"]), key=int):
        runs = {kind: [float(table[size]) for table in found if size in table] for kind, found in tables.items()}
        if not all(runs.values()) or not all(runs["bare"]):
            print(f"| all_reduce, {_size(size)} | no figure: {runs} |")
            continue
        middle = {kind: statistics.median(found) for kind, found in runs.items()}
        noise = 100 * (max(runs["bare"]) - min(runs["bare"])) / middle["bare"]
        print(
            f"| all_reduce, {_size(size)} | Slurm {middle['slurm']:.2f} GB/s, bare {middle['bare']:.2f}: "
            f"{100 * middle['slurm'] / middle['bare']:.1f} %; bare runs differ by {noise:.1f} % |"
        )


def training(results: Path) -> None:
    """Print the speed of each run, from its own log."""
    for file in sorted(results.glob("*.jsonl")):
        events = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        steps = [event for event in events if event.get("event") == "step"][-30:]
        if not steps:
            print(f"| {file.stem} | no step |")
            continue
        step = statistics.median(event["step_ms"] for event in steps)
        own = statistics.median(event["compute_ms"] for event in steps)
        start = next(event for event in events if event["event"] == "start")
        first = next(event for event in events if event["event"] == "step")
        starts = sum(event["event"] == "start" for event in events)
        share = start["flops_per_token"] * statistics.median(event["tokens_per_second"] for event in steps)
        again = ""
        if starts > 1:
            second = max(place for place, event in enumerate(events) if event["event"] == "start")
            before = max(event["time"] for event in events[:second] if event["event"] == "step")
            after = next(event["time"] for event in events[second:] if event["event"] == "step")
            again = f"; {after - before:.0f} s from the last step before the kill to the next step"
        share /= start["ranks"] * start["peak_tflops"] * 1e12
        print(
            f"| training, {file.stem} | {start['ranks']} ranks: a step {step:.1f} ms (own work {own:.1f}), "
            f"MFU {100 * share:.1f} %, first step after {first['time'] - start['time']:.0f} s, loss "
            f"{first['loss']:.3f} to {steps[-1]['loss']:.3f}, starts {starts}{again} |"
        )


def verdict(report: Path) -> None:
    """Print the verdict of a validation, and its failures."""
    found = json.loads(report.read_text(encoding="utf-8"))
    lines = [
        " ".join(f"{check['node'] or check['stage']}: {check['title']}: {check['message']}".replace("|", "/").split())[
            :160
        ]
        for check in found["checks"]
        if check["status"] == "fail"
    ]
    print("; ".join([found["verdict"].upper(), *(lines[:3] or [found["summary"]])]))


def driver(host_vars: Path) -> None:
    """Print the files of the driver; the real nvidia-smi lies behind guard_smi."""
    for volume in json.loads(host_vars.read_text(encoding="utf-8"))["lab_driver"]:
        print(volume.replace(":/usr/bin/nvidia-smi:", ":/usr/local/lib/nvidia-smi:"))


def shrink(gpus: str, *files: str) -> None:
    """Let each node have this number of GPUs, if it has more."""
    for file in map(Path, files):
        found = json.loads(file.read_text(encoding="utf-8"))
        record = found["gpucluster_vm_size_record"]
        record["topology"] = record["topology"][: int(gpus)]
        record["gpus"]["count"] = len(record["topology"])
        file.write_text(json.dumps(found), encoding="utf-8")


def _size(number: str) -> str:
    value, unit = int(number), 0
    while value >= 1024:
        value, unit = value // 1024, unit + 1
    return f"{value} {('B', 'KiB', 'MiB', 'GiB')[unit]}"


if __name__ == "__main__":
    actions = {"nccl": nccl, "training": training, "verdict": verdict, "driver": driver}
    if sys.argv[1] == "shrink":
        shrink(*sys.argv[2:])
    else:
        actions[sys.argv[1]](Path(sys.argv[2]))
