#!/usr/bin/env python
# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""
Cost of one pass of gpucluster-metrics on this machine, with its GPUs: processor time, seconds and memory.

It builds the program as the role monitoring installs it, and counts its children, such as nvidia-smi. It only reads:
it needs no network and no systemd, and changes no setting of a GPU. It writes its figures into a temporary directory.
Fails if a collector fails, or if a pass a minute takes more than 1 % of one core.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import typing as t
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ZIPAPP = ROOT / "plugins/plugin_utils/_programs/zipapp.py"
COLLECTORS = ("machine", "oom", "xid", "gpu")  # those of a node with GPUs
STEPS: dict[str, tuple[str, ...]] = {"start of the program": (), "gpu alone": ("gpu",), "all of a node": COLLECTORS}
ABOUT = ("nvidia-smi", "--query-gpu=name,driver_version,persistence_mode,utilization.gpu", "--format=csv,noheader")
BUDGET = 0.6  # seconds of processor time for one pass: 1 % of one core, with one pass a minute
LONGEST = 50.0  # seconds after which systemd would end a pass


class Pass(t.NamedTuple):
    """One pass: seconds of processor time in user and system mode, seconds, KiB at most, exit status, messages."""

    user: float
    system: float
    wall: float
    kib: int
    status: int
    said: str


def built(path: Path, interpreter: str) -> Path:
    """Write the program as the role installs it."""
    spec = importlib.util.spec_from_file_location("zipapp_of_the_collection", ZIPAPP)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    path.write_bytes(module.build("_monitoring.cli", interpreter))
    path.chmod(0o755)
    return path


def measured(command: t.Sequence[str], limit: float = LONGEST) -> Pass:
    """Run a command and return its cost with that of all its children that ended."""
    with tempfile.TemporaryFile() as said:
        start = time.monotonic()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=said)
        timer = threading.Timer(limit, process.kill)
        timer.start()
        try:
            _pid, status, used = os.wait4(process.pid, 0)
        finally:
            timer.cancel()
        wall = time.monotonic() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        words = said.read().decode("utf-8", "replace").strip()
    return Pass(used.ru_utime, used.ru_stime, wall, used.ru_maxrss, process.returncode, words)


def passes(program: Path, directory: Path, collectors: t.Sequence[str], count: int) -> list[Pass]:
    """Run some passes with these collectors."""
    config = directory / "monitoring.json"
    settings = {"directory": str(directory / "figures"), "collectors": list(collectors)}
    config.write_text(json.dumps(settings), encoding="utf-8")
    return [measured([str(program), "--config", str(config)]) for _number in range(count)]


def summary(name: str, found: t.Sequence[Pass]) -> dict[str, t.Any]:
    """Return median and maximum of each figure."""
    processor = [one.user + one.system for one in found]
    return {
        "pass": name,
        "passes": len(found),
        "user_s": round(statistics.median(one.user for one in found), 4),
        "system_s": round(statistics.median(one.system for one in found), 4),
        "processor_s": round(statistics.median(processor), 4),
        "processor_s_max": round(max(processor), 4),
        "wall_s": round(statistics.median(one.wall for one in found), 4),
        "wall_s_max": round(max(one.wall for one in found), 4),
        "memory_mib_max": round(max(one.kib for one in found) / 1024, 1),
        "percent_of_one_core": round(statistics.median(processor) / 60 * 100, 3),
    }


def faults(name: str, found: t.Sequence[Pass]) -> list[str]:
    """Return what failed and the budget that is missed."""
    failed = [f"{name}: exit status {one.status}: {one.said}" for one in found if one.status]
    spent = statistics.median(one.user + one.system for one in found)
    late = [f"{name}: {spent:.2f} s of processor time, budget {BUDGET} s"] if spent > BUDGET else []
    return [*dict.fromkeys(failed), *late]


def gpus() -> list[str]:
    """Return name, driver, persistence mode and utilisation of each GPU, as nvidia-smi prints them."""
    try:
        done = subprocess.run(ABOUT, capture_output=True, text=True, timeout=LONGEST, check=False)
    except (OSError, subprocess.TimeoutExpired) as exc:
        return [f"nvidia-smi does not answer: {exc}"]
    return (done.stdout or done.stderr).splitlines()


def main() -> int:
    """Measure, print, and return 1 if a collector failed or the budget is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--passes", type=int, default=20, help="passes of each kind (default: 20)")
    options = parser.parse_args()
    print(json.dumps({"python": sys.version.split()[0], "cores": os.cpu_count(), "gpus": gpus()}))
    print(json.dumps(summary("nothing (true), the least that this script can measure", [measured(["true"])])))
    missed = []
    with tempfile.TemporaryDirectory(prefix="collector-cost.") as name:
        program = built(Path(name) / "gpucluster-metrics", sys.executable)
        for step, collectors in STEPS.items():
            found = passes(program, Path(name), collectors, options.passes)
            print(json.dumps(summary(step, found)), flush=True)
            missed += faults(step, found)
        figures = [path.read_text(encoding="utf-8") for path in sorted(Path(name).glob("figures/*.prom"))]
    print(json.dumps({"series": sum(len(text.splitlines()) for text in figures)}))
    print("\n".join(missed) or "the budget is met")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
