# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Elastic nodes in the files of Slurm, and the refusal of wrong ones."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.filter.slurm_elastic import FilterModule
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs import slurm_checks
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import files, settings
from ansible_collections.hpcai.gpucluster.tests.unit.support.slurm_inputs import inputs

ID = "/subscriptions/0-a/resourceGroups/hpc(1)/providers/Microsoft.Compute/virtualMachineScaleSets/h/virtualMachines/3"


def test_without_elastic_nodes_nothing_is_suspended() -> None:
    text = files.texts(inputs(), cgroup=False)["slurm.conf"]

    assert "Suspend" not in text
    assert "ResumeProgram" not in text
    assert "ResumeTimeout=900" in text


def test_elastic_nodes_come_and_go_and_the_others_stay() -> None:
    given = inputs(slurm_elastic={"gpu2": ID})
    text = files.texts(given, cgroup=False)["slurm.conf"]

    assert slurm_checks.problems(given) == []
    for line in (
        "SuspendExcNodes=gpu1",
        "SuspendExcStates=DRAIN",
        "ResumeProgram=/etc/slurm/elastic/resume",
        "SuspendProgram=/etc/slurm/elastic/suspend",
        "ResumeFailProgram=/etc/slurm/elastic/fail",
        "SuspendRate=1",
        "SuspendTime=600",
    ):
        assert f"\n{line}\n" in text
    assert "SlurmctldParameters=enable_configless,idle_on_node_suspend,power_save_interval=5" in text
    assert "NodeName=gpu[1-2]" in text
    everything = settings.slurm_conf(inputs(slurm_elastic={"gpu1": ID, "gpu2": ID}))
    assert not everything.get("SuspendExcNodes")


def test_a_site_changes_the_times_and_slurmd_does_not_start_again() -> None:
    given = inputs(slurm_elastic={"gpu2": ID}, slurm_config={"SuspendTime": 60})

    assert settings.slurm_conf(given)["SuspendTime"] == 60
    node = {name: one for name, one in given.items() if name != "slurm_elastic"}  # as a node passes it
    assert settings.slurmd_digest(given) == settings.slurmd_digest(node)


@pytest.mark.parametrize(
    ("elastic", "text"),
    [
        ([{"name": "h100", "nodes": "h100-[1-2]"}], "allowed: the Azure resource ID of each elastic node, by its name"),
        ({"gpu9": ID}, "slurm_elastic: found gpu9; allowed: machines of the group slurm_compute"),
        ({"gpu1": ""}, "found '' of gpu1; allowed: its Azure resource ID"),
        ({"gpu1": f"{ID}?x=y"}, "of gpu1; allowed: its Azure resource ID"),
        ({"gpu1": "/subscriptions/a/resourceGroups/b/providers/Microsoft.Network/x/y"}, "of gpu1; allowed"),
    ],
)
def test_a_wrong_node_is_refused_before_any_host_is_contacted(elastic: t.Any, text: str) -> None:
    assert text in " ".join(slurm_checks.problems({**inputs(), "slurm_elastic": elastic}))


def test_the_ids_are_those_of_the_inventory() -> None:
    found = FilterModule().filters()["slurm_elastic"](["a", "b"], {"a": {"azure_id": ID}, "b": {}})

    assert found == {"a": ID, "b": ""}
