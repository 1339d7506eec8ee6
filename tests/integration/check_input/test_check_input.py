# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wrong input is refused before any machine is touched: the machines of these inventories do not exist."""

from __future__ import annotations

import os
import re
import sys
import typing as t
from pathlib import Path

import pytest

if t.TYPE_CHECKING:
    from ansible_collections.hpcai.gpucluster.tests.integration.conftest import Run

CHECKOUT = Path(__file__).parents[3]
Said = t.Callable[..., "tuple[int, str]"]
ALICE = {"name": "alice", "uid": 2001}
# site.yml begins with it; to read all of site.yml takes twice as long.
CHECK = "playbooks/check_input.yml"


def _inventory(**variables: t.Any) -> dict[str, t.Any]:
    hosts = {name: {"ansible_host": "127.0.0.1", "ansible_port": 1} for name in ("head", "gpu1", "gpu2")}
    return {
        "all": {
            "hosts": hosts,
            "vars": {"gpucluster_vm_size": "lab", **variables},
            "children": {
                "slurm_controller": {"hosts": {"head": {}}},
                "slurm_compute": {"hosts": {"gpu1": {}, "gpu2": {}}},
            },
        }
    }


@pytest.fixture
def said(run: Run) -> Said:
    def call(inventory: dict[str, t.Any], playbook: str = CHECK, *arguments: str) -> tuple[int, str]:
        code, output = run(inventory, playbook, *arguments, ANSIBLE_CALLBACK_RESULT_FORMAT="json")
        return code, re.sub(r"\s+", " ", output)

    return call


def _two_controllers(**variables: t.Any) -> dict[str, t.Any]:
    inventory = _inventory(**variables)
    inventory["all"]["children"]["slurm_controller"]["hosts"]["gpu2"] = {}
    del inventory["all"]["children"]["slurm_compute"]["hosts"]["gpu2"]
    return inventory


def _no_controller() -> dict[str, t.Any]:
    inventory = _inventory()
    inventory["all"]["children"]["slurm_controller"]["hosts"] = {}
    inventory["all"]["children"]["others"] = {"hosts": {"head": {}}}
    return inventory


def _controller_that_computes() -> dict[str, t.Any]:
    inventory = _inventory()
    inventory["all"]["children"]["slurm_compute"]["hosts"]["head"] = {}
    return inventory


def _database(**variables: t.Any) -> dict[str, t.Any]:
    inventory = _inventory(**variables)
    inventory["all"]["children"]["slurm_database"] = {"hosts": {"head": {}}}
    return inventory


def _two_databases() -> dict[str, t.Any]:
    inventory = _inventory()
    inventory["all"]["children"]["slurm_database"] = {"hosts": {"head": {}, "gpu1": {}}}
    return inventory


def _input_of_a_group(**variables: t.Any) -> dict[str, t.Any]:
    """A machine outside of Slurm comes first, and what Slurm's machines share is a variable of their group."""
    inventory = _inventory()
    inventory["all"]["hosts"] = {"backup": {}, **inventory["all"]["hosts"]}
    inventory["all"]["children"]["others"] = {"hosts": {"backup": {}}}
    inventory["all"]["children"]["slurm_controller"]["vars"] = variables
    return inventory


def _storage(**variables: t.Any) -> dict[str, t.Any]:
    """Head shares with the others; gpu2 alone has its own variables."""
    inventory = _inventory(gpucluster_networks={"cluster": "10.0.0.0/24"})
    inventory["all"]["children"]["nfs_server"] = {"hosts": {"head": {}}}
    inventory["all"]["children"]["nfs_client"] = {"hosts": {"gpu1": {}, "gpu2": {}}}
    for host in ("head", "gpu2"):
        inventory["all"]["hosts"][host] |= variables
    return inventory


