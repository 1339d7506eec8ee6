# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Elastic sets in the files of Slurm, and the refusal of wrong ones."""

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.filter.slurm_elastic import slurm_elastic
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs import slurm_checks
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import files, settings
from ansible_collections.hpcai.gpucluster.tests.unit.support.slurm_inputs import inputs

SIZE = "Standard_ND96isr_H100_v5"
COMMAND = {"name": "cloud", "nodes": "cloud[1-4]", "vm_size": "lab", "provider": "command", "program": "/opt/cloud"}
AZURE = {"name": "h100", "nodes": "h100-[1-150]", "vm_size": SIZE, "provider": "azure"}
PLACE = {"subscription_id": "s", "resource_group": "g", "cluster": "hpc"}


def joined(*sets: dict[str, t.Any], **given: t.Any) -> dict[str, t.Any]:
    """Return the inputs as the variables of the role join them."""
    found, base = slurm_elastic(list(sets), PLACE), inputs(**given)
    return {
        **base,
        "slurm_elastic": list(sets),
        "slurm_elastic_azure": PLACE,
        "slurm_nodes": base["slurm_nodes"] + found["nodes"],
        "slurm_topology": {**base["slurm_topology"], **found["topology"]},
    }


def test_without_sets_nothing_is_suspended() -> None:
    text = files.texts(inputs(), cgroup=False)["slurm.conf"]

    assert "Suspend" not in text
    assert "ResumeProgram" not in text
    assert "TreeWidth" not in text
    assert "ResumeTimeout=900" in text


def test_nodes_of_a_set_come_and_go_and_those_of_the_inventory_stay() -> None:
    given = joined({**COMMAND, "min_count": 1, "config": {"Weight": 5}}, AZURE)
    text = files.texts(given, cgroup=False)["slurm.conf"]

    assert slurm_checks.problems(given) == []
    assert "NodeName=cloud[1-4]" in text
    assert "State=CLOUD Features=cloud Weight=5" in text
    assert "SuspendExcNodes=gpu[1-2],cloud1\n" in text
    assert "ResumeProgram=/etc/slurm/elastic/resume\n" in text
    assert "SuspendProgram=/etc/slurm/elastic/suspend\n" in text
    assert "ResumeFailProgram=/etc/slurm/elastic/fail\n" in text
    parameters = "cloud_reg_addrs,idle_on_node_suspend,power_save_interval=5"
    assert f"SlurmctldParameters=enable_configless,{parameters},conmgr_max_connections=512\n" in text
    assert "h100-[1-150]" in files.texts(given, cgroup=False)["gres.conf"]


def test_times_are_those_of_the_slowest_provider() -> None:
    command, both = (settings.slurm_conf(joined(*sets)) for sets in ([COMMAND], [COMMAND, AZURE]))

    assert [command[name] for name in ("ResumeTimeout", "SuspendTimeout", "SuspendTime")] == [900, 300, 300]
    assert [both[name] for name in ("ResumeTimeout", "SuspendTimeout", "SuspendTime")] == [1800, 600, 300]
    own = joined(AZURE, slurm_config={"SuspendTime": 60, "resumetimeout": 120})
    assert {**settings.slurm_conf(own)}.items() >= {"SuspendTime": 60, "ResumeTimeout": 120}.items()


def test_the_topology_is_known_before_a_machine_exists() -> None:
    static = {"gpu1": "spine/leaf1", "gpu2": "spine/leaf2"}
    given = joined(AZURE, {**COMMAND, "switch": "leaf9"}, slurm_topology_plugin="tree", slurm_topology=static)

    assert slurm_checks.problems(given) == []
    text = files.texts(given, cgroup=False)["topology.conf"]
    assert "SwitchName=h100 Nodes=h100-[1-100]" in text
    assert "SwitchName=h100-2 Nodes=h100-[101-150]" in text
    assert "SwitchName=leaf9 Nodes=cloud[1-4]" in text


