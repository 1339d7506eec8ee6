# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter azure_scale_nodes by its documented options; its rules are tested with plugin_utils/_azure_scale."""

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError
from ansible.module_utils.common.yaml import yaml_load

from ansible_collections.hpcai.gpucluster.plugins.filter import azure_scale_nodes as module

HOSTS = [f"hpc-h100-00000{digit}" for digit in "0123"]
SET = {
    "machines": [{"node": name, "power": "running", "usable": True} for name in HOSTS],
    "prefixes": ["hpc-h100-"],
}
plan = module.FilterModule().filters()["azure_scale_nodes"]


def node(name: str, state: str = "idle", reason: str = "") -> dict[str, t.Any]:
    return {"name": name, "state": state, "reason": reason, "answers": True}


IDLE = [node(name) for name in HOSTS]


def test_the_result_is_documented_and_nothing_leaves_by_default() -> None:
    found = plan(SET, IDLE, HOSTS)

    assert set(found) == set(yaml_load(module.RETURN)["_value"]["contains"])
    assert all(value == [] for value in found.values())


@pytest.mark.parametrize("count", [2, "2"])
def test_the_last_idle_nodes_leave(count: t.Any) -> None:
    assert plan(SET, IDLE, HOSTS, count)["leave"] == [HOSTS[3], HOSTS[2]]


def test_named_nodes_leave_instead_of_a_choice() -> None:
    assert plan(SET, IDLE, HOSTS, leave=[HOSTS[0].upper()])["leave"] == [HOSTS[0]]


@pytest.mark.parametrize(
    ("state", "word", "reason"), [("allocated", "jobs", "jobs"), ("drained", "drained", "drained")]
)
def test_busy_and_drained_nodes_leave_only_where_that_is_said(state: str, word: str, reason: str) -> None:
    slurm = [node(name, state, "repair") for name in HOSTS]

    with pytest.raises(AnsibleFilterError, match=rf"{reason}.*Nothing was changed"):
        plan(SET, slurm, HOSTS, 3)
    assert plan(SET, slurm, HOSTS, 3, **{word: True})["leave"] == [HOSTS[3]]


def test_without_an_answer_of_slurm_each_machine_counts_as_busy() -> None:
    with pytest.raises(AnsibleFilterError, match=r"Nothing was changed"):
        plan(SET, None, HOSTS, 3)
    assert plan(SET, None, HOSTS, 3, jobs=True)["leave"] == [HOSTS[3]]


def test_an_empty_set_has_only_what_slurm_still_knows() -> None:
    found = plan({"machines": []}, IDLE, [])
    with_prefix = plan({"machines": [], "prefixes": ["hpc-h100-"]}, IDLE, [])

    assert (found["leave"], found["gone"]) == ([], [])
    assert with_prefix["gone"] == HOSTS
