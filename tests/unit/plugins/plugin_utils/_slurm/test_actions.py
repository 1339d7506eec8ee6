# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import actions, keys
from ansible_collections.hpcai.gpucluster.tests.patience import cheap
from ansible_collections.hpcai.gpucluster.tests.unit.support.places import expect_none, place

CONF = """
ClusterName=lab
SlurmctldHost=control
SlurmctldParameters=enable_configless,cloud_dns
MessageTimeout=10
NodeName=DEFAULT State=UNKNOWN
NodeName=gpu[1-2] CPUs=96 Gres=gpu:8
PartitionName=main Nodes=ALL Default=YES
"""
RELOAD = {"action": "reconfigure", "reconfigure": ["slurmctld"], "restart": []}
BOTH = {"action": "restart", "reconfigure": [], "restart": ["slurmctld", "slurmd"]}
CONTROLLER = {"action": "restart", "reconfigure": ["slurmctld"], "restart": ["slurmctld"]}
NODES = {"action": "restart", "reconfigure": ["slurmctld"], "restart": ["slurmd"]}
NOTHING = {"action": "nothing", "reconfigure": [], "restart": []}


def act(old: str, new: str, version: str = "24.11.5", file: str = "slurm.conf", text: str = CONF) -> dict[str, t.Any]:
    """Return the action for one replacement in a text."""
    assert old in text
    return actions.action(text, text.replace(old, new, 1), file, version)


def means(result: dict[str, t.Any]) -> dict[str, t.Any]:
    """Return a result without its words."""
    return {key: result[key] for key in ("action", "reconfigure", "restart")}


@pytest.mark.parametrize("new", ["\n# a comment\nClusterName=lab  # here\n", "\n\n\nClusterName=lab   \n"])
def test_comments_and_blanks_ask_for_nothing(new: str) -> None:
    assert means(act("\nClusterName=lab\n", new)) == NOTHING


@pytest.mark.parametrize(
    ("old", "new", "version", "expected"),
    [
        ("MessageTimeout=10", "MessageTimeout=20", "24.11.5", RELOAD),
        ("MessageTimeout=10\n", "", "24.11.5", RELOAD),
        ("cloud_dns", "cloud_dns,idle_on_node_suspend", "24.11.5", RELOAD),
        ("enable_configless,", "", "24.11.5", CONTROLLER),
        ("MessageTimeout=10", "SlurmctldPort=6000", "24.11.5", BOTH),
        ("MessageTimeout=10", "SlurmdPort=6000", "24.11.5", BOTH),
        ("MessageTimeout=10", "CredType=cred/slurm", "24.11.5", BOTH),
        ("MessageTimeout=10", "PlugStackConfig=/x", "24.11.5", NODES),
        ("MessageTimeout=10", "StateSaveLocation=/x", "24.11.5", CONTROLLER),
        ("SlurmctldHost=control", "SlurmctldHost=other", "24.11.5", RELOAD),
        ("SlurmctldHost=control", "SlurmctldHost=other", "22.05.8", CONTROLLER),
        ("MessageTimeout=10", "MaxJobCount=5", "23.11.1", RELOAD),
        ("MessageTimeout=10", "MaxJobCount=5", "23.02.1", CONTROLLER),
        ("NodeName=gpu[1-2]", "NodeName=gpu[1-3]", "24.11.0", RELOAD),
        ("NodeName=gpu[1-2]", "NodeName=gpu[1-3]", "24.05.8", BOTH),
        ("CPUs=96", "CPUs=64", "26.05.4", RELOAD),
        ("CPUs=96", "CPUs=64", "23.11.4", BOTH),
        ("State=UNKNOWN", "State=CLOUD", "24.11.5", RELOAD),
        ("Default=YES", "Default=YES MaxTime=60", "22.05.8", RELOAD),
        ("PartitionName=main Nodes=ALL Default=YES\n", "", "24.11.5", RELOAD),
    ],
)
def test_the_mildest_means_by_key_and_version(old: str, new: str, version: str, expected: dict[str, t.Any]) -> None:
    assert means(act(old, new, version)) == expected


