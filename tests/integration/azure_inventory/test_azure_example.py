"""The example inventories/azure, with nothing but the edits that docs/azure-cluster.md names, against the stand-in."""

from __future__ import annotations

import re
import shutil
import stat
import subprocess
import typing as t
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SUBSCRIPTION = "11111111-0000-0000-0000-000000000000"
Azure = t.Any  # azure_server.client.Azure, which a plain checkout imports by another name

SCHEDULER = {"ClusterName": "training", "Name": "scheduler"}
# As CycleCloud Workspace makes it: nodes name themselves, and the tags are on the scale set alone.
CLUSTER: dict[str, t.Any] = {
    "id": SUBSCRIPTION,
    "vms": 2,
    "uniform": [["hpc", 3]],
    "flexible": [["htc", 2]],
    "guest": "ccw",
    "bare": True,
    "changes": [{"machine": "vm00000", "path": ["tags"], "value": SCHEDULER}],
}
DEBUG = {
    "id": "33333333-0000-0000-0000-000000000000",
    "name": "debug",
    "group": "debug-rg",
    "cluster": "debug",
    "vms": 1,
    "uniform": [["dbg", 2]],
    "changes": [{"machine": "vm00000", "path": ["tags"], "value": {"ClusterName": "debug", "Name": "scheduler"}}],
}
EDITS = {
    "cluster.azure_vms.yml": {"slurm_cluster": "training"},
    "group_vars/all/cluster.yml": {
        "ansible_user": "hpcadmin",
        "slurm_cluster_name": "training",
        "gpucluster_networks": "{cluster: 10.0.0.0/14}",
        "users_accounts": "[{name: bob, uid: 20002}]",
    },
}


@pytest.fixture
def example(tmp_path: Path) -> Path:
    """Return a copy of the example with the edits."""
    copy = tmp_path / "azure"
    shutil.copytree(ROOT / "inventories" / "azure", copy)
    for name, edits in EDITS.items():
        file = copy / name
        text = file.read_text(encoding="utf-8")
        for key, value in edits.items():
            text, count = re.subn(rf"^{key}:.*\n(?: .*\n)*", f"{key}: {value}\n", text, flags=re.MULTILINE)
            assert count == 1, key
        file.write_text(text, encoding="utf-8")
    return copy


def listed(azure: Azure, inventory: Path) -> t.Any:
    return azure.inventory(inventory, "--flush-cache", environment=azure.signed_in())


def test_the_documentation_names_every_edit_and_the_files_mark_it() -> None:
    documented = (ROOT / "docs" / "azure-cluster.md").read_text(encoding="utf-8")
    for name, edits in EDITS.items():
        text = (ROOT / "inventories" / "azure" / name).read_text(encoding="utf-8")
        assert text.count("# EDIT:") == len(edits)
        assert all(f"`{key}`" in documented for key in edits)


def test_the_example_lists_a_cluster_of_cyclecloud_workspace(azure: Azure, example: Path) -> None:
    azure.control(subscriptions=[CLUSTER])

    run = listed(azure, example)

    assert run.rc == 0, run.err
    assert "WARNING" not in run.err
    groups = run.listed
    assert groups["slurm_controller"]["hosts"] == ["vm00000"]
    assert groups["slurm_database"]["hosts"] == groups["nfs_server"]["hosts"] == ["vm00000"]
    assert groups["slurm_login"]["hosts"] == ["vm00001"]
    assert groups["nfs_client"]["children"] == ["slurm_login", "slurm_compute"]
    assert set(groups["nodearray_hpc"]["hosts"]) == {f"ccw-hpc-{n}" for n in (1, 2, 3)}
    assert len(groups["slurm_compute"]["hosts"]) == 5
    assert run.hosts["ccw-hpc-1"]["azure_vm_size"] == "Standard_ND96isr_H100_v5"
    assert run.hosts["ccw-hpc-1"]["gpucluster_vm_size"] == "{{ azure_vm_size }}"


