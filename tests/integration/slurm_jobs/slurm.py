#!/usr/bin/env python
# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands of Slurm, sudo and the health program, each by its name, for nodes that are only in a file."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

FOLDER = Path(os.environ["FAKE_SLURM"])
NODES = json.loads((FOLDER / "nodes.json").read_text(encoding="utf-8"))
ROOT = bool(os.environ.get("FAKE_ROOT"))


def names(expression: str) -> list[str]:
    """Return the names behind gpu1,gpu2 or gpu[1-2]."""
    begin, bracket, ranges = expression.rstrip("]").partition("[")
    if not bracket:
        return expression.split(",")
    first, _dash, last = ranges.partition("-")
    return [f"{begin}{number}" for number in range(int(first), int(last or first) + 1)]


def sinfo(options: dict[str, str]) -> None:
    wanted = names(options.get("--nodes", ",".join(NODES)))
    for name, node in NODES.items():
        if name in wanted:
            fields = {
                "%N": name,
                "%R": "main",
                "%T": node["state"],
                "%v": "24.11.5",
                "%c": "96",
                "%E": node.get("reason", "none"),
            }
            text = options["--format"].replace("%G", f"gpu:{node['gpus']}" if node["gpus"] else "(null)")
            for field, value in fields.items():
                text = text.replace(field, value)
            print(text)


def scontrol(words: list[str]) -> None:
    if words[:2] == ["show", "hostnames"]:
        print("\n".join(words[2].split(",")))
    elif words == ["ping"]:
        print("Slurmctld(primary) at head is UP")
    elif words[:2] == ["show", "job"]:
        print(f"JobId=17 JobState={(FOLDER / 'state').read_text(encoding='utf-8')} Reason=Resources NodeList=gpu1")


def sbatch() -> None:
    """Start a job, or drain every node in its prolog."""
    if (FOLDER / "prolog").exists():
        why = (FOLDER / "prolog").read_text(encoding="utf-8")
        drained = {name: {**node, "state": "drained", "reason": why} for name, node in NODES.items()}
        (FOLDER / "nodes.json").write_text(json.dumps(drained), encoding="utf-8")
        (FOLDER / "state").write_text("CANCELLED", encoding="utf-8")
    print(17)


def scancel() -> None:
    """End a job; the epilog drains gpu1, and further jobs for it wait."""
    if (FOLDER / "epilog").exists():
        why = (FOLDER / "epilog").read_text(encoding="utf-8")
        drained = {**NODES, "gpu1": {**NODES["gpu1"], "state": "drained", "reason": why}}
        (FOLDER / "nodes.json").write_text(json.dumps(drained), encoding="utf-8")


def srun(options: dict[str, str], words: list[str]) -> int:
    if "--help" in options:
        return 0
    if words[0] == "gpucluster-check":
        return check(options["--nodelist"].split(","))
    while (FOLDER / "slow").exists():
        time.sleep(1)  # fault: hangs
    print((FOLDER / "output.txt").read_text(encoding="utf-8"))
    return 0


def check(names: list[str]) -> int:
    well = {name: ROOT and NODES[name]["healthy"] for name in names}
    for name, healthy in well.items():
        checks = [{"check": "gpu_xid", "status": "healthy" if healthy else "unhealthy", "reason": "Xid 79"}]
        checks += [
            {"check": check, "status": status, "reason": "all_reduce_perf is missing"}
            for check, status in NODES[name].get("others", {}).items()
        ]
        print(json.dumps({"node": name, "checks": checks}))
    return int(not all(well.values()))


def main(name: str, args: list[str]) -> int:
    if name == "sudo":
        os.environ["FAKE_ROOT"] = "yes"
        shell = args.index("/bin/sh")
        os.execv(args[shell], args[shell:])
    with (FOLDER / "calls.jsonl").open("a", encoding="utf-8") as stream:
        stream.write(json.dumps([name, *args, f"root={ROOT}"]) + "\n")
    options = dict(arg.partition("=")[::2] for arg in args if arg.startswith("--"))
    words = [arg for arg in args if not arg.startswith("--")]
    if name == "sinfo" and "--format" in options:
        sinfo(options)
    if name == "scontrol":
        scontrol(words)
    if name == "sbatch":
        sbatch()
    if name == "scancel":
        scancel()
    if name == "sacct" or (name == "squeue" and (FOLDER / "slow").exists()):
        print(17)
    if name == "gpucluster-check":  # only a drained node runs it without a job
        return check([node for node, found in NODES.items() if found["state"] == "drained"])
    return srun(options, words) if name == "srun" else 0


sys.exit(main(Path(sys.argv[0]).name, sys.argv[1:]))