def test_reasons_name_what_changed() -> None:
    after = CONF.replace("=10", "=20").replace("gpu[1-2]", "gpu[2-4]").replace("CPUs=96", "CPUs=64")

    result = actions.action(CONF, after, "slurm.conf", "24.11.5")

    assert result["reasons"] == [
        "MessageTimeout: 10 became 20",
        "CPUs of gpu2: 96 became 64",
        "nodes added: gpu[3-4]",
        "nodes removed: gpu1",
    ]
    assert result["jobs_at_risk"]
    assert "jobs on gpu1 are ended" in result["warnings"][0]


@pytest.mark.parametrize(
    ("old", "new", "warning"),
    [
        ("MessageTimeout=10", "AuthType=auth/slurm", "no job should run meanwhile"),
        ("MessageTimeout=10", "SelectType=select/linear", "records of running and pending jobs are lost"),
        ("MessageTimeout=10", "SwitchType=switch/hpe_slingshot", "records of all jobs may be lost"),
        ("PartitionName=main Nodes=ALL Default=YES\n", "", "jobs of PartitionName=main are cancelled"),
    ],
)
def test_what_puts_jobs_at_risk_is_said(old: str, new: str, warning: str) -> None:
    result = act(old, new)

    assert result["jobs_at_risk"]
    assert warning in str(result["warnings"])


def test_a_plain_change_puts_no_job_at_risk() -> None:
    assert not act("=10", "=20")["jobs_at_risk"]


def test_secrets_stay_out_of_the_reasons() -> None:
    result = actions.action("StoragePass=old1\n", "StoragePass=new1\n", "slurmdbd.conf", "24.11.5")

    assert means(result) == {"action": "restart", "reconfigure": [], "restart": ["slurmdbd"]}
    assert result["reasons"] == ["StoragePass changed"]
    assert "old1" not in str(result)


@pytest.mark.parametrize(
    ("file", "before", "after", "expected"),
    [
        (
            "slurmdbd.conf",
            "DebugLevel=info\n",
            "DebugLevel=debug\n",
            {**NOTHING, "action": "reconfigure", "reconfigure": ["slurmdbd"]},
        ),
        ("cgroup.conf", "ConstrainDevices=no\n", "ConstrainDevices=yes\n", RELOAD),
        ("cgroup.conf", "", "ConstrainDevices=yes\n", RELOAD),
        ("cgroup.conf", "CgroupSlice=a.slice\n", "CgroupSlice=b.slice\n", NODES),
        ("mpi.conf", "", "PMIxEnv=PMIX_MCA_gds=hash\n", RELOAD),
        ("mpi.conf", "PMIxEnv=PMIX_MCA_gds=hash\n", "PMIxEnv=PMIX_MCA_gds=hash;A=b\nPMIxTimeout=600\n", RELOAD),
        ("mpi.conf", "PMIxEnv=PMIX_MCA_gds=hash\n", "# none\n", RELOAD),
        ("acct_gather.conf", "EnergyIPMIFrequency=1\n", "EnergyIPMIFrequency=2\n", BOTH),
        ("topology.conf", "SwitchName=a Nodes=n1\n", "SwitchName=a Nodes=n[1-2]\n", RELOAD),
        ("topology.conf", "SwitchName=a Nodes=n1\n", "SwitchName=a Nodes=n1 # x\n", NOTHING),
        ("plugstack.conf", "", "required /usr/lib/slurm/spank_pyxis.so\n", {**NODES, "reconfigure": []}),
        ("job_container.conf", "AutoBasePath=true\n", "AutoBasePath=false\n", {**NODES, "reconfigure": []}),
    ],
)
def test_other_files_have_rules_of_their_own(file: str, before: str, after: str, expected: dict[str, t.Any]) -> None:
    assert means(actions.action(before, after, file, "24.11.5")) == expected


GRES = "AutoDetect=off\nNodeName=gpu[1-2] Name=gpu Type=h100 File=/dev/nvidia[0-3] Cores=0-47\n"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("gpu[1-2]", "gpu[1-3]", RELOAD),
        ("Cores=0-47", "Cores=0-31", CONTROLLER),
        ("Type=h100", "Type=a100", RELOAD),
        ("off", "nvml", RELOAD),
    ],
)
def test_gres_restart_slurmctld_only_for_cores(old: str, new: str, expected: dict[str, t.Any]) -> None:
    assert means(act(old, new, file="gres.conf", text=GRES)) == expected


