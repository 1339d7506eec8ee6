# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each wrong input of the role slurm is refused with a sentence of its own."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs import slurm_checks
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import nodes
from ansible_collections.hpcai.gpucluster.tests.unit.support.slurm_inputs import LAB, inputs, with_gpus


@pytest.mark.parametrize("given", [{}, {"slurm_nodes": with_gpus(), "slurm_database": "db1"}])
def test_good_inputs_have_no_problem(given: dict[str, t.Any]) -> None:
    assert slurm_checks.problems(inputs(**given)) == []


@pytest.mark.parametrize(
    ("plugin", "version", "state", "refused"),
    [
        ("block", "25.11.0", "CLOUD", True),
        ("block", "25.11.2", "CLOUD", True),
        ("block", "25.11.3", "CLOUD", False),
        ("block", "26.05.4", "CLOUD", False),
        ("block", "25.05.3", "CLOUD", False),
        ("tree", "25.11.2", "CLOUD", False),
        ("block", "25.11.2", "UNKNOWN", False),
    ],
)
def test_a_release_that_takes_elastic_nodes_out_of_their_block_is_refused(
    plugin: str, version: str, state: str, refused: bool
) -> None:
    groups = [{**group, "config": {**group["config"], "State": state}} for group in inputs()["slurm_nodes"]]
    given = inputs(slurm_nodes=groups, slurm_topology_plugin=plugin, slurm_version=version)

    found = [problem for problem in slurm_checks.problems(given) if "out of their block" in problem]

    assert bool(found) is refused


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"slurm_controllers": []}, "slurm_controllers is empty"),
        ({"slurm_controllers": ["a", "b"]}, "slurm_controllers has a, b, but slurm_state_directory is"),
        ({"slurm_controllers": ["gpu1"]}, "gpu1 is both a controller and a compute node"),
        ({"slurm_pam_adopt": True, "slurm_containment": "none"}, "slurm_pam_adopt is true, slurm_containment is none"),
        ({"slurm_pam_adopt": True, "slurm_pam_groups": []}, "slurm_pam_groups is []"),
        ({"slurm_database": "a, b"}, 'slurm_database is "a, b", but slurmdbd runs on one machine'),
        ({"slurm_users": [{"name": "alice"}]}, "but slurm_database is empty"),
        ({"slurm_source_checksum": "md5:0"}, 'slurm_source_checksum is "md5:0"; it has to be sha256:'),
        ({"slurm_source_checksum": ""}, "Known without being set: 26.05.4."),
        ({"slurm_topology_plugin": "tree", "slurm_topology": {"gpu1": "leaf"}}, "slurm_topology: these nodes have no"),
        ({"slurm_topology_plugin": "tree", "slurm_topology": {"gpu[1-": "leaf"}}, "slurm_topology: "),
        ({"slurm_config": {"KillWiat": 3}}, "slurm_config (slurm.conf): unknown key 'KillWiat'; did you mean KillWait"),
        ({"slurm_config": {"KillWait": 3, "killwait": 4}}, "are one key to Slurm; keep one of them"),
        ({"slurm_cgroup_config": {"ConstrainCores": "perhaps"}}, "slurm_cgroup_config (cgroup.conf): ConstrainCores"),
        ({"slurm_mpi_config": {"PMIxTimeot": 3}}, "slurm_mpi_config (mpi.conf): unknown key"),
        ({"slurm_database_config": {"DbdPort": "x"}}, "slurm_database_config (slurmdbd.conf): DbdPort"),
        ({"slurm_partitions": [{"PartitionName": "a", "Nodes": "gpu9"}]}, "slurm_partitions: PartitionName a"),
        (
            {"slurm_partitions": [{"PartitionName": "a", "Nodes": "gpu1"}, {"PartitionName": "b"}]},
            "slurm_partitions: no PartitionName line names gpu2, so no job can run there",
        ),
        ({"slurm_partitions": [{"Nodes": "gpu1"}]}, "has no PartitionName"),
        ({"slurm_version": "newest"}, "slurm_version"),
        ({"slurm_database": "db1", "slurm_qos": [{"nam": "high"}]}, "slurm_qos: "),
        (
            {"slurm_database": "db1", "slurm_qos": [{"name": "high", "limits": {"MaxWall": "soon"}}]},
            "slurm_qos: qos high: MaxWallDurationPerJob is 'soon'",
        ),
        ({"slurm_database": "db1", "slurm_accounts": [{}]}, "slurm_accounts: "),
        (
            {"slurm_metrics": True, "slurm_version": "25.05.3"},
            "monitoring_slurm_endpoint is true, but slurm_version is 25.05.3",
        ),
        (
            {"slurm_metrics": True, "slurm_config": {"PrivateData": "jobs"}},
            "monitoring_slurm_endpoint is true, but PrivateData is jobs",
        ),
    ],
)
def test_a_wrong_input_is_named(given: dict[str, t.Any], words: str) -> None:
    found = slurm_checks.problems(inputs(**given))

    assert any(words in sentence for sentence in found), found


def test_jobs_on_controllers_and_distribution_sources_are_allowed_when_asked_for() -> None:
    assert not slurm_checks.problems(inputs(slurm_controllers=["gpu1"], slurm_jobs_on_controllers=True))
    assert not slurm_checks.problems(inputs(slurm_source="distribution", slurm_source_checksum=""))


@pytest.mark.parametrize("partitions", [["gpu1", "gpu2"], ["gpu[1-2]"], ["all"], ["gpu1", "ALL"]])
def test_each_node_is_in_a_partition(partitions: list[str]) -> None:
    lines = [{"PartitionName": f"p{number}", "Nodes": hosts} for number, hosts in enumerate(partitions)]

    assert not slurm_checks.problems(inputs(slurm_partitions=lines))


def test_a_node_of_the_future_needs_no_partition() -> None:
    later = {"gpucluster_vm_size": "lab", "slurm_node_config": {"State": "future"}}
    given = nodes.group(["gpu1", "gpu2"], {"gpu1": LAB, "gpu2": later})

    assert not slurm_checks.problems(
        inputs(slurm_nodes=given, slurm_partitions=[{"PartitionName": "a", "Nodes": "gpu1"}])
    )
