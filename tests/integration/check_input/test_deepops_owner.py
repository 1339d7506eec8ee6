# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""No playbook installs Slurm beside the one that DeepOps compiled. The machines are this machine, in check mode."""

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
    return {"all": {"vars": variables, "children": {master: {"hosts": hosts}}}}


def _compiled(prefix: Path) -> Path:
    (prefix / "sbin").mkdir(parents=True)
    (prefix / "sbin/slurmctld").touch()
    return prefix


def test_site_refuses_to_install_slurm_beside_that_of_deepops(run: Run, tmp_path: Path) -> None:
    prefix = _compiled(tmp_path / "local")

    code, output = run(_inventory(prefix), "playbooks/slurm_owner.yml", "--check")

    text = " ".join(output.split())
    assert code == 2, output
    assert (
        f"head has the Slurm of DeepOps, {prefix}/sbin/slurmctld. Nothing was changed. Run playbooks/from_deepops"
        in text
    )


@pytest.mark.parametrize("case", ["retired", "inventory of the collection"])
def test_other_machines_are_not_refused(run: Run, tmp_path: Path, case: str) -> None:
    inventory = (
        _inventory(tmp_path / "local")
        if case == "retired"
        else _inventory(_compiled(tmp_path / "local"), "slurm_controller")
    )

    code, output = run(inventory, "playbooks/slurm_owner.yml", "--check")

    assert code == 0, output


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
