# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cluster in Azure from nothing to nothing: up, the input of site.yml, scale, down."""

from __future__ import annotations

import re
import sys
import typing as t

import pytest

if t.TYPE_CHECKING:
    from pathlib import Path

Cluster = t.Any  # of conftest.py, which a plain checkout imports by another name


def changed(run: t.Any) -> int:
    return sum(map(int, re.findall(r"changed=(\d+)", run.out)))


def fine(run: t.Any) -> t.Any:
    assert run.rc == 0, run.out[-4000:] + run.err[-4000:]
    return run


def said(run: t.Any) -> str:
    return " ".join((run.out + run.err).split())


def test_a_cluster_from_nothing_to_nothing(cluster: Cluster) -> None:
    fine(cluster.run("azure_up", "--check", "--diff"))
    assert cluster.azure.writes() == []
    fine(cluster.run("azure_up"))
    assert changed(fine(cluster.run("azure_up"))) == 0

    fine(cluster.run("check_input"))
    listed = fine(cluster.azure.inventory(cluster.inventory, environment=cluster.azure.signed_in())).listed
    assert listed["slurm_controller"]["hosts"] == ["hpc-controller"]
    assert len(listed["slurm_compute"]["hosts"]) == 2

    cluster.azure.setting()
    tried = fine(cluster.scale("set=h100", "count=100", "--check", "--diff"))
    assert cluster.azure.writes() == []
    assert "hpc--h100: capacity 100" in tried.out
    fine(cluster.scale("set=h100", "count=100"))
    assert len(cluster.azure.writes()) == 1
    assert cluster.azure.writes()[0].startswith("PATCH ")
    assert cluster.machines() == {"hpc--h100": 100}
    cluster.azure.setting()
    assert changed(fine(cluster.scale("set=h100", "count=100"))) == 0
    assert cluster.azure.writes() == []
    kept = fine(cluster.run("azure_up"))
    assert changed(kept) == 0
    assert cluster.machines() == {"hpc--h100": 100}
    listed = fine(cluster.azure.inventory(cluster.inventory, environment=cluster.azure.signed_in())).listed
    assert len(listed["slurm_compute"]["hosts"]) == 100
    fine(cluster.run("check_input"))

    fine(cluster.run("azure_down", "-e", "azure_down=hpc"))
    assert cluster.azure.contents() == {"groups": [], "resources": [], "instances": {}}


@pytest.fixture
def running(cluster: Cluster) -> Cluster:
    """Return a cluster with four machines."""
    cluster.edit("group_vars/all/azure.yml", "count: 2, max_count", "count: 4, max_count")
    fine(cluster.run("azure_up"))
    cluster.azure.setting()
    return cluster


# Arguments, and what the refusal says. The last one shrinks without Slurm, so that nobody knows which nodes have jobs.
WRONG: tuple[tuple[list[str], str], ...] = (
    (["set=h10", "count=8"], "set: found 'h10'; allowed: h100; did you mean 'h100'?"),
    (["set=h100", "count=eight"], "count: found 'eight'"),
    (["set=h100"], "set count, the number of machines that the set shall have, or nodes"),
    (["set=h100", "count=101"], "count is 101, but the set has 1 scale sets (hpc--h100) for 100 = 100 instances"),
    (["set=h100", "count=2"], "2 nodes must leave, but only 0 may"),
)


def test_a_wrong_request_changes_nothing(running: Cluster) -> None:
    for given, text in WRONG:
        refused = running.scale(*given)

        assert refused.rc != 0
        assert text in said(refused)
    assert running.azure.writes() == []
    assert running.machines() == {"hpc--h100": 4}


def test_named_machines_leave_and_no_others(running: Cluster) -> None:
    fine(running.scale("set=h100", "nodes=hpc-h100-000001,HPC-H100-000002", "azure_scale_force_jobs=true"))

    assert len(running.azure.writes()) == 1
    left = running.azure.inventory(running.inventory, environment=running.azure.signed_in()).listed["slurm_compute"]
    assert sorted(left["hosts"]) == ["hpc-h100-000000", "hpc-h100-000003"]
    assert changed(fine(running.scale("set=h100", "count=2"))) == 0


def test_the_command_that_joins_names_the_nodes_that_slurm_does_not_know(running: Cluster, tmp_path: Path) -> None:
    """sinfo knows two of the four machines, and one that was evicted."""
    names = ("hpc-h100-000000", "hpc-h100-000001", "hpc-h100-000009")
    sinfo = tmp_path / "sinfo"
    rows = [f"{name}|gpu|idle|26.05.4|gpu:h100:8|96|none" for name in names]
    sinfo.write_text("\n".join(["#!/bin/sh", "cat <<END", *rows, "END", ""]), encoding="utf-8")
    sinfo.chmod(0o755)
    local = ("ansible_connection=local", "ansible_become=false", f"ansible_python_interpreter={sys.executable}")
    running.path = str(tmp_path)

    shown = said(fine(running.scale("set=h100", "count=4", *local, joins=True)))

    command = "ansible-playbook site.yml --limit hpc-h100-000002,hpc-h100-000003"
    assert command + " -e '{slurm_drained: [hpc-h100-000009]}'" in shown


def test_machines_are_not_deleted_if_slurm_cannot_forget_them(running: Cluster) -> None:
    """Nothing answers at the address of the controller."""
    nowhere = ("ansible_host=127.0.0.1", "ansible_port=1")
    refused = running.scale("set=h100", "nodes=hpc-h100-000001", "azure_scale_force_jobs=true", *nowhere, joins=True)

    assert refused.rc != 0
    assert running.azure.writes() == []
    assert running.machines() == {"hpc--h100": 4}


def test_a_failed_allocation_leaves_the_machines_that_exist(running: Cluster) -> None:
    running.azure.faults("allocation_failed")

    failed = running.scale("set=h100", "count=16")

    assert failed.rc != 0
    assert "AllocationFailed" in said(failed)
    assert "Azure has no free machines of this size here now" in said(failed)
    assert running.machines() == {"hpc--h100": 4}
    running.azure.faults()
    assert changed(fine(running.scale("set=h100", "count=4"))) == 0
    fine(running.scale("set=h100", "count=5"))
    assert running.machines() == {"hpc--h100": 5}


def test_without_rights_the_message_names_the_role(running: Cluster) -> None:
    body = {"error": {"code": "AuthorizationFailed", "message": "does not have authorization"}}
    running.azure.faults({"match": "^PATCH", "status": 403, "body": body})

    failed = running.scale("set=h100", "count=5")

    assert failed.rc != 0
    assert "Virtual Machine Contributor" in said(failed)
    assert running.machines() == {"hpc--h100": 4}
