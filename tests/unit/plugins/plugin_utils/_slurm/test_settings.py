# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Our settings of Slurm's files, joined with those of a site."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import conf, node_lines, nodes, settings
from ansible_collections.hpcai.gpucluster.tests.unit.support.slurm_inputs import inputs, with_gpus


@pytest.mark.parametrize(
    ("config", "servers"),
    [
        ({}, "head1:6817,head2:6817"),
        ({"SlurmctldPort": 7000}, "head1:7000,head2:7000"),
        ({"slurmctldport": "7000-7003"}, "head1:7000,head2:7000"),
        ({"SlurmctldPort": None}, "head1:6817,head2:6817"),
    ],
)
def test_slurmd_asks_the_controllers_where_they_listen(config: dict[str, t.Any], servers: str) -> None:
    assert settings.servers(inputs(slurm_controllers=["head1", "head2"], slurm_config=config)) == servers


@pytest.mark.parametrize("name", ["KillWait", "killwait", "KILLWAIT"])
def test_a_key_of_the_site_replaces_ours_in_whatever_case(name: str) -> None:
    text = conf.render(settings.slurm_conf(inputs(slurm_config={name: 77})))

    assert [line for line in text.splitlines() if line.lower().startswith("killwait=")] == ["KillWait=77"]


@pytest.mark.parametrize("name", ["Prolog", "prolog"])
def test_null_takes_a_key_out_in_whatever_case(name: str) -> None:
    assert "/etc/slurm/prolog\n" not in conf.render(settings.slurm_conf(inputs(slurm_config={name: None})))


def test_no_key_stands_twice_in_any_file() -> None:
    """Slurm takes the last one of two lines, and does not say so."""
    ours = settings.slurm_conf(inputs(slurm_database="db1", slurm_nodes=with_gpus()))
    given = inputs(
        slurm_config={key.upper(): value for key, value in ours.items()},
        slurm_cgroup_config={"CGROUPPLUGIN": "autodetect"},
        slurm_mpi_config={"pmixenv": "A=b"},
        slurm_database_config={"dbdport": 7001, "storagehost": "db9"},
    )

    for config in (
        settings.slurm_conf(given),
        settings.cgroup_conf(given, cgroup=True),
        settings.mpi_conf(given),
        settings.slurmdbd_conf(given),
    ):
        assert len({key.lower() for key in config}) == len(config)
    assert settings.database(given)["port"] == 7001
    assert settings.slurm_conf(given)["AccountingStoragePort"] is None  # the upper-case copy of ours says so
    assert not settings.database(given)["here"]


def test_what_the_site_gives_twice_stays_there_for_the_check() -> None:
    assert settings.merged({"KillWait": 30}, {"killwait": 1, "KILLWAIT": 2}) == {"KillWait": 1, "KILLWAIT": 2}


@pytest.mark.parametrize(
    ("config", "line"),
    [
        ({}, "SchedulerParameters=nohold_on_prolog_fail"),
        ({"SchedulerParameters": {"bf_continue": True}}, "SchedulerParameters=nohold_on_prolog_fail,bf_continue"),
        ({"schedulerparameters": {"bf_continue": True}}, "SchedulerParameters=nohold_on_prolog_fail,bf_continue"),
        ({"SchedulerParameters": {"nohold_on_prolog_fail": False, "bf_size": 6}}, "SchedulerParameters=bf_size=6"),
        ({"SchedulerParameters": "bf_continue"}, "SchedulerParameters=bf_continue"),
    ],
)
def test_a_job_whose_prolog_fails_is_not_held(config: dict[str, t.Any], line: str) -> None:
    """What a site sets joins our parameters; one of ours goes only when it is named."""
    assert line in conf.render(settings.slurm_conf(inputs(slurm_config=config))).splitlines()


def test_all_look_for_slurmdbd_where_it_listens() -> None:
    plain, moved = inputs(slurm_database="db1"), inputs(slurm_database="db1", slurm_database_config={"DbdPort": 7001})

    assert (settings.database(plain)["port"], settings.slurm_conf(plain)["AccountingStoragePort"]) == (6819, None)
    assert (settings.database(moved)["port"], settings.slurm_conf(moved)["AccountingStoragePort"]) == (7001, 7001)


