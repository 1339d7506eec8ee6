# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reports of whole runs over as many nodes as one likes, made by the stages from invented measurements."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import isolation
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation import report, search, stages

GPU = "NVIDIA H100 80GB HBM3"
SIZE = "Standard_ND96isr_H100_v5"
COLLECTIVES = {"all_reduce": 1.0, "all_gather": 0.82, "reduce_scatter": 0.83, "alltoall": 0.7}
LIMITS = {"node": {"expected": 480, "warn": 465, "fail": 456}, "pair": {"expected": 380, "fail": 340}}
REASON = "NHC: gpu_count: expected 8 GPUs, found 7"


def run(number: int, *, slow: str = "", drained: str = "") -> dict[str, t.Any]:
    """Return the report of a run over nodes of eight GPUs, of which one is slow and one is drained meanwhile."""
    nodes = [f"gpu{place}" for place in range(1, number + 1)]
    states = [
        {"name": name, "state": "idle", "answers": True, "reason": "", "gpus": 8, "gres": "gpu:8", "cpus": 96}
        for name in nodes
    ]
    now = [{**node, "state": "drained", "reason": REASON} if node["name"] == drained else node for node in states]
    after = {
        "before": states,
        "states": now,
        "meant": nodes,
        "measured": nodes,
        "hardware": [{"hosts": ",".join(nodes), "record": {"name": SIZE, "gpus": {"count": 8, "model": "H100"}}}],
        "ended": 1795252500 + 905,
    }
    raws = {
        "preflight": {"nodes": nodes, "facts": {name: _facts() for name in nodes}, "states": states},
        "scheduler": _scheduler(nodes),
        "node": {"nodes": nodes, "dcgm": [{**_done(name), "rc": 127} for name in nodes]},
        "nccl": _nccl(nodes, slow),
        "after": after,
    }
    about = {"run": "20261121T091500Z", "ended": 1795252500 + 905, "cluster": "atlas", "stages": list(raws)}
    return report.build([stages.build(name, raw) for name, raw in raws.items()], about)


def _facts() -> dict[str, t.Any]:
    return {
        "versions": {"kernel": "6.8.0", "driver": "580.159.04", "slurm": "26.05.4", "nccl": "2.28.9"},
        "clock": {"synchronized": True, "offset": 0.0, "by": "chrony"},
        "own_name": {"name": "gpu", "addresses": ["10.0.0.21"]},
        "mounts": {"/home": "ok"},
        "users": {},
    }


def _done(node: str) -> dict[str, t.Any]:
    return {"nodes": [node], "rc": 0, "stdout": "", "stderr": "", "lost": ""}


def _scheduler(nodes: list[str]) -> dict[str, t.Any]:
    return {
        "nodes": nodes,
        "job": [_done(name) for name in nodes],
        "mpi": [{**_measured(nodes, "all_reduce", 1.0), "world": len(nodes)}],
        "containers": {"plugin": False, "image": "", "results": [], "mpi": []},
    }


def _measured(nodes: t.Sequence[str], collective: str, busbw: float) -> dict[str, t.Any]:
    busbw *= COLLECTIVES[collective] * (1 + 0.001 * (int(nodes[0][3:]) % 7))
    return {
        "nodes": list(nodes),
        "collective": collective,
        "state": "ok",
        "message": "",
        "busbw": busbw,
        "largest": 2**33,
        "rows": [{"size": 2**power, "busbw": busbw / (1 + 2 ** (27 - power))} for power in range(20, 34)],
        "checked": True,
        "rc": 0,
        "version": "2.19.6",
        "world": 8 * len(nodes),
        "devices": [GPU],
    }


def _nccl(nodes: list[str], slow: str) -> dict[str, t.Any]:
    def measured(group: t.Sequence[str], collective: str, usual: float) -> dict[str, t.Any]:
        return _measured(group, collective, usual * (0.4 if slow in group and len(group) > 1 else 1))

    pairs = [group for row in isolation.tournament(nodes, 0 if len(nodes) < 9 else 1) for group in row]
    raw: dict[str, t.Any] = {
        "nodes": nodes,
        "collectives": list(COLLECTIVES),
        "program": "nccl",
        "thresholds": {**LIMITS, "all": {"fail": 320}},
        "limits_from": {"node": f"hardware record {SIZE}"},
        "node": [measured([name], collective, 478.0) for name in nodes for collective in COLLECTIVES],
        "pair": [measured(group, "all_reduce", 375.0) for group in pairs],
        "all": [measured(nodes, collective, 370.0) for collective in COLLECTIVES] if len(nodes) > 2 else [],
        "search": [],
    }
    found = search.isolate(raw)
    while found["next"]:
        raw["search"] += [measured(group, "all_reduce", 375.0) for group in found["next"]]
        found = search.isolate(raw)
    return {**raw, "isolation": found["verdict"]}
