# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The message of the day, from answers of Slurm and without one."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._motd import cli

if t.TYPE_CHECKING:
    from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host


class Slurm:
    """A machine whose sinfo and squeue answer."""

    def __init__(self, nodes: str, jobs: str, code: int = 0) -> None:
        self.answers = {"sinfo": nodes, "squeue": jobs}
        self.code = code

    def run(self, args: list[str]) -> tuple[int, str, str]:
        return self.code, self.answers[args[0]], ""


def said(slurm: Slurm, text: str = "") -> list[str]:
    return cli.message("lab", text, t.cast("Host", slurm), "now").splitlines()


def test_nodes_count_once_and_states_without_marks() -> None:
    slurm = Slurm("gpu1 idle\ngpu1 idle\ngpu2 down*\ngpu3 idle~\n", "RUNNING\nPENDING\nRUNNING\n")

    assert said(slurm) == [
        "Cluster lab: 3 nodes: 2 idle, 1 down",
        "Jobs: 3 in the queue: 2 running, 1 pending",
        "(at now)",
    ]


def test_an_empty_queue_is_no_fault() -> None:
    assert said(Slurm("gpu1 idle\n", ""))[1] == "Jobs: 0 in the queue"


def test_a_text_of_the_site_comes_first() -> None:
    assert said(Slurm("", ""), "Maintenance on Friday")[0] == "Maintenance on Friday"


def test_a_slurm_that_does_not_answer_is_reported() -> None:
    assert said(Slurm("", "", code=124)) == ["Cluster lab: Slurm does not answer.", "(at now)"]