@pytest.mark.parametrize(
    ("config", "here"),
    [
        ({}, True),
        ({"StorageHost": None}, True),
        ({"StorageHost": "127.0.0.1"}, True),
        ({"storagehost": "db1"}, True),
        ({"StorageHost": "db9"}, False),
    ],
)
def test_a_database_elsewhere_is_known(config: dict[str, t.Any], here: bool) -> None:
    assert settings.database(inputs(slurm_database="db1", slurm_database_config=config))["here"] is here


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({}, "PMIxEnv=PMIX_MCA_gds=hash\n"),
        ({"PMIxTimeout": 600}, "PMIxEnv=PMIX_MCA_gds=hash\nPMIxTimeout=600\n"),
        ({"PMIxEnv": ["PMIX_MCA_gds=hash", "A=b"]}, "PMIxEnv=PMIX_MCA_gds=hash;A=b\n"),
        ({"PMIxEnv": {"A": "b"}}, "PMIxEnv=A=b\n"),
        ({"PMIxEnv": None}, ""),
    ],
)
def test_pmix_shares_no_files_unless_told_to(given: dict[str, t.Any], text: str) -> None:
    assert conf.render(settings.mpi_conf(inputs(slurm_mpi_config=given)), file="mpi.conf") == text


def test_jobs_are_held_to_their_cores_devices_and_memory() -> None:
    assert settings.cgroup_conf(inputs(), cgroup=True) == {
        "CgroupPlugin": "autodetect",
        "ConstrainCores": True,
        "ConstrainDevices": True,
        "ConstrainRAMSpace": True,
    }
    assert settings.cgroup_conf(inputs()) == {"CgroupPlugin": "disabled"}


@pytest.mark.parametrize(
    ("given", "lines"),
    [
        ({"slurm_x11": True}, ["PrologFlags=Alloc,Contain,X11"]),
        ({"slurm_task_prolog": True}, ["TaskProlog=/etc/slurm/task_prolog"]),
        ({"slurm_private_tmp": True}, ["JobContainerType=job_container/tmpfs"]),
        ({"slurm_metrics": True}, ["MetricsType=metrics/openmetrics"]),
        ({"slurm_job_completion": True}, ["JobCompType=jobcomp/filetxt", "JobCompLoc=/var/log/slurm/jobs.log"]),
        ({"slurm_health_check_program": "/x"}, ["HealthCheckInterval=300", "HealthCheckNodeState=ANY,CYCLE"]),
        ({"slurm_topology_plugin": "tree"}, ["TopologyPlugin=topology/tree"]),
        ({"slurm_nodes": with_gpus()}, ["GresTypes=gpu", "SlurmdParameters=numa_node_as_socket"]),
        (
            {"slurm_database": "db1", "slurm_nodes": with_gpus()},
            ["AccountingStorageTRES=gres/gpu", "PriorityType=priority/multifactor"],
        ),
        (
            {"slurm_database": "db1", "slurm_users": [{"name": "alice"}]},
            ["AccountingStorageEnforce=associations,limits,qos"],
        ),
    ],
)
def test_an_input_writes_its_lines_and_only_then(given: dict[str, t.Any], lines: list[str]) -> None:
    text = conf.render(settings.slurm_conf(inputs(**given))).splitlines()

    assert set(lines) <= set(text)
    assert not set(lines) & set(conf.render(settings.slurm_conf(inputs())).splitlines())


def test_the_digest_changes_with_what_slurmd_reads_at_start_alone() -> None:
    before = settings.slurmd_digest(inputs())

    assert settings.slurmd_digest(inputs(slurm_config={"KillWait": 77})) == before
    assert settings.slurmd_digest(inputs(slurm_config={"slurmdport": 7000})) != before


def test_a_machine_with_both_tasks_is_known() -> None:
    assert settings.on_both(inputs(slurm_controllers=["gpu2", "head1"])) == ["gpu2"]