CASES: dict[str, tuple[t.Any, ...]] = {  # an inventory, and what the refusal says
    "two users with one uid": (
        _inventory(users_accounts=[ALICE, {"name": "bob", "uid": 2001}]),
        "users_accounts: uid 2001 belongs to alice and bob",
    ),
    "an unknown VM size": (
        _inventory(gpucluster_vm_size="Standard_ND96_typo"),
        "gpucluster_vm_size: unknown VM size .{1,2}Standard_ND96_typo.{1,2}; known sizes: DGX_A100",
    ),
    "no controller": (_no_controller(), "slurm_controllers is empty"),
    "two controllers without shared state": (
        _two_controllers(),
        "slurm_controllers has head, gpu2, but slurm_state_dir",
    ),
    "a controller that computes": (_controller_that_computes(), "head is both a controller and a compute node"),
    "two databases": (_two_databases(), "slurm_database is .*head, gpu1.*, but slurmdbd runs on one machine"),
    "no checksum": (
        _inventory(slurm_version="25.05.1"),
        "slurm_source_checksum is .*; it has to be sha256:, sha384: or sha512: and the digest of https://download.schedmd.com",
    ),
    "a digest that somebody could forge": (
        _inventory(slurm_source_checksum=f"md5:{0:032}"),
        "slurm_source_checksum is .*md5:0+.*; it has to be sha256:, sha384: or sha512: and the digest of",
    ),
    "GPUs that contradict the catalogue": (
        _inventory(gpucluster_vm_size="Standard_ND96isr_H100_v5", slurm_node_config={"Gres": "gpu:4"}),
        "Gres says 4 GPUs, the hardware catalogue says 8 for gpu1, gpu2",
    ),
    "an option that pyxis does not know": (
        _inventory(pyxis_version="0.20.0", pyxis_source_checksum=f"sha256:{0:064}", pyxis_options={"importer": "/x"}),
        "pyxis_options: importer is no option of pyxis 0.20.0, which knows runtime_path",
    ),
    "a release of pyxis without a checksum": (
        _inventory(pyxis_version="0.23.0"),
        "pyxis_source_checksum is .*; allowed is sha256:, sha384: or sha512: and the digest of https://github.com/NVIDIA/pyxis/.*v0.23.0.tar.gz",
    ),
    "mounts that are no list": (
        _storage(nfs_mounts="/home"),
        r"nfs_mounts: found '/home'; allowed: a list \(gpu2,head\)",
    ),
    "what a role finds in its inputs": (
        _storage(
            gpucluster_vm_size_record={"name": "own", "gpus": {"cout": 8}},
            gpu_hardware={"name": "own"},
            nccl_hardware="{{ 'DGX_H10' | hpcai.gpucluster.vm_size }}",
            scratch_vm_size="lab",
            enroot_credentials=[{"machine": "registry.example.com", "login": "bob"}],
            nfs_exports=[{"path": "/home", "clients": ["10.0.0.0/8", "10.1.0.0/16"]}],
            nfs_mounts=[{"path": "/home"}, {"path": "/home", "source": "filer:/vol"}],
            nfs_volumes=[{"name": "home", "path": "/home", "devices": ["/dev/sdb"], "quotas": {"alice": "2TB"}}],
            scratch_path="/usr",
            scratch_wipe=["/dev/sdb"],
            gpucluster_repair="present",
            repair_ladder=[{"check": "cpus", "steps": ["replace"], "category": "CPUPerformance", "source": "ours"}],
            slurm_user_uid="many",
        ),
        "gpucluster_vm_size_record: missing required arguments: cpus, memory_mib, numa_nodes",
        "gpu_hardware: missing required arguments: cpus, gpus, memory_mib, numa_nodes",
        "nccl_hardware: .*unknown VM size .{1,2}DGX_H10.{1,2}; known sizes: .*; did you mean DGX_H100",
        "scratch_vm_size: no role reads it; did you mean scratch_hardware",
        "enroot_credentials.*password",
        "the networks 10.0.0.0/8 and 10.1.0.0/16 overlap",
        "nfs_mounts.1..path: /home is the mount point of nfs_mounts.0. already",
        "nfs_volumes.0..quotas.alice: '2TB' is not a whole number with K, M, G, T or P",
        "scratch_path: /usr belongs to the system",
        "scratch_wipe: /dev/sdb is not among",
        "repair_ladder: rule 1: found the step 'replace'; allowed: service NAME, gpu_reset and reboot",
        "slurm_user_uid",
    ),
    "exports": (
        _storage(nfs_clients="10.0.0.0/33", nfs_exports=[{"path": "/etc"}]),
        "nfs_exports.0..clients: '10.0.0.0/33' is not a network",
        "nfs_exports.0..path: /etc lies outside the trees that may be exported, nfs_export_roots: /home",
    ),
    "what Slurm would refuse": (
        _database(
            slurm_mpi_config={"PMIxEnvs": "A=b"},
            slurm_config={"KillWiat": 30},
            slurm_partitions=[{"PartitionName": "batch", "Nodes": "gpu[1-9]"}],
            slurm_qos=[{"name": "small", "limits": {"MaxTRESPerUser": "gres/gpu=many"}}],
        ),
        "did you mean PMIxEnv",
        "unknown key .KillWiat.; did you mean KillWait",
        "gpu3",
        "MaxTRESPerUser: gres/gpu is 'many', expected a whole number",
    ),
    "an unknown key of the controllers' group": (
        _input_of_a_group(slurm_config={"KillWiat": 30}),
        "unknown key .KillWiat.; did you mean KillWait",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_wrong_input_is_refused_and_no_machine_is_touched(case: str, said: Said) -> None:
    inventory, *messages = CASES[case]

    code, output = said(inventory)

    assert code != 0
    assert [message for message in messages if not re.search(message, output)] == [], output[-3000:]
    assert "UNREACHABLE" not in output


# Inputs of every role, on all machines or on one, each with what its refusal says.
BAD_INPUTS: dict[str, tuple[t.Any, str]] = {
    "base_hosts": ({"gpu1": "10.0.1.400"}, "its IP address"),
    "base_sysctl": ({"vm.swappiness": "1\nkernel.panic = 1"}, "one line of text"),
    "docker_gpus": ("maybe", "true or false"),
    "enroot_images_reserve_gib": ("much", "a number"),
    "gpu_clocks": ("fast", "max, default, job, keep"),
    "gpucluster_containers": ("maybe", "true or false"),
    "munge_key": (["hunter2"], "a value that is not shown here; allowed: a text"),
    "nccl_settings": ({"NCCL_DEBUG": "a b"}, "NCCL_DEBUG is 'a b'"),
    "nfs_mounts": ([{"path": "/home", "sourc": "filer:/home"}], "did you mean source"),
    "health_checks": ({"gpu_cout": {}}, "unknown check 'gpu_cout'"),
    "health_prolog_enabled": ("maybe", "true or false"),
    "nvidia_container_toolkit_packages": ("all", "a list"),
    "pyxis_source_url": ("/no/such/pyxis.tar.gz", "a file that is there"),
    "scratch_mode": (493, "an octal mode in quotes"),
    "slurm_config": ({"ClusterName": "x"}, "slurm_cluster_name sets this one"),
    "slurm_controllers": (["head9"], "the name of a machine of the inventory; did you mean head"),
    "slurm_state_directory": ("", "an absolute path"),
    "slurm_user_uid": (0, "1 to 2147483646"),
    "upgrade_batch": ("abc", "a number of machines"),
    "users_acounts": ([], "did you mean users_accounts"),
    "users_ssh_hosts": (["gpu*\n ProxyCommand sh"], "one line of text"),
    "validate_plots": ("maybe", "true or false"),
}


def test_inputs_of_all_roles_are_refused_in_one_block(said: Said) -> None:
    inventory = _inventory(
        **{name: value for name, (value, _words) in BAD_INPUTS.items() if not name.startswith("gpu_")}
    )
    inventory["all"]["hosts"]["gpu2"]["gpu_clocks"] = BAD_INPUTS["gpu_clocks"][0]

    code, output = said(inventory, "site.yml")

    assert code != 0
    for name, (_value, words) in BAD_INPUTS.items():
        assert re.search(rf"\b{name}\b[^;]*[;:] .{{0,120}}{re.escape(words)}", output), (name, output[:6000])
    assert "(gpu2)" in output
    assert "hunter2" not in output
    assert "UNREACHABLE" not in output
    assert "filter plugin" not in output
    assert output.count("TASK [") == 1


@pytest.mark.parametrize(
    ("playbook", "given"),
    [
        ("site.yml", "gpucluster_containers=maybe"),
        ("playbooks/upgrade.yml", "upgrade_batch=abc"),
        ("playbooks/slurm.yml", "slurm_pam_adopt=maybe"),
        ("site.yml", "users_home_mode=rwx"),
    ],
)
def test_the_command_line_is_judged_as_well(playbook: str, given: str, said: Said) -> None:
    code, output = said(_inventory(), playbook, "-e", given)

    name, _equals, value = given.partition("=")
    assert code != 0
    assert f"Wrong input. No machine was touched. {name}: found '{value}'; allowed: " in output
    assert output.count("TASK [") == 1


def test_switches_in_words_pass_and_switch_off(said: Said) -> None:
    given = ["-e", "gpucluster_containers=no slurm_pam_adopt=false slurm_private_tmp=no slurm_x11=0"]

    code, output = said(_inventory(), CHECK, *given)

    assert code == 0, output[-3000:]
    assert re.search(r"TASK \[hpcai.gpucluster.slurm : Check input [^]]*\] \*+ ok: ", output)
    pyxis = re.findall(r"TASK \[hpcai.gpucluster.pyxis : [^]]*\] \*+ (\w+): ", output)
    assert set(pyxis) == {"skipping"}


def test_a_refused_value_of_slurm_is_not_wrapped(said: Said) -> None:
    inventory = _inventory(slurm_partitions=[{"PartitionName": "batch", "Nodes": "gpu[1-2", "Sate": "UP"}])

    code, output = said(inventory)

    assert code != 0
    assert "slurm_partitions (slurm.conf, PartitionName=batch): unknown key 'Sate'; did you mean State?" in output
    assert "filter plugin" not in output


def test_a_password_that_slurm_cannot_read_is_not_shown(said: Said) -> None:
    code, output = said(_database(slurm_database_password='hun"ter2'))

    assert code != 0
    assert "StoragePass: Slurm cannot read a quotation mark inside of a value" in output, output[-3000:]
    assert "ter2" not in output


def test_shared_state_allows_two_controllers(said: Said) -> None:
    inventory = _two_controllers(slurm_state_directory="/shared/slurm")

    assert said(inventory)[0] == 0


def _older_names() -> dict[str, t.Any]:
    inventory = _inventory()
    children = inventory["all"]["children"]
    children["slurm-master"] = children.pop("slurm_controller")
    children["slurm-node"] = children.pop("slurm_compute")
    return inventory


def test_older_group_names_are_understood(said: Said) -> None:
    assert said(_older_names())[0] == 0


def test_input_is_checked_once_in_a_run(said: Said, tmp_path: Path) -> None:
    """Each part of site.yml imports the check, so that it can run alone."""
    playbook = tmp_path / "twice.yml"
    one = f"- ansible.builtin.import_playbook: {CHECKOUT}/playbooks/check_input.yml\n"
    playbook.write_text(one * 2)

    code, output = said(_inventory(), str(playbook))

    assert code == 0, output[-3000:]
    assert output.count("TASK [Refuse wrong input]") == 1
    assert output.count("TASK [hpcai.gpucluster.slurm : Check input | Refuse what Slurm would refuse]") == 1


@pytest.mark.parametrize(
    ("arguments", "reached"),
    [
        (["playbooks/gpu_clocks.yml", "--limit", "gpu2"], {"gpu2"}),
        (["playbooks/check.yml", "--limit", "slurm-master"], {"head"}),
    ],
)
def test_a_playbook_alone_reaches_the_machines_of_older_groups(
    said: Said, arguments: list[str], reached: set[str]
) -> None:
    output = said(_older_names(), *arguments)[1]

    assert set(re.findall(r"fatal: \[(\w+)\]: UNREACHABLE", output)) == reached, output[-2000:]


def test_input_of_all_machines_is_checked_by_tasks_of_one(said: Said) -> None:
    code, output = said(_storage(users_accounts=[ALICE]))

    assert code == 0, output[-3000:]
    assert not re.findall(r"gpu[12] : ok=", output)


# What only a role finds, with its defaults or in a comparison of inputs.
OF_ROLES: dict[str, tuple[dict[str, t.Any], str]] = {
    "nfs": ({"nfs_mounts": [{"path": "/home", "source": "filer:home"}]}, "nfs_mounts"),
    "scratch": ({"scratch_path": "/"}, "scratch_path"),
    "health": ({"health_nhc_lines": ["* || check_x"]}, "allowed: an empty list, because health_provider is builtin"),
    "enroot": ({"enroot_version": "9.9.9"}, "no checksum of enroot 9.9.9-1 is known"),
}


def test_what_only_a_role_finds_is_refused_before_any_machine_is_touched(said: Said) -> None:
    inventory = _storage()
    for variables, _sentence in OF_ROLES.values():
        inventory["all"]["hosts"]["gpu2"].update(variables)

    code, output = said(inventory)

    assert code != 0
    assert "Wrong input. No machine was touched." in output, output[-3000:]
    assert [sentence for _variables, sentence in OF_ROLES.values() if sentence not in output] == [], output
    assert "(gpu2)" in output
    assert "UNREACHABLE" not in output


def test_containers_that_nobody_wants_are_not_judged(said: Said) -> None:
    given = ["-e", '{"gpucluster_containers": false, "enroot_version": "9.9.9"}']

    assert said(_inventory(), CHECK, *given)[0] == 0


def test_input_that_needs_facts_waits_for_them(said: Said) -> None:
    """storage.yml comes after the facts were gathered; without them, it has nothing to judge."""
    inventory = _storage(gpucluster_nfs_server="{{ hostvars['head'].ansible_facts['all_ipv4_addresses'][0] }}")

    code, output = said(inventory)
    assert code == 0, output[-3000:]

    output = said(inventory, "playbooks/storage.yml")[1]
    late = re.search(r"TASK \[hpcai.gpucluster.nfs : Check_input [^]]*\] \*+ (.*?) TASK", output)
    assert late, output[-3000:]
    assert "ok: [gpu2]" in late[1]


def test_only_machines_whose_input_needs_facts_are_checked_late(said: Said) -> None:
    inventory = _storage(scratch_path="{{ ansible_facts.path }}")

    output = said(inventory, "playbooks/storage.yml")[1]

    late = re.search(r"TASK \[hpcai.gpucluster.scratch : Check_input [^]]*\] \*+ (.*?) TASK", output)
    assert late, output[-3000:]
    assert "ok: [gpu2]" in late[1]
    assert "gpu1" not in late[1]


# One part that begins with the check, and those with plays before it. test_cluster_groups.py reads the others.
PARTS: dict[str, dict[str, t.Any]] = {
    "storage": {"nfs_mounts": [{"path": "/home", "sourc": "filer:/home"}]},
    "slurm": {"slurm_x11": "maybe"},
    "node_remove": {"slurm_user_uid": 0},
}


@pytest.mark.parametrize("part", PARTS)
def test_a_part_alone_checks_the_input_as_well(part: str, said: Said) -> None:
    """One input of the part itself, and one of another part: every entry point judges all input."""
    variables = {**PARTS[part], "scratch_mode": 493}

    code, output = said(_storage(**variables), f"playbooks/{part}.yml", "-e", "node=gpu1")

    assert code != 0
    assert "Wrong input. No machine was touched." in output
    assert [name for name in variables if name not in output] == [], output[-3000:]
    assert "UNREACHABLE" not in output


def test_the_input_is_checked_once(said: Said) -> None:
    """The parts that site.yml imports find that it has been checked."""
    output = said(_inventory(), "site.yml")[1]

    results = re.findall(r"TASK \[Refuse wrong input\] \*+ (\w+):", output)
    assert results == ["ok"]
    assert "UNREACHABLE" in output


def test_storage_of_no_cluster_is_not_refused(said: Said) -> None:
    inventory = _storage()
    del inventory["all"]["children"]["slurm_controller"]

    assert "UNREACHABLE" in said(inventory, "playbooks/storage.yml")[1]


def test_a_node_that_is_more_than_a_node_is_not_removed(said: Said) -> None:
    inventory = _controller_that_computes()
    inventory["all"]["vars"]["slurm_jobs_on_controllers"] = True

    code, output = said(inventory, "playbooks/node_remove.yml", "-e", "node=head")

    assert code != 0
    assert 'node is "head", which is also a controller' in output
    assert "UNREACHABLE" not in output


def test_the_machine_of_the_keys_has_to_answer(run: Run, tmp_path: Path) -> None:
    """The machine gpu1 is this one and has munge. In check mode it stays as it is."""
    inventory = _inventory()
    inventory["all"]["hosts"]["gpu1"] = {
        "ansible_connection": "local",
        "ansible_become": False,
        "ansible_python_interpreter": sys.executable,
    }
    dpkg = tmp_path / "dpkg-query"
    dpkg.write_text("#!/bin/sh\necho 'ii |munge|0.5.16-1'\n")
    dpkg.chmod(0o755)

    code, output = run(
        inventory,
        "playbooks/slurm.yml",
        *("--check", "--limit", "gpu1", "--tags", "munge"),
        PATH=f"{tmp_path}:{os.environ['PATH']}",
        ANSIBLE_CALLBACK_RESULT_FORMAT="json",
    )

    assert code != 0
    assert "head does not answer, but it stores keys of the cluster" in re.sub(r"\s+", " ", output)
    assert "Read the key of the cluster" not in output


@pytest.mark.parametrize("removed", ["games", "nobody-of-here"])
def test_without_a_controller_no_user_of_a_machine_is_removed(removed: str, said: Said) -> None:
    """The machine gpu1 is this one. In check mode it stays as it is."""
    inventory = _inventory(users_deleted=[{"name": removed, "system": True}])
    inventory["all"]["hosts"]["gpu1"] = {
        "ansible_connection": "local",
        "ansible_become": False,
        "ansible_python_interpreter": sys.executable,
    }

    code, output = said(inventory, "playbooks/users.yml", "--check", "--tags", "users")

    reason = "users_deleted (games): uid 5 is removed: nobody knows whether Slurm has jobs of these users"
    assert code != 0
    assert (reason in output) == (removed == "games"), output[-3000:]
    assert ("PLAY [Configure every machine and its users]" in output) == (removed != "games")


def test_a_user_with_jobs_is_not_changed(run: Run, tmp_path: Path) -> None:
    """The controller is this machine, with an account 'games' and a squeue that has a job of it."""
    inventory = _inventory(users_deleted=[{"name": "games", "system": True}], slurm_containment="none")
    inventory["all"]["hosts"]["head"] = {
        "ansible_connection": "local",
        "ansible_become": False,
        "ansible_python_interpreter": sys.executable,
    }
    inventory["all"]["children"]["slurm_database"] = {"hosts": {"head": {}}}
    squeue = tmp_path / "squeue"
    squeue.write_text("#!/bin/sh\necho '5|17_[2-9]|PENDING|'\necho '0|16|RUNNING|gpu1'\n")
    squeue.chmod(0o755)

    code, output = run(
        inventory,
        *("playbooks/users.yml", "--check", "--tags", "users", "--limit", "gpu2"),
        PATH=f"{tmp_path}:{os.environ['PATH']}",
        ANSIBLE_CALLBACK_RESULT_FORMAT="json",
    )

    assert code == 2, output[-3000:]
    assert "users_deleted (games): uid 5 is removed: Slurm has jobs of this user" in output
    assert "17_[2-9] (PENDING)" in output
    assert "PLAY [Configure every machine and its users]" not in output


def test_nodes_keep_their_order(said: Said, tmp_path: Path) -> None:
    """Sets of names have another order in every process; slurm.conf must not."""
    inventory = _inventory(gpucluster_removed_nodes=["gpu2"])
    nodes: dict[str, dict[str, t.Any]] = {f"{letter}{number}": {} for letter in "zyxwv" for number in range(3)}
    inventory["all"]["children"]["slurm_compute"]["hosts"] |= nodes
    playbook = tmp_path / "nodes.yml"
    playbook.write_text(
        f"""
- hosts: localhost
  gather_facts: false
  vars_files: [{CHECKOUT}/playbooks/vars/cluster.yml]
  tasks:
    - ansible.builtin.debug: {{msg: "nodes: {{{{ gpucluster_slurm_computes | join(' ') }}}}"}}
"""
    )

    output = said(inventory, str(playbook))[1]

    assert f"nodes: gpu1 {' '.join(nodes)}" in output


def test_the_password_of_a_proxy_is_not_shown(said: Said) -> None:
    proxy = {"http": "http://me:hush@proxy:3128"}
    code, output = said(_inventory(gpucluster_proxy=proxy), CHECK, "-vvv")

    assert code == 0, output
    assert "hush" not in output


OWN_FACTS = """
- ansible.builtin.import_playbook: {checkout}/playbooks/check_input.yml

- hosts: all
  connection: local
  gather_facts: false
  tasks:
    - ansible.builtin.set_fact: {{own: "{{{{ inventory_hostname }}}}", cacheable: true}}
    - ansible.builtin.debug: {{msg: "{{{{ inventory_hostname }}}} has the fact of {{{{ ansible_facts.own }}}}."}}
"""


def test_each_host_has_its_own_facts_after_the_check(said: Said, tmp_path: Path) -> None:
    """With ansible-core 2.21, a task with run_once can make hosts share whatever is stored later."""
    playbook = tmp_path / "facts.yml"
    playbook.write_text(OWN_FACTS.format(checkout=CHECKOUT), encoding="utf-8")

    code, output = said(_inventory(), str(playbook))

    assert code == 0, output[-3000:]
    facts = dict(re.findall(r"(\w+) has the fact of (\w+)\.", output))
    assert facts == {"head": "head", "gpu1": "gpu1", "gpu2": "gpu2"}
