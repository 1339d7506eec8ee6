# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._slurm import nodes
from ansible_collections.hpcai.gpucluster.plugins.modules import slurm_nodes_info

SINFO = (Path(__file__).parents[2] / "fixtures/slurm/24.11.5/sinfo-nodes.txt").read_text(encoding="utf-8")
PARAMS: dict[str, t.Any] = {"partition": None, "nodelist": [], "nodes": None, "busy_too": False, "select": True}


def run(args: t.Sequence[str]) -> tuple[int, str, str]:
    if args[0] == "sinfo":
        return 0, SINFO, ""
    if "[" in args[-1] and "]" not in args[-1]:
        return 1, "", "Invalid hostlist: " + args[-1]
    return 0, "gpu1\ngpu2\n", ""


def test_ranges_are_expanded_by_slurm() -> None:
    found = slurm_nodes_info.info(run, {**PARAMS, "nodelist": ["gpu[1-2]"]})

    assert (found["wanted"], found["selected"], found["busy"]) == (["gpu1", "gpu2"], ["gpu1"], ["gpu2"])


def test_without_a_choice_nothing_has_to_be_idle() -> None:
    found = slurm_nodes_info.info(run, {**PARAMS, "select": False})

    assert (len(found["nodes"]), found["selected"]) == (5, [])


@pytest.mark.parametrize(
    ("changes", "words"), [({"nodelist": ["gpu[1-"]}, "Invalid hostlist"), ({"nodes": 9}, "9 nodes")]
)
def test_wrong_input_is_refused(changes: dict[str, t.Any], words: str) -> None:
    with pytest.raises(nodes.SelectionError, match=words):
        slurm_nodes_info.info(run, {**PARAMS, **changes})


def test_a_controller_that_is_down_is_said() -> None:
    with pytest.raises(nodes.SelectionError, match="sinfo exited 1: slurm_load_partitions"):
        slurm_nodes_info.info(lambda _args: (1, "", "slurm_load_partitions: Unable to contact"), PARAMS)
