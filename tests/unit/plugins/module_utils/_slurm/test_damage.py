# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""
Damaged outputs of Slurm and nccl-tests: the same values, or an error that says what was read.

docs/testing.md explains the kinds of damage that no reader can see.
"""

from __future__ import annotations

import random
import typing as t
from pathlib import Path

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._health import marker
from ansible_collections.hpcai.gpucluster.plugins.module_utils._nccl import perf_tests
from ansible_collections.hpcai.gpucluster.plugins.module_utils._slurm import job, nodes
from ansible_collections.hpcai.gpucluster.tests.unit.plugins.module_utils._nvidia.test_damage import DAMAGES

if t.TYPE_CHECKING:
    from collections.abc import Callable

FIXTURES = Path(__file__).parents[3] / "fixtures"
SEEDS = range(20)
# A lost row of a list that does not say how long it is.
POSSIBLE = {("sinfo", "lost row"), ("sinfo", "cut")}
NODE = (
    "NodeName=gpu1 Arch=x86_64\n   State=IDLE+DRAIN Weight=1\n   Reason=NHC: memory: x [root@2026-01-01T00:00:00]\n\n"
)


def _nodes(text: str) -> t.Any:
    # The rest is free text.
    return {node.name: (node.cpus, node.gpus, node.idle) for node in nodes.parse(text)}


def _job(text: str) -> t.Any:
    found = job.Slurm(lambda _args: (0, text, "")).job(206)
    return found.state, found.nodes, found.exit_code, found.restarts


def _sacct(text: str) -> t.Any:
    found = job.Slurm(lambda args: (0, text, "") if args[0] == "sacct" else (1, "", "")).job(206)
    return found.state, found.exit_code


def _nccl(text: str) -> t.Any:
    report = perf_tests.parse(text)
    problem = perf_tests.problem(report)
    if problem:
        raise ValueError(problem)
    return report.busbw, report.largest, report.checked, len(report.ranks)


READERS: dict[str, tuple[str, Callable[[str], t.Any]]] = {
    "sinfo": ((FIXTURES / "slurm/24.11.5/sinfo-nodes.txt").read_text(encoding="utf-8"), _nodes),
    "job": ((FIXTURES / "slurm/24.11.5/job-failed.txt").read_text(encoding="utf-8"), _job),
    "sacct": ("FAILED|3:0|gpu[1-2]\n", _sacct),
    "node": (NODE, lambda text: marker.node(text).flags),
    "nccl": ((FIXTURES / "nccl_tests/2.19.6/4xh200-allreduce-g4.txt").read_text(encoding="utf-8"), _nccl),
}


@pytest.mark.parametrize("damage", [name for name in DAMAGES if name not in ("letter", "error")])
@pytest.mark.parametrize("name", READERS)
def test_damage_changes_no_value_without_a_word(name: str, damage: str) -> None:
    text, read = READERS[name]
    whole, silent = read(text), list[str]()
    for seed in SEEDS:
        damaged = DAMAGES[damage](text, random.Random(f"{name} {damage} {seed}"))
        try:
            found = read(damaged)
        except (ValueError, job.SlurmError, marker.MarkError):
            continue
        silent += [damaged] if found != whole else []

    assert not silent or (name, damage) in POSSIBLE, silent[:1]
