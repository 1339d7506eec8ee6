# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a controller says about itself."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._slurm import config_state

if t.TYPE_CHECKING:
    from collections.abc import Sequence

    from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.bounded_run import Runner

NODES = "NodeName=gpu1 SlurmdStartTime=2026-11-22T08:00:00 X=1\nNodeName=gpu2 SlurmdStartTime=None\n"


def runner(nodes: tuple[int, str] = (0, NODES), jobs: tuple[int, str] = (0, "")) -> Runner:
    def run(args: Sequence[str]) -> tuple[int, str, str]:
        code, out = nodes if args[0] == "scontrol" else jobs
        return code, out, "down"

    return run


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (runner(), ["gpu1"]),
        (runner(nodes=(0, "NodeName=gpu2 SlurmdStartTime=None\n")), []),
        (runner(nodes=(0, ""), jobs=(0, "11\n12\n")), ["11", "12"]),
        (runner(nodes=(1, ""), jobs=(1, "")), ["scontrol exited 1: down", "squeue exited 1: down"]),
    ],
)
def test_a_controller_that_does_not_answer_is_a_risk_as_well(run: Runner, expected: list[str]) -> None:
    assert config_state.at_risk(run) == expected


def test_control_groups_are_those_of_a_service() -> None:
    assert config_state.delegated(lambda __: (0, "cpuset cpu memory\n", "")) == ["cpuset", "cpu", "memory"]
    assert config_state.delegated(lambda __: (0, "", "")) == []
    with pytest.raises(config_state.ConfigError, match="systemd-run exited 1: no bus"):
        config_state.delegated(lambda __: (1, "", "no bus"))


def test_what_was_noted_is_read_or_refused() -> None:
    assert config_state.pending("") == []
    assert config_state.pending('[{"action": "reconfigure"}]') == [{"action": "reconfigure"}]
    with pytest.raises(config_state.ConfigError, match="cannot be read"):
        config_state.pending("[{")
