# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm.check import Cluster, problems

GOOD: dict[str, t.Any] = {
    "ClusterName": "lab",
    "SlurmctldHost": ["control"],
    "SlurmctldParameters": {"enable_configless": True},
    "GresTypes": ["gpu"],
    "MpiDefault": "pmix",
    "ReturnToService": 2,
    "SlurmdDebug": "debug3",
    "SlurmctldDebug": 3,
    "AccountingStorageEnforce": ["associations", "limits", "qos"],
    "PriorityDecayHalfLife": "14-0",
    "PropagateResourceLimitsExcept": "MEMLOCK",
    "JobRequeue": True,
    "TrackWCKey": False,
    "MaxJobCount": 100000,
    "Epilog": ["/etc/slurm/epilog"],
}
LINES: list[dict[str, t.Any]] = [
    {"NodeName": "DEFAULT", "State": "UNKNOWN"},
    {"NodeName": ["gpu1", "gpu2"], "CPUs": 96, "Gres": "gpu:h100:8", "Features": ["h100"], "RealMemory": 1900000},
    {"NodeName": "cpu[1-4]", "CPUs": 64},
    {"NodeSet": "h100", "Feature": "h100"},
    {"PartitionName": "main", "Nodes": ["h100"], "Default": True, "MaxTime": "7-0", "QOS": "normal"},
    {"PartitionName": "cpu", "Nodes": "cpu[1-3]", "MaxTime": "INFINITE", "State": "UP", "DefaultTime": 60},
    {"PartitionName": "all", "Nodes": "ALL"},
]


def found(config: dict[str, t.Any] | None = None, *lines: dict[str, t.Any], **options: t.Any) -> list[str]:
    """Return the problems of a good configuration with something added."""
    return problems(Cluster({**GOOD, **(config or {})}, [*LINES, *lines], **options))


def record(gpus: int) -> dict[str, t.Any]:
    """Return the hardware of a machine, as far as the check reads it."""
    cpus = {"sockets": 2, "cores_per_socket": 48, "threads_per_core": 1}
    return {"cpus": cpus, "memory_mib": 2000000, "gpus": {"count": gpus, "model": "H100"}}


def test_a_good_configuration_has_no_problem() -> None:
    assert found(records={"gpu[1-2]": record(8), "cpu1": record(0)}, qos=["high"]) == []


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("SlurmctlPort", 6817, "unknown key 'SlurmctlPort'; did you mean SlurmctldPort?"),
        ("Wibble", 1, "unknown key 'Wibble'"),
        ("SlurmctldTimeout", "soon", "SlurmctldTimeout is 'soon', expected a whole number or INFINITE"),
        ("SlurmctldTimeout", 70000, "SlurmctldTimeout is 70000, expected a number below 65536"),
        ("SlurmctldTimeout", -1, "SlurmctldTimeout is -1, expected a whole number or INFINITE"),
        ("SlurmctldTimeout", [1, 2], "SlurmctldTimeout takes one value, found [1, 2]"),
        ("DisableRootJobs", "maybe", "DisableRootJobs is 'maybe', expected YES or NO"),
        ("PriorityMaxAge", "7 days", "PriorityMaxAge is '7 days', expected a time (minutes"),
        ("SlurmdDebug", "loud", "SlurmdDebug is 'loud', expected one of quiet, fatal"),
        ("EnforcePartLimits", "SOME", "EnforcePartLimits is 'SOME', expected one of ALL, ANY, NO, YES"),
        ("ReturnToService", 3, "ReturnToService is '3', expected one of 0, 1, 2"),
        ("AccountingStorageEnforce", ["limit"], "AccountingStorageEnforce is 'limit', expected one of"),
        ("MailProg", 'a"b', "MailProg: Slurm cannot read a quotation mark"),
        ("HashPluginn", "x", "did you mean HashPlugin?"),
    ],
)
def test_a_bad_key_or_value_is_named(key: str, value: t.Any, message: str) -> None:
    (problem,) = found({key: value})

    assert problem.startswith("slurm_config (slurm.conf): ")
    assert message in problem


def test_keys_are_known_by_version() -> None:
    assert "Slurm 24.11.5 does not use HealthCheckTimeout: Slurm reads it from 26.05 on" in str(
        found({"HealthCheckTimeout": 60}, version="24.11.5")
    )
    assert found({"HealthCheckTimeout": 60}, version="26.05.4") == []
    assert "does not use PowerPlugin: Slurm ignores it from 24.05 on" in str(found({"PowerPlugin": "x"}))
    assert "does not use SlurmctldPlugstack: Slurm read it up to 22.05" in str(found({"SlurmctldPlugstack": "x"}))


def test_a_key_taken_out_is_not_judged_and_case_does_not_matter() -> None:
    assert found({"SlurmctldTimeout": None, "mailprog": "/bin/true"}) == []


