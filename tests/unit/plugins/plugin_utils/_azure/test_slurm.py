"""From tags to the groups of the playbooks."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure import slurm

ARRAY = "/sites/1/clusters/training/nodearrays/hpc"


@pytest.mark.parametrize(
    ("tags", "groups"),
    [
        ({}, []),
        ({"Name": "scheduler"}, []),
        ({"slurm_role": "compute"}, ["slurm_compute"]),
        ({"slurm_role": "Controller, database;nfs_server"}, ["slurm_controller", "slurm_database", "nfs_server"]),
        ({"slurm_role": "slurm_login nfs-client"}, ["slurm_login", "nfs_client"]),
        ({"slurm_role": "compute compute"}, ["slurm_compute"]),
        ({"slurm_role": "login", "CycleCloudNodeArray": ARRAY}, ["slurm_login"]),
        ({"ClusterName": "training", "CycleCloudNodeArray": ARRAY}, ["slurm_compute"]),
        ({"ClusterName": "training", "Name": "scheduler"}, ["slurm_controller"]),
        ({"ClusterName": "training", "Name": "scheduler-ha"}, ["slurm_controller"]),
        ({"CycleCloudCluster": "/sites/1/clusters/training", "Name": "login-1"}, ["slurm_login"]),
        ({"CycleCloudNodeArray": "/sites/1/clusters/training/nodearrays/login"}, ["slurm_login"]),
        ({"ClusterName": "training", "Name": "monitoring"}, []),
        ({"clustername": "training", "cyclecloudnodearray": ARRAY}, ["slurm_compute"]),
        ({"Slurm_Role": "login"}, ["slurm_login"]),
        ({"ClusterName": "x", "CycleCloudNodeArray": "loginless-gpu"}, ["slurm_compute"]),
        ({"ClusterName": "x", "CycleCloudNodeArray": "schedulers"}, ["slurm_compute"]),
        ({"ClusterName": "x", "Name": "loginless-gpu-1", "CycleCloudNodeArray": "loginless-gpu"}, ["slurm_compute"]),
        ({"ClusterName": "x", "Name": "login_2"}, ["slurm_login"]),
        ({"ClusterName": "x", "Name": "Login1"}, ["slurm_login"]),
        ({"slurm_role": "", "ClusterName": "x", "CycleCloudNodeArray": "gpu"}, ["slurm_compute"]),
    ],
)
def test_groups_of_a_machine(tags: dict[str, t.Any], groups: list[str]) -> None:
    assert slurm.groups(tags, "slurm_role") == groups


def test_an_unknown_role_is_named_with_those_that_are_allowed() -> None:
    with pytest.raises(slurm.UnknownRoleError, match="'chief' in 'chief' is no role; allowed: controller"):
        slurm.groups({"part": "chief"}, "part")


def test_clusters_have_the_names_of_their_machines() -> None:
    tags = [("a", "HPC"), ("b", None), ("c", "hpc"), ("d", "debug")]
    records = [{"name": name, "slurm_cluster": cluster} for name, cluster in tags]

    assert list(slurm.clusters(records).items()) == [("debug", ["d"]), ("HPC", ["a", "c"])]


def test_the_first_controller_takes_the_roles_that_no_machine_has() -> None:
    def given(*roles: str) -> list[dict[str, t.Any]]:
        return [{"id": f"/{number}", "tags": {"slurm_role": role}} for number, role in enumerate(roles)]

    wanted = ["database", "nfs_server"]
    both = ["slurm_database", "nfs_server"]

    assert slurm.left_to_controller(given("compute", "controller"), "slurm_role", wanted) == {"/1": both}
    assert slurm.left_to_controller(given("controller", "controller"), "slurm_role", wanted) == {"/0": both}
    assert slurm.left_to_controller(given("controller", "database"), "slurm_role", wanted) == {"/0": ["nfs_server"]}
    assert slurm.left_to_controller(given("controller,nfs_server", "chief"), "slurm_role", ["nfs_server"]) == {"/0": []}
    assert slurm.left_to_controller(given("compute"), "slurm_role", wanted) == {}


@pytest.mark.parametrize(
    ("tags", "cluster", "array"),
    [
        ({"CycleCloudCluster": "/sites/1/clusters/training", "CycleCloudNodeArray": ARRAY}, "training", "hpc"),
        ({"ClusterName": "old", "CycleCloudNodeArray": "gpu"}, "old", "gpu"),
        ({"CLUSTERNAME": "old", "cycleCloudNodeArray": "gpu"}, "old", "gpu"),
        ({"slurm_cluster": "plain"}, "plain", None),
        ({}, None, None),
    ],
)
def test_names_of_cyclecloud(tags: dict[str, t.Any], cluster: str | None, array: str | None) -> None:
    record = {"tags": tags, "vmss": {}, "placement_group_id": None, "proximity_placement_group": None}

    assert slurm.facts(record) == {"slurm_switch": None, "slurm_cluster": cluster, "slurm_nodearray": array}


@pytest.mark.parametrize(
    ("vmss", "placement", "single", "proximity", "switch"),
    [
        ("hpc", "f79e82f0-3480-4eb3-a893-5cf9bd74daad", False, None, "hpc-f79e82f0"),
        ("hpc", "f79e82f0-3480-4eb3-a893-5cf9bd74daad", True, None, "hpc"),
        ("hpc", None, False, "ppg", "hpc"),
        (None, None, None, "ppg (1)", "ppg__1_"),
        (None, None, None, None, None),
        ("x" * 70, None, True, None, "x" * 64),
    ],
)
def test_machines_of_one_fabric_share_a_switch(
    vmss: str | None, placement: str | None, single: bool | None, proximity: str | None, switch: str | None
) -> None:
    record = {
        "vmss": {"name": vmss} if vmss else {},
        "placement_group_id": placement,
        "single_placement_group": single,
        "proximity_placement_group": proximity,
    }

    assert slurm.switch(record) == switch