def test_gres_of_another_kind_of_node_is_an_addition() -> None:
    after = GRES + "NodeName=gpu[7-8] Name=gpu Type=a100 File=/dev/nvidia[0-7] Cores=0-23\n"

    assert means(actions.action(GRES, after, "gres.conf", "24.11.5")) == RELOAD


def test_a_new_file_starts_its_daemons() -> None:
    assert means(actions.action("", CONF, "slurm.conf", "24.11.5")) == BOTH
    assert actions.action("# none\n", "DbdHost=a\n", "slurmdbd.conf", "24.11.5")["restart"] == ["slurmdbd"]


def test_a_broken_file_on_disk_is_replaced_and_said_so() -> None:
    result = actions.action("ClusterName=lab\nborked\n", CONF, "slurm.conf", "24.11.5")

    assert means(result) == RELOAD
    assert "could not be read" in result["warnings"][0]


def test_a_broken_new_file_is_an_error() -> None:
    with pytest.raises(ValueError, match="Slurm could not read 'borked'"):
        actions.action(CONF, CONF + "borked\n", "slurm.conf", "24.11.5")


def test_lines_in_another_order_are_read_again() -> None:
    before, after = "A=1\nB=2\n", "B=2\nA=1\n"

    assert means(actions.action(before, after, "slurm.conf", "24.11.5")) == RELOAD


def test_a_file_without_a_rule_is_refused() -> None:
    with pytest.raises(ValueError, match=r"known files: slurm\.conf, cgroup\.conf"):
        actions.action("", "x", "other.conf", "24.11.5")


@pytest.mark.parametrize("file", ["slurm.conf", "cgroup.conf", "gres.conf", "mpi.conf", "slurmdbd.conf"])
def test_each_key_that_slurm_reads_has_an_action_and_no_other(file: str) -> None:
    known = {key.name for key in keys.table(file).values()}
    special, plain = actions.rules()[file]["keys"], actions.rules()[file]["default_keys"]
    where = f"{place('plugins/plugin_utils/_slurm/actions.yml', f'{file}:')}, {file}"
    told = place("plugins/plugin_utils/_slurm/keys.yml", f"{file}:")

    expect_none(
        [
            f"{where}: add `{key}` of {told} ({file}): to the list default_keys if {actions.rules()[file]['default']} "
            f"applies a change, or to keys as `{key}: {{restart: [slurmctld, slurmd]}}`, with its source"
            for key in sorted(known - {*special, *plain})
        ]
        + [
            f"{where}: remove `{key}`, or add `{key}: TYPE` to {told} ({file})"
            for key in sorted({*special, *plain} - known)
        ]
        + [f"{where}: remove `{key}` from default_keys, it stands in keys" for key in sorted({*special} & {*plain})]
        + [f"{where}: remove one `{key}`" for key in sorted({key for key in plain if plain.count(key) > 1})]
    )


def test_no_rule_stops_a_daemon() -> None:
    for rule in actions.rules().values():
        for entry in (rule["default"], *rule.get("keys", {}).values()):
            assert set(entry) <= {"reload", "restart", "until", "item", "idle", "note"}
            assert {*entry.get("restart", ()), *entry.get("reload", ())} <= set(actions.DAEMONS)


def test_ten_thousand_nodes_are_compared_in_under_a_second() -> None:
    before = "NodeName=gpu[1-10000] CPUs=96\nPartitionName=all Nodes=ALL\n"
    after = "NodeName=gpu[1-10001] CPUs=64\nPartitionName=all Nodes=ALL\n"

    with cheap(1):
        result = actions.action(before, after, "slurm.conf", "24.11.5")

    assert result["reasons"] == ["CPUs of gpu[1-10000]: 96 became 64", "nodes added: gpu10001"]


def test_only_keys_that_a_daemon_reads_at_start_are_kept() -> None:
    config = {"SlurmdPort": 6818, "KillWait": 30, "authinfo": "ttl=300", "PluginDir": None}

    assert actions.restart_keys(config) == {"SlurmdPort": 6818, "authinfo": "ttl=300"}
    assert actions.restart_keys({"SlurmdUser": "root", "SlurmdPort": 6818}, "slurmctld") == {"SlurmdPort": 6818}
