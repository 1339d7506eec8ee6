# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""No playbook changes the Slurm of CycleCloud, or installs one beside that of DeepOps. All run here."""

from __future__ import annotations

import json
import re
import sys
import typing as t

import pytest

if t.TYPE_CHECKING:
    from pathlib import Path

    from ansible_collections.hpcai.gpucluster.tests.integration.conftest import Run


def _inventory(prefix: Path, master: str = "slurm-master") -> dict[str, t.Any]:
    hosts = {"head": {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}}
    variables = {"slurm_install_prefix": str(prefix), "gpucluster_vm_size": "lab"}
    # The controller of CycleCloud has a link into /sched.
    variables["gpucluster_slurm_conf"] = str(prefix / "slurm.conf")
    return {"all": {"vars": variables, "children": {master: {"hosts": hosts}}}}


def _compiled(prefix: Path) -> Path:
    (prefix / "sbin").mkdir(parents=True)
    (prefix / "sbin/slurmctld").touch()
    return prefix


def _link(prefix: Path, target: str) -> Path:
    prefix.mkdir(parents=True)
    (prefix / "slurm.conf").symlink_to(target)
    return prefix


def _asked(inventory: dict[str, t.Any]) -> dict[str, t.Any]:
    """Return the inventory as check_input.yml leaves it, for check_controller.yml alone."""
    head: dict[str, t.Any] = {"hosts": {"head": {}}}
    inventory["all"]["children"].update({"slurm_controller": head, "gpucluster_input": head})
    return inventory


def test_site_refuses_to_install_slurm_beside_that_of_deepops(run: Run, tmp_path: Path) -> None:
    prefix = _compiled(tmp_path / "local")
    inventory = _inventory(prefix)
    inventory["all"]["children"]["slurm-node"] = {
        "hosts": {"gpu1": inventory["all"]["children"]["slurm-master"]["hosts"]["head"]}
    }

    code, output = run(inventory, "playbooks/site.yml", "--check")

    text = " ".join(output.split())
    assert code == 2, output
    assert (
        f"head has the Slurm of DeepOps, {prefix}/sbin/slurmctld. Nothing was changed. Run playbooks/from_deepops"
        in text
    )
    assert not re.search(r"changed=[1-9]", output)


@pytest.mark.parametrize(
    "words",
    [("site", "--limit=gpu2", "--tags=storage"), ("node_remove", "-enode=gpu2"), ("teardown", "-eteardown=hpc")],
)
def test_what_cyclecloud_manages_is_refused_before_anything_is_changed(
    run: Run, tmp_path: Path, words: tuple[str, ...]
) -> None:
    inventory = _inventory(_link(tmp_path / "etc", "/sched/ccw/slurm.conf"), "slurm_controller")
    node = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    inventory["all"]["children"]["slurm_compute"] = {"hosts": {"gpu1": node, "gpu2": node}}
    inventory["all"]["vars"] |= {"slurm_cluster_name": "hpc", "users_accounts": []}

    code, output = run(inventory, f"playbooks/{words[0]}.yml", "--check", *words[1:])

    refusal = "CycleCloud manages Slurm on head: "
    assert code == 2, output
    assert f"{tmp_path}/etc/slurm.conf is a link to /sched/ccw/slurm.conf. Nothing was changed." in " ".join(
        output.split()
    )
    assert not re.search(r"changed=[1-9]", output)
    assert "TASK [" not in output.partition(refusal)[2].partition("PLAY RECAP")[0]


@pytest.mark.parametrize("case", ["retired", "inventory of the collection", "link elsewhere", "dead"])
def test_other_machines_are_not_refused(run: Run, tmp_path: Path, case: str) -> None:
    prefix = tmp_path / "local"
    if case == "inventory of the collection":
        inventory = _inventory(_compiled(prefix), "slurm_login")
    elif case == "link elsewhere":
        inventory = _inventory(_link(prefix, "/shared/slurm.conf"))
    else:
        inventory = _inventory(prefix)
    dead = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 9} if case == "dead" else {}
    for group in inventory["all"]["children"].values():
        group["hosts"]["head"] |= dead

    code, output = run(_asked(inventory), "playbooks/check_controller.yml", "--tags=always", ANSIBLE_SSH_RETRIES="0")

    assert code == 0, output
    assert "Refuse to install Slurm beside that of DeepOps" in output


def _retire(run: Run, prefix: Path, *programs: str, ours: str = "") -> tuple[int, str]:
    """Run from_deepops.yml in check mode on machines with some programs. C(ours) is the mark of this collection."""
    for program in programs:
        (prefix / program).parent.mkdir(parents=True, exist_ok=True)
        (prefix / program).write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    variables = {"from_deepops_prefix": str(prefix), "__from_deepops_ours": ours or str(prefix / "none")}
    inventory = _inventory(prefix)
    node = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    inventory["all"]["children"]["slurm-node"] = {"hosts": {"gpu1": node}}
    code, output = run(inventory, "playbooks/from_deepops.yml", "--check", "-e", json.dumps(variables))
    return code, " ".join(output.split())


def test_a_program_alone_is_no_cluster_of_deepops(run: Run, tmp_path: Path) -> None:
    __, text = _retire(run, tmp_path / "local", "bin/seff", "bin/squeue")

    assert re.search(r"Create the directory of the archive\] \*+ skipping: \[\w+\] skipping: \[\w+\]", text), text
    assert "changed=1" not in text


def test_what_this_collection_made_is_not_moved(run: Run, tmp_path: Path) -> None:
    (tmp_path / "gpucluster-slurm.list").touch()
    code, text = _retire(run, tmp_path / "local", "sbin/slurmd", ours=str(tmp_path / "gpucluster-slurm.list"))

    assert code == 2, text
    assert "is a machine of a cluster that this collection made" in text
    assert f"{tmp_path}/local/sbin/slurmd. This playbook does not touch such a machine. Nothing was changed." in text
    assert "changed=0" in text


def test_unknown_jobs_are_not_ended(run: Run, tmp_path: Path) -> None:
    code, text = _retire(run, tmp_path / "local", "sbin/slurmctld")

    assert code == 2, text
    assert "Slurm does not say which jobs run" in text
    assert "changed=0" in text