def test_one_key_in_two_ways_is_found() -> None:
    (problem,) = found({"clustername": "other"})

    assert "'ClusterName' and 'clustername' are one key" in problem


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"NodeName": "gpu[2-3]", "CPUs": 1}, "more than one NodeName line names gpu2"),
        ({"NodeName": "x1", "Cpu": 1}, "NodeName=x1): unknown key 'Cpu'; did you mean CPUs?"),
        ({"NodeName": "x1", "CPUs": "many"}, "CPUs is 'many'"),
        ({"NodeName": "x[1-2]", "Port": "7001,70000"}, "Port is '7001,70000', expected a port"),
        ({"NodeName": "x1", "Port": "[a-b]"}, "Port is '[a-b]', expected a port"),
        ({"NodeName": "x1", "State": "IDLE"}, "State is 'IDLE', expected one of CLOUD"),
        ({"NodeName": "x[1-"}, "the brackets of 'x[1-' do not match"),
        ({"NodeName": "x1", "Gres": "gpu:8:h100"}, "Gres 'gpu:8:h100' is not of the form"),
        ({"NodeName": "x1", "Gres": "mps:100"}, "needs 'mps' in GresTypes"),
        (
            {"NodeSet": "s", "Nodes": "gpu[1-9]"},
            "NodeSet s: no NodeName line names gpu3, gpu4, gpu5, gpu6, gpu7 and 2 more",
        ),
        ({"NodeSet": "s", "Feature": "h10"}, "no node has the feature 'h10'; did you mean h100?"),
        ({"NodeSet": "gpu1", "Nodes": "gpu2"}, "NodeSet gpu1: a node has the same name"),
        ({"PartitionName": "p", "Nodes": "gpus1"}, "no NodeName or NodeSet line names gpus1; did you mean gpu1?"),
        ({"PartitionName": "main", "Nodes": "ALL"}, "more than one PartitionName line names main"),
        (
            {"PartitionName": "p", "Nodes": "ALL", "Default": "YES"},
            "only one partition can have Default=YES, found main, p",
        ),
        ({"PartitionName": "p", "Alternate": "q"}, "Alternate names the unknown partition 'q'"),
        ({"PartitionName": "p", "MaxTime": "7d"}, "MaxTime is '7d', expected a time"),
        ({"PartitionName": "p", "Node": "ALL"}, "unknown key 'Node'; did you mean Nodes?"),
        ({"PartitionName": "p", "QOS": "hihg"}, "QOS names the unknown QOS 'hihg'; did you mean high?"),
        ({"PartitionName": "p", "AllowQos": ["high", "low"]}, "AllowQos names the unknown QOS 'low'"),
        ({"Partition": "p"}, "a line begins with one of NodeName"),
    ],
)
def test_a_bad_line_is_named(line: dict[str, t.Any], message: str) -> None:
    (problem,) = found({}, line, qos=["high"])

    assert message in problem


def test_gres_that_contradict_the_catalogue_name_the_hosts() -> None:
    assert found(gpus={"gpu1": 8, "gpu2": 4}, records={"cpu4": record(1), "other": record(3)}) == [
        "slurm_node_config: NodeName gpu[1-2]: Gres says 8 GPUs, the hardware catalogue says 4 for gpu2",
        "slurm_node_config: NodeName cpu[1-4]: Gres says 0 GPUs, the hardware catalogue says 1 for cpu4",
    ]


@pytest.mark.parametrize(
    ("node", "config", "partition", "message"),
    [
        ({}, {}, {}, ""),
        ({}, {"DefMemPerCPU": 250}, {}, ""),
        ({}, {"DefMemPerCPU": 1001}, {}, "slurm_config: DefMemPerCPU is 1001, but RealMemory of x1 leaves 1000 MiB"),
        ({"RealMemory": 800}, {"DefMemPerCPU": 801}, {}, "leaves 800 MiB"),
        ({"MemSpecLimit": 100}, {"DefMemPerCPU": 901}, {}, "leaves 900 MiB"),
        # Slurm runs all jobs there but the one that takes all CPUs and asks for no memory.
        ({}, {"DefMemPerCPU": 500}, {}, ""),
        ({}, {"DefMemPerNode": 1001}, {}, "DefMemPerNode is 1001, but RealMemory of x1 leaves 1000 MiB"),
        ({}, {"DefMemPerCPU": 1001}, {"DefMemPerCPU": 9}, ""),
        ({}, {}, {"DefMemPerCPU": "1001"}, "slurm_partitions: PartitionName p: DefMemPerCPU is 1001"),
        ({}, {}, {"DefMemPerNode": "1k", "Nodes": "x[1-1]"}, "Allowed: up to 1000, or a larger RealMemory"),
        ({}, {"DefMemPerCPU": 1001}, {"Nodes": "x2"}, ""),
        ({}, {"DefMemPerCPU": "UNLIMITED"}, {}, ""),
    ],
)
def test_default_memory_fits_the_node(node: t.Any, config: t.Any, partition: t.Any, message: str) -> None:
    small = {"NodeName": "x1", "Sockets": 2, "CoresPerSocket": 2, "RealMemory": 1000, **node}
    big = {"NodeName": "x2", "CPUs": 4, "RealMemory": 9000}

    text = "\n".join(problems(Cluster(config, [small, big, {"PartitionName": "p", "Nodes": "ALL", **partition}])))

    assert message in text
    assert bool(message) == bool(text)