def shares(**given: t.Any) -> list[str]:
    """Return the lines of slurm.conf with the resources of a job that requests none."""
    text = conf.render(settings.slurm_conf(inputs(**given)))
    return [line for line in text.splitlines() if line.startswith("Def")]


def test_a_job_without_requests_uses_the_whole_node_unless_the_site_shares_nodes() -> None:
    assert shares(slurm_nodes=with_gpus()) == []


def test_shares_are_those_of_the_smallest_node() -> None:
    big = {"gpucluster_vm_size": "Standard_ND96isr_H100_v5"}  # 96 CPUs, 8 GPUs
    small = {"gpucluster_vm_size": "Standard_NC40ads_H100_v5"}  # 40 CPUs, 1 GPU
    both = nodes.group(["a1", "b1"], {"a1": big, "b1": small})
    one = nodes.group(["a1"], {"a1": big})

    assert shares(slurm_nodes=one, slurm_share_nodes=True) == ["DefMemPerCPU=18951", "DefCPUPerGPU=12"]
    assert shares(slurm_nodes=both, slurm_share_nodes=True) == ["DefMemPerCPU=7653", "DefCPUPerGPU=12"]


def test_all_cpus_of_a_node_get_no_more_memory_than_the_node_has() -> None:
    for size in ("lab", "simulated_h100", "DGX_H100"):
        group = nodes.group(["n1"], {"n1": {"gpucluster_vm_size": size}})
        found = settings.slurm_conf(inputs(slurm_nodes=group, slurm_share_nodes=True))
        line = node_lines.node_lines(group)[0]
        cpus = line["Sockets"] * line["CoresPerSocket"] * line["ThreadsPerCore"]

        assert 0 <= line["RealMemory"] - found["DefMemPerCPU"] * cpus < cpus


def test_fewer_cpus_than_gpus_give_no_default() -> None:
    group = nodes.group(["n1"], {"n1": {"gpucluster_vm_size": "simulated_h100"}})

    assert [line.split("=")[0] for line in shares(slurm_nodes=group, slurm_share_nodes=True)] == ["DefMemPerCPU"]


def test_the_memory_of_the_inventory_and_the_keys_of_the_site_win() -> None:
    variables = {"gpucluster_vm_size": "lab", "slurm_node_config": {"RealMemory": 1000}}
    group = nodes.group(["n1"], {"n1": variables})
    cpus = node_lines.node_lines(group)[0]["CoresPerSocket"] * node_lines.node_lines(group)[0]["Sockets"]

    assert shares(slurm_nodes=group, slurm_share_nodes=True) == [f"DefMemPerCPU={1000 // cpus}"]
    assert shares(slurm_nodes=group, slurm_share_nodes=True, slurm_config={"defmempercpu": 5}) == ["DefMemPerCPU=5"]


@pytest.mark.parametrize(
    ("version", "config", "reason"),
    [
        ("26.05.4", {}, ""),
        ("25.11.7", {"PrivateData": "cloud"}, ""),
        ("26.05.4", {"privatedata": None}, ""),
        ("26.05.4", {"PrivateData": ["jobs"], "MetricsParameters": "ignore_private_data"}, ""),
        ("25.11.6", {}, "slurm_version is 25.11.6"),
        ("24.11.5", {}, "slurm_version is 24.11.5"),
        ("26.05.4", {"privatedata": "Jobs,usage"}, "PrivateData is Jobs,usage"),
        ("26.05.4", {"MetricsAuthUsers": "anna"}, "MetricsAuthUsers is anna"),
        ("26.05.4", {"SlurmctldPort": "7000-7003"}, "SlurmctldPort is 7000"),
    ],
)
def test_slurmctld_serves_its_figures_where_prometheus_can_read_them(
    version: str, config: dict[str, t.Any], reason: str
) -> None:
    refusal = settings.metrics_refusal(version, config)

    assert refusal.startswith(reason)
    assert bool(refusal) == bool(reason)
    assert settings.has_metrics(version, config) == (not reason)


def test_a_site_removes_the_figures_of_slurmctld() -> None:
    assert not settings.has_metrics("26.05.4", {"metricstype": None})