def test_the_example_does_not_merge_the_clusters_of_its_subscriptions(azure: Azure, example: Path) -> None:
    both = {**azure.signed_in(), "AZURE_SUBSCRIPTION_ID": ""}
    file = example / "cluster.azure_vms.yml"
    text = file.read_text(encoding="utf-8").replace(
        "# subscriptions: [hpc-production, hpc-test]", "subscriptions: [all]"
    )
    file.write_text(text, encoding="utf-8")
    azure.control(subscriptions=[CLUSTER, DEBUG])

    named = azure.inventory(example, "--flush-cache", environment=both)
    file.write_text(text.replace("slurm_cluster: training\n", ""), encoding="utf-8")
    unnamed = azure.inventory(example, "--flush-cache", environment=both)

    assert named.rc == 0, named.err
    assert len(named.hosts) == 7
    assert not any("dbg" in host for host in named.hosts)
    assert unnamed.rc != 0
    assert "machines of different clusters (debug: vm00000" in " ".join(unnamed.err.split())


def test_the_example_has_one_database_and_one_server_beside_two_controllers(azure: Azure, example: Path) -> None:
    second = {"machine": "vm00001", "path": ["tags"], "value": {"slurm_role": "controller,nfs_client"}}
    database = {"machine": "vm00002", "path": ["tags"], "value": {"slurm_role": "database"}}
    fleet = {**CLUSTER, "vms": 3}

    azure.control(subscriptions=[{**fleet, "changes": [*fleet["changes"], second]}])
    untagged = listed(azure, example).listed
    azure.control(subscriptions=[{**fleet, "changes": [*fleet["changes"], second, database]}])
    tagged = listed(azure, example).listed

    assert untagged["slurm_controller"]["hosts"] == tagged["slurm_controller"]["hosts"] == ["vm00000", "vm00001"]
    assert untagged["slurm_database"] == untagged["nfs_server"] == tagged["nfs_server"] == {"hosts": ["vm00000"]}
    assert tagged["slurm_database"] == {"hosts": ["vm00002"]}
    assert "vm00001" in tagged["nfs_client"]["hosts"]


def test_the_input_of_the_example_is_right(azure: Azure, example: Path) -> None:
    azure.control(subscriptions=[CLUSTER])

    run = azure.run(
        "ansible-playbook",
        "-i",
        str(example),
        str(ROOT / "playbooks" / "check_input.yml"),
        environment=azure.signed_in(),
    )

    assert run.rc == 0, run.out[-3000:] + run.err[-3000:]
    assert re.search(r"vm00000 +: ok=[1-9]", run.out)
    assert not re.search(r"(failed|unreachable)=[1-9]", run.out)


@pytest.mark.parametrize("line", ["ansible_ssh_common_args: -o ProxyJump=me@bastion", "gpucluster_bastion: me@bastion"])
def test_a_key_belongs_to_the_machine_and_a_bastion_stays(azure: Azure, example: Path, line: str) -> None:
    """A machine that replaces another under its address has another name for ssh, and the nodes keep the bastion."""
    (example / "group_vars" / "all" / "bastion.yml").write_text(f"{line}\n")
    ssh = example.parent / "ssh"
    ssh.write_text(f'#!/bin/sh\nprintf "%s\\n" "$*" >> {example.parent}/asked\nexit 255\n')
    ssh.chmod(ssh.stat().st_mode | stat.S_IXUSR)
    azure.control(subscriptions=[CLUSTER])
    environment = {**azure.signed_in(), "ANSIBLE_SSH_EXECUTABLE": str(ssh), "ANSIBLE_SSH_RETRIES": "0"}

    azure.run("ansible", "-i", str(example), "-m", "raw", "-a", "true", "ccw-hpc-1:vm00001", environment=environment)

    asked = (example.parent / "asked").read_text(encoding="utf-8").splitlines()
    aliases = set()
    for line in asked:
        options = re.findall(r"-o ([A-Z]\w+=\S+)", line)
        effective = subprocess.run(
            ["ssh", "-G", *(f"-o{one}" for one in options), "10.0.0.1"], capture_output=True, text=True, check=True
        ).stdout
        assert "stricthostkeychecking accept-new" in effective
        assert "proxyjump me@bastion" in effective
        aliases |= set(re.findall(r"^hostkeyalias azure-([0-9a-f-]{36})$", effective, re.MULTILINE))
    assert len(aliases) == 2
