# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.filter.slurm_config_actions import FilterModule, slurm_config_actions

BEFORE = {"slurm.conf": "NodeName=gpu[1-3] CPUs=8\n", "gres.conf": ""}
AFTER = {"slurm.conf": "NodeName=gpu[1-2] CPUs=8\n", "topology.conf": "SwitchName=leaf Nodes=gpu[1-2]\n"}


def test_every_wanted_file_has_its_action() -> None:
    assert [entry["action"] for entry in slurm_config_actions(BEFORE, AFTER, "24.11.5")] == [
        "reconfigure",
        "reconfigure",
    ]


@pytest.mark.parametrize(("drained", "risk"), [([], True), (["gpu2"], True), (["gpu3"], False)])
def test_only_a_drained_node_leaves_without_a_risk(drained: list[str], risk: bool) -> None:
    entry = slurm_config_actions(BEFORE, AFTER, "24.11.5", drained=drained)[0]

    assert (entry["jobs_at_risk"], bool(entry["warnings"])) == (risk, risk)


def test_drained_nodes_excuse_nothing_else() -> None:
    before = {"slurm.conf": BEFORE["slurm.conf"] + "SelectType=select/linear\n"}

    assert slurm_config_actions(before, AFTER, "24.11.5", drained=["gpu3"])[0]["jobs_at_risk"]


def test_a_file_nobody_knows_is_an_error() -> None:
    with pytest.raises(AnsibleFilterError, match=r"hpcai\.gpucluster\.slurm_config_actions: .*other\.conf"):
        slurm_config_actions({}, {"other.conf": "A=1\n"})


def test_the_filter_has_its_name() -> None:
    assert list(FilterModule().filters()) == ["slurm_config_actions"]
