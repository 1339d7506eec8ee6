# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""
No playbook changes a Slurm that CycleCloud manages, whose slurm.conf is a link to /sched on all of its machines.

Azure/cyclecloud-slurm, azure-slurm-install/install.py, _complete_install_all. All runs are in check mode here.
"""

from __future__ import annotations

import re
import typing as t

import pytest

if t.TYPE_CHECKING:
    from pathlib import Path

    from ansible_collections.hpcai.gpucluster.tests.integration.conftest import Run

HOST = {"ansible_connection": "local", "ansible_python_interpreter": "{{ ansible_playbook_python }}"}
OWN = {
    "name": "own",
    "cpus": {"sockets": 1, "cores_per_socket": 2, "threads_per_core": 1},
    "numa_nodes": 1,
    "memory_mib": 1024,
    "gpus": {"count": 0},
}
# Those that begin with the refusal are read by test_cluster_groups.py; site is one of them.
PARTS = ("site", "storage", "upgrade")
WITH_WORDS = {"node_remove": "node=gpu1"}


def inventory(slurm_conf: Path) -> dict[str, t.Any]:
    """Return a controller and two nodes, all on this machine."""
    nodes = {name: {**HOST, "gpucluster_vm_size_record": OWN} for name in ("gpu1", "gpu2")}
    children = {
        "slurm_controller": {"hosts": {"head": HOST}},
        "slurm_database": {"hosts": {"head": {}}},
        "nfs_server": {"hosts": {"head": {}}},
        "nfs_client": {"hosts": {}},
        "slurm_compute": {"hosts": nodes},
    }
    variables = {"gpucluster_slurm_conf": str(slurm_conf), "gpucluster_networks": {"cluster": "10.0.0.0/8"}}
    return {"all": {"vars": {**variables, "users_accounts": []}, "children": children}}


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    """Return slurm.conf as CycleCloud links it."""
    path = tmp_path / "slurm.conf"
    path.symlink_to("/sched/ccw/slurm.conf")
    return path


def after_the_refusal(output: str) -> str:
    return output.partition("CycleCloud manages Slurm on")[2]


@pytest.mark.parametrize("playbook", [*PARTS, *WITH_WORDS])
def test_a_playbook_that_changes_slurm_refuses_before_it_changes_anything(run: Run, conf: Path, playbook: str) -> None:
    words = ["-e", WITH_WORDS[playbook]] if playbook in WITH_WORDS else []

    code, output = run(inventory(conf), f"playbooks/{playbook}.yml", "--check", *words)

    assert code == 2, output[-3000:]
    assert "slurm.conf is a link to /sched/ccw/slurm.conf. Nothing was changed." in " ".join(output.split())
    assert not re.search(r"changed=[1-9]", output)
    assert "TASK [" not in after_the_refusal(output).partition("PLAY RECAP")[0]


def test_a_limited_run_looks_at_its_own_machines(run: Run, conf: Path) -> None:
    code, output = run(inventory(conf), "playbooks/site.yml", "--check", "--limit", "gpu2")

    assert code == 2
    assert "CycleCloud manages Slurm on gpu2" in output


@pytest.mark.parametrize("file", ["missing", "plain", "link"])
def test_a_slurm_of_our_own_is_not_refused(run: Run, tmp_path: Path, file: str) -> None:
    path = tmp_path / "slurm.conf"
    if file == "plain":
        path.write_text("ClusterName=hpc\n")
    elif file == "link":
        path.symlink_to("/shared/slurm.conf")

    code, output = run(inventory(path), "playbooks/slurm_owner.yml", "--check")

    assert code == 0, output[-3000:]


def test_a_slurm_of_our_own_does_not_get_what_cyclecloud_lacks(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "slurm.conf"
    path.symlink_to("/shared/slurm.conf")

    code, output = run(inventory(path), "playbooks/cyclecloud.yml", "--check")

    assert code == 2
    assert "slurm.conf is no link to /sched. Nothing was changed" in " ".join(output.split())


def test_a_machine_that_does_not_answer_is_left_to_later_plays(run: Run, tmp_path: Path) -> None:
    hosts = inventory(tmp_path / "slurm.conf")
    hosts["all"]["children"]["slurm_controller"]["hosts"]["head"] = {
        "ansible_host": "127.0.0.1",
        "ansible_port": 9,
        "ansible_connection": "ssh",
    }

    code, output = run(hosts, "playbooks/slurm_owner.yml", ANSIBLE_SSH_RETRIES="0")

    assert code == 0, output[-2000:]
    assert "CycleCloud manages Slurm on" not in output


def test_what_cyclecloud_does_not_manage_is_added_and_its_job_scripts_stay(run: Run, conf: Path) -> None:
    code, output = run(inventory(conf), "playbooks/cyclecloud.yml", "--list-tasks")

    roles = set(re.findall(r"hpcai\.gpucluster\.(\w+) : .*TAGS: \[(?!always)", output))
    assert code == 0, output[-3000:]
    assert roles == {"gpu", "health", "nccl"}
