# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the variables of the role slurm make of its inputs."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

from ansible_collections.hpcai.gpucluster.plugins.filter.slurm_conf import slurm_conf
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import conf

ROLE = Path(__file__).parents[3] / "roles/slurm"
GIVEN = {"slurm_controllers": ["head1", "head2"], "slurm_database": "db1"}


def value(expression: str, **inputs: t.Any) -> t.Any:
    """Return the value of an expression in the role, with some of its inputs."""
    loader = DataLoader()
    files = (ROLE / "defaults/main.yml", ROLE / "vars/main.yml")
    variables = {
        name: one for file in files for name, one in loader.load_from_file(str(file), trusted_as_template=True).items()
    }
    templar = Templar(loader=loader, variables={**variables, **GIVEN, **inputs})
    return templar.template(trust_as_template(f"{{{{ {expression} }}}}"))


@pytest.mark.parametrize(
    ("config", "port"),
    [
        ({}, "6817"),
        ({"SlurmctldPort": 7000}, "7000"),
        ({"slurmctldport": "7000-7003"}, "7000"),
        ({"SlurmctldPort": None}, "6817"),
    ],
)
def test_slurmd_asks_the_controllers_where_they_listen(config: dict[str, t.Any], port: str) -> None:
    assert value("__slurm_conf_server", slurm_config=config) == f"head1:{port},head2:{port}"


@pytest.mark.parametrize(
    ("config", "line"),
    [
        ({}, "SchedulerParameters=nohold_on_prolog_fail"),
        ({"SchedulerParameters": {"bf_continue": True}}, "SchedulerParameters=nohold_on_prolog_fail,bf_continue"),
        ({"SchedulerParameters": {"nohold_on_prolog_fail": False, "bf_size": 6}}, "SchedulerParameters=bf_size=6"),
        ({"SchedulerParameters": "bf_continue"}, "SchedulerParameters=bf_continue"),
    ],
)
def test_a_job_whose_prolog_fails_is_not_held(config: dict[str, t.Any], line: str) -> None:
    """What a site sets joins our parameters; one of ours goes only when it is named."""
    nodes = {"gpucluster_slurm_nodes": [], "__slurm_cgroup": False, "slurm_cluster_name": "test"}

    found = value("__slurm_conf", slurm_config=config, **nodes)["SchedulerParameters"]

    assert slurm_conf({"SchedulerParameters": found}) == f"{line}\n"


def test_all_look_for_slurmdbd_where_it_listens() -> None:
    assert value("__slurm_dbd_port") == 6819
    assert value("__slurm_config.AccountingStoragePort") is None

    moved = {"slurm_database_config": {"DbdPort": 7001}}

    assert value("__slurm_dbd_port", **moved) == 7001
    assert value("__slurm_config.AccountingStoragePort", **moved) == 7001


@pytest.mark.parametrize(
    ("config", "here"),
    [
        ({}, True),
        ({"StorageHost": None}, True),
        ({"StorageHost": "127.0.0.1"}, True),
        ({"StorageHost": "db1"}, True),
        ({"StorageHost": "db9"}, False),
    ],
)
def test_a_database_elsewhere_is_known(config: dict[str, t.Any], here: bool) -> None:
    assert value("__slurm_storage_here", slurm_database_config=config) is here


def test_a_database_elsewhere_is_saved_with_the_account_of_slurmdbd() -> None:
    config = {"StorageHost": "db9", "StoragePort": 3307, "StorageUser": "acct"}

    assert value("__slurm_dump_options", slurm_database_config=config, slurm_database_password="p#a\\s") == (
        '[client]\nhost="db9"\nport=3307\nuser="acct"\npassword="p#a\\\\s"\n'
    )
    assert "password" not in value("__slurm_dump_options", slurm_database_config=config)


@pytest.mark.parametrize(
    ("offered", "missing"),
    [
        ("cpuset cpu io memory hugetlb pids rdma misc\n", []),
        ("cpu memory pids\n", ["cpuset"]),  # as many a container has it
        ("\n", ["cpu", "cpuset", "memory"]),
        (None, ["cpu", "cpuset", "memory"]),
    ],
)
def test_containment_needs_the_controllers_that_slurmd_asks_for(offered: str | None, missing: list[str]) -> None:
    asked = {"skipped": True} if offered is None else {"stdout": offered}

    assert value("__slurm_controllers_missing", __slurm_delegated=asked) == missing


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({}, "PMIxEnv=PMIX_MCA_gds=hash\n"),
        ({"PMIxTimeout": 600}, "PMIxEnv=PMIX_MCA_gds=hash\nPMIxTimeout=600\n"),
        ({"PMIxEnv": ["PMIX_MCA_gds=hash", "A=b"]}, "PMIxEnv=PMIX_MCA_gds=hash;A=b\n"),
        ({"PMIxEnv": None}, ""),
    ],
)
def test_pmix_shares_no_files_unless_told_to(given: dict[str, t.Any], text: str) -> None:
    config = value("__slurm_mpi_config | combine(slurm_mpi_config)", slurm_mpi_config=given)

    assert conf.render(config, file="mpi.conf") == text
    assert "mpi.conf" in value("__slurm_files")


def test_jobs_are_held_to_their_cores_devices_and_memory() -> None:
    found = value("__slurm_cgroup_config", __slurm_cgroup=True)

    assert found == {
        "CgroupPlugin": "autodetect",
        "ConstrainCores": True,
        "ConstrainDevices": True,
        "ConstrainRAMSpace": True,
    }
    assert value("__slurm_cgroup_config", __slurm_cgroup=False) == {"CgroupPlugin": "disabled"}