@pytest.mark.parametrize(
    ("file", "config", "lines", "message"),
    [
        ("cgroup.conf", {"CgroupPlugin": "disabled", "ConstrainDevices": True}, [], ""),
        ("cgroup.conf", {"CgroupPlugin": "cgroup/v3"}, [], "CgroupPlugin is 'cgroup/v3', expected one of autodetect"),
        ("mpi.conf", {"PMIxEnv": {"PMIX_MCA_gds": "hash"}, "PMIxTimeout": 600}, [], ""),
        ("mpi.conf", {"PMIxEnvs": "A=b"}, [], "did you mean PMIxEnv?"),
        ("mpi.conf", {"PMIxCollFence": "star"}, [], "PMIxCollFence is 'star', expected one of mixed"),
        ("cgroup.conf", {"ConstrainDevice": True}, [], "did you mean ConstrainDevices?"),
        ("slurmdbd.conf", {"DbdHost": "control", "StorageType": "accounting_storage/mysql"}, [], ""),
        ("slurmdbd.conf", {"StoragePas": "x"}, [], "did you mean StoragePass?"),
        ("gres.conf", {"AutoDetect": "off"}, [{"NodeName": "gpu1", "Name": "gpu", "File": "/dev/nvidia0"}], ""),
        ("gres.conf", {}, [{"Name": "gpu", "Core": "0-7"}], "unknown key 'Core'; did you mean Cores?"),
    ],
)
def test_other_files_have_tables_of_their_own(file: str, config: t.Any, lines: t.Any, message: str) -> None:
    text = "\n".join(problems(Cluster(config, lines, file=file)))

    assert message in text
    assert bool(message) == bool(text)


def test_a_file_without_a_table_is_refused() -> None:
    with pytest.raises(ValueError, match=r"known files: slurm\.conf, cgroup\.conf"):
        problems(Cluster({}, [], file="other.conf"))


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"MessageTimeout": 60, "UnkillableStepTimeout": 300}, []),
        ({"MessageTimeout": 60, "unkillablesteptimeout": 299}, ["expected 300 or more"]),
        ({"MessageTimeout": 100}, ["UnkillableStepTimeout is 60, expected 500 or more"]),
        ({"SlurmctldPort": "7000-7003"}, []),
        ({"SlurmctldPort": "[7000-7003]"}, ["SlurmctldPort is '[7000-7003]', expected a port"]),
        ({"SlurmctldPort": 70000}, ["SlurmctldPort is 70000, expected a port from 1 to 65535"]),
        ({"SlurmdPort": 0}, ["SlurmdPort is 0, expected a port"]),
    ],
)
def test_numbers_fit_each_other_and_their_range(config: dict[str, t.Any], expected: list[str]) -> None:
    found = problems(Cluster(config, []))

    assert len(found) == len(expected)
    assert all(words in text for words, text in zip(expected, found))


@pytest.mark.parametrize("port", [7001, "7001", "[7001-7004]", "7001,7002,[7005-7006]"])
def test_a_line_of_nodes_takes_a_hostlist_of_ports(port: t.Any) -> None:
    assert problems(Cluster({}, [{"NodeName": "x[1-4]", "CPUs": 1, "Port": port}])) == []


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("Port", "[7001-7003]", "Port is '[7001-7003]', which is 3 for 4 nodes of x[1-4]. Allowed: one port, or 4"),
        ("Port", "[7001-7005]", "which is 5 for 4 nodes"),
        ("NodeAddr", "10.0.0.[1-3]", "NodeAddr is '10.0.0.[1-3]', which is 3 for 4 nodes of x[1-4]. Allowed: as many"),
        ("NodeAddr", "10.0.0.1,10.0.0.2", "which is 2 for 4 nodes"),
        ("NodeHostname", "h1", "which is 1 for 4 nodes"),
        ("NodeAddr", "10.0.0.[1-4]", ""),
        ("NodeAddr", "[2001:db8::1]", ""),
    ],
)
def test_a_list_has_as_many_items_as_its_line_has_nodes(key: str, value: str, message: str) -> None:
    found = problems(Cluster({}, [{"NodeName": "x[1-4]", "CPUs": 1, key: value}]))

    assert len(found) == bool(message)
    assert not message or (message in found[0] and found[0].startswith("slurm_node_config: "))


def test_lines_of_partitions_and_nodes_are_blamed_on_their_own_inputs() -> None:
    lines: list[dict[str, t.Any]] = [
        {"NodeName": "gpu[1-2]", "Sockts": 1},
        {"PartitionName": "a", "Nodes": "gpu9"},
        {"PartitionName": "b", "Sate": "UP"},
    ]

    found = problems(Cluster({}, lines))

    assert [text.split(" ")[0].rstrip(":") for text in found] == [
        "slurm_node_config",
        "slurm_partitions",
        "slurm_partitions",
    ]
