# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host that submits jobs to invented nodes, as the stages of the validation see it: modules and their results."""

from __future__ import annotations

import typing as t

SETTINGS: dict[str, t.Any] = {
    "nodes": 0,
    "nodelist": [],
    "partition": "",
    "busy_too": False,
    "stages": ["preflight", "scheduler", "node", "nccl"],
    "node_checks": ["check", "dcgm", "nvbandwidth"],
    "program": "auto",
    "command": [],
    "container_image": "",
    "container_mounts": [],
    "environment": {},
    "mpi": "pmix",
    "mpi_program": "print()",
    "gpus_per_node": 0,
    "cpus_per_task": 0,
    "cpu_bind": "",
    "collectives": ["all_reduce", "alltoall"],
    "min_bytes": "",
    "max_bytes": "",
    "iterations": 0,
    "dcgm_level": 1,
    "hardware": [],
    "thresholds": {},
    "relative": {},
    "pair_rounds": 0,
    "search_rounds": 40,
    "repeats": 2,
    "time_limit": 30,
    "pending_timeout": 120,
    "test_timeout": 300,
    "submit_options": {},
}
ASKED = ["timeout", "--kill-after=10", "60"]


class Host:
    """Answers modules; groups with a node of O(slow) reach a tenth of the bandwidth."""

    def __init__(self, number: int = 4, gpus: int = 8, slow: t.Collection[str] = ()) -> None:
        self.names = [f"gpu{place}" for place in range(1, number + 1)]
        self.nodes = [
            {"name": name, "state": "idle", "answers": True, "reason": "", "gpus": gpus, "gres": "", "cpus": 96}
            for name in self.names
        ]
        self.slow = set(slow)
        self.bandwidth = 400.0  # GB/s of all other groups
        self.busy: list[str] = []
        self.unusable: list[str] = []
        self.lost: dict[str, str] = {}  # why no command runs there
        self.faults: dict[str, str] = {}  # message of a module that fails
        self.said = {"scontrol": "Slurmctld(primary) at head is UP", "sacct": "17", "srun": "--container-image"}
        self.repairs: str | None = None  # what gpucluster-repair prints; None: it is not installed
        self.calls: list[tuple[str, dict[str, t.Any]]] = []
        self.lines: list[str] = []

    def call(self, module: str, arguments: dict[str, t.Any]) -> dict[str, t.Any]:
        """Return the result of a module."""
        name = module.rpartition(".")[2]
        self.calls.append((name, arguments))
        if name in self.faults:
            return {"failed": True, "msg": self.faults[name]}
        return t.cast("dict[str, t.Any]", getattr(self, f"_{name}")(arguments))

    def called(self, name: str) -> list[dict[str, t.Any]]:
        """Return the arguments of each call of a module."""
        return [arguments for module, arguments in self.calls if module == name]

    def _command(self, arguments: dict[str, t.Any]) -> dict[str, t.Any]:
        assert arguments["argv"][:3] == ASKED, "a command without a time limit"
        program = arguments["argv"][3]
        if program == "/usr/local/sbin/gpucluster-repair":
            return {"rc": 127 if self.repairs is None else 0, "stdout": self.repairs or "", "stderr": ""}
        return {"rc": 0, "stdout": self.said[program], "stderr": ""}

    def _slurm_nodes_info(self, arguments: dict[str, t.Any]) -> dict[str, t.Any]:
        free = [name for name in self.names if name not in [*self.busy, *self.unusable]]
        return {
            "nodes": self.nodes,
            "wanted": self.names,
            "selected": free if arguments.get("select", True) else [],
            "busy": self.busy,
            "unusable": self.unusable,
        }

    def _slurm_job(self, arguments: dict[str, t.Any]) -> dict[str, t.Any]:
        if arguments.get("state") == "absent":
            return {"changed": False, "cancelled": []}
        results = [
            {
                "nodes": [name],
                "rc": int(name in self.lost),
                "stdout": "",
                "stderr": "",
                "lost": self.lost.get(name, ""),
            }
            for name in arguments["nodelist"]
        ]
        return {"job_id": 17, "results": results}

    def _nccl_test(self, arguments: dict[str, t.Any]) -> dict[str, t.Any]:
        return {
            "results": [
                self._measured(group, collective)
                for group in arguments["groups"]
                for collective in arguments.get("collectives", ["all_reduce"])
                for _time in range(arguments.get("repeat", 1))
            ]
        }

    def _measured(self, group: t.Sequence[str], collective: str) -> dict[str, t.Any]:
        busbw = 40.0 if self.slow & set(group) and len(group) > 1 else self.bandwidth
        return {
            "nodes": list(group),
            "collective": collective,
            "state": "ok",
            "message": "",
            "busbw": busbw,
            "rows": [{"size": 1024, "busbw": busbw}],
            "checked": True,
            "world": len(group),
            "rc": 0,
        }