def test_the_program_gets_what_it_needs() -> None:
    found = slurm_elastic([AZURE, {**COMMAND, "min_count": "2"}], PLACE, "/state", "/join")["program"]

    assert found["directory"] == "/state"
    assert [(one["name"], len(one["nodes"]), one["min_count"]) for one in found["sets"]] == [
        ("h100", 150, 0),
        ("cloud", 4, 2),
    ]
    assert found["sets"][0]["options"] == {**PLACE, "instances_per_group": 100, "assignments": "/join"}
    assert found["sets"][1]["options"] == {"program": "/opt/cloud"}
    assert [(one["end_limit"], one["start_limit"]) for one in found["sets"]] == [(10, 3)] * 2
    (own,) = slurm_elastic([{**COMMAND, "end_limit": 0, "start_limit": 1}])["program"]["sets"]
    assert (own["end_limit"], own["start_limit"]) == (0, 1)


@pytest.mark.parametrize(
    ("sets", "text"),
    [
        ("h100", "slurm_elastic: found 'h100'; allowed: a list of mappings"),
        (["h100"], "allowed: a list of mappings"),
        ([{**COMMAND, "name": "H 1"}], "name: allowed: lower-case letters"),
        ([{**COMMAND, "nodes": "cloud[1-"}], "nodes: "),
        ([{**COMMAND, "nodes": "all"}], "nodes: found all; allowed: short names"),
        ([{**COMMAND, "nodes": ""}], "nodes: found nothing; allowed: a hostlist"),
        ([{**COMMAND, "vm_size": "Standard_ND96isr_H100_v6"}], "vm_size: unknown VM size"),
        ([{**COMMAND, "provider": "aws"}], "provider: found 'aws'; allowed: azure, command"),
        ([{**COMMAND, "program": "cloud"}], "program: found 'cloud'; allowed: the path of a program"),
        ([{**COMMAND, "program": "/opt/cloud --now"}], "allowed: the path of a program"),
        ([{**COMMAND, "min_count": "many"}], "min_count: found 'many'; allowed: 0 to 65536"),
        ([{**COMMAND, "min_count": True}], "min_count: found True"),
        ([{**COMMAND, "start_limit": 0}], "start_limit: found 0; allowed: 1 to 65536"),
        ([{**COMMAND, "end_limit": -1}], "end_limit: found -1; allowed: 0 to 65536"),
        ([{**COMMAND, "instances_per_group": 0}], "instances_per_group: found 0; allowed: 1 to 1000"),
        ([{**COMMAND, "config": "Weight=5"}], "config: found 'Weight=5'"),
        ([{**COMMAND, "max_count": 4}], "found max_count; allowed: config, end_limit"),
        ([COMMAND, {**COMMAND, "nodes": "other1"}], "found two sets cloud"),
        ([COMMAND, {**COMMAND, "name": "b", "nodes": "cloud4"}], "set b: nodes: cloud4 is in the set cloud too"),
        ([{**COMMAND, "nodes": "gpu[2-3]"}], "nodes: gpu2 is in the inventory too"),
    ],
)
def test_a_wrong_set_is_refused_before_any_host_is_contacted(sets: t.Any, text: str) -> None:
    given = {**inputs(), "slurm_elastic": sets}
    slurm_elastic(sets)

    assert text in " ".join(slurm_checks.problems(given))


def test_azure_needs_to_know_where_its_scale_sets_are() -> None:
    given = {**inputs(), "slurm_elastic": [AZURE], "slurm_elastic_azure": {"cluster": "hpc"}}

    assert "found no subscription_id, resource_group; needed for the set h100" in slurm_checks.problems(given)[0]


def test_the_filter_names_itself_in_errors() -> None:
    with pytest.raises(AnsibleFilterError, match=r"hpcai\.gpucluster\.slurm_elastic"):
        slurm_elastic([AZURE], "here")
