# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which nodes the module changes, and which it leaves."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._slurm import drains
from ansible_collections.hpcai.gpucluster.plugins.modules import slurm_drain

if t.TYPE_CHECKING:
    from collections.abc import Sequence

NODES = """\
gpu1|batch|idle|24.11.5|(null)|8|none
gpu1|debug|idle|24.11.5|(null)|8|none
gpu2|batch|mixed|24.11.5|(null)|8|none
gpu3|batch|drained|24.11.5|(null)|8|bad cable
gpu4|batch|draining|24.11.5|(null)|8|new driver
gpu5|batch|down*|24.11.5|(null)|8|Not responding
gpu6|batch|drained*|24.11.5|(null)|8|new driver
gpu7|batch|drained|24.11.5|(null)|8|new driver of bob
"""


class Slurm:
    """Notes the commands that change something."""

    def __init__(self, fails: str = "") -> None:
        self.fails = fails
        self.changes: list[list[str]] = []

    def __call__(self, args: Sequence[str]) -> tuple[int, str, str]:
        if args[0] == self.fails:
            return 1, "", "Unable to contact slurm controller"
        if args[0] == "scontrol":
            self.changes.append(list(args[2:]))
        return 0, NODES if args[0] == "sinfo" else "", ""


def run(slurm: Slurm, state: str, *nodes: str, check_mode: bool = False, **options: t.Any) -> dict[str, t.Any]:
    params = {"nodes": list(nodes), "state": state, "reason": "new driver", "max_down": None, **options}
    return slurm_drain.change(slurm, params, check_mode)


def test_nodes_in_service_are_drained_by_one_command() -> None:
    slurm = Slurm()
    result = run(slurm, "drained", "gpu1", "gpu2", "gpu1")

    assert slurm.changes == [["NodeName=gpu1,gpu2", "State=DRAIN", "Reason=new driver"]]
    assert result["nodes"] == result["ours"] == ["gpu1", "gpu2"]
    assert result["diff"]["after"] == "gpu1: drained: new driver\ngpu2: drained: new driver\n"


@pytest.mark.parametrize("node", ["gpu3", "gpu5", "gpu7", "gpu9"])
@pytest.mark.parametrize("state", ["drained", "resumed"])
def test_a_node_with_another_reason_is_left(node: str, state: str) -> None:
    slurm = Slurm()
    result = run(slurm, state, node)

    assert slurm.changes == []
    assert not result["changed"]
    assert list(result["left"]) == ([] if (node, state) == ("gpu9", "resumed") else [node])


def test_a_drain_of_ours_is_no_change_and_stays_ours() -> None:
    slurm = Slurm()
    result = run(slurm, "drained", "gpu4", "gpu6")

    assert slurm.changes == []
    assert result["ours"] == ["gpu4", "gpu6"]


def test_only_nodes_of_ours_are_resumed() -> None:
    slurm = Slurm()
    result = run(slurm, "resumed", "gpu1", "gpu3", "gpu4", "gpu6")

    assert slurm.changes == [["NodeName=gpu4,gpu6", "State=RESUME"]]
    assert result["left"] == {"gpu3": "drained: bad cable"}


@pytest.mark.parametrize("state", ["drained", "resumed"])
def test_check_mode_changes_nothing_and_says_the_same(state: str) -> None:
    slurm = Slurm()

    assert run(slurm, state, "gpu1", "gpu4", check_mode=True) == run(Slurm(), state, "gpu1", "gpu4")
    assert slurm.changes == []


@pytest.mark.parametrize(("most", "allowed"), [(5, False), (6, True), (None, True)])
def test_no_more_nodes_are_drained_than_may_be_out_of_service(most: int | None, allowed: bool) -> None:
    slurm = Slurm()
    if allowed:
        run(slurm, "drained", "gpu1", max_down=most)
    else:
        with pytest.raises(drains.DrainError, match=r"6 nodes would be out of service, but at most 5.*gpu3 \(drained"):
            run(slurm, "drained", "gpu1", max_down=most)

    assert bool(slurm.changes) is allowed


def test_nodes_that_are_drained_already_need_no_budget() -> None:
    assert run(Slurm(), "drained", "gpu4", max_down=1)["ours"] == ["gpu4"]


@pytest.mark.parametrize("program", ["sinfo", "scontrol"])
def test_a_failing_command_is_a_failure(program: str) -> None:
    with pytest.raises(drains.DrainError, match="Unable to contact"):
        run(Slurm(program), "drained", "gpu1")


def test_an_empty_reason_is_refused() -> None:
    with pytest.raises(drains.DrainError, match="reason is empty"):
        run(Slurm(), "resumed", "gpu1", reason=" ")
