# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""No playbook installs Slurm beside the one that DeepOps compiled. The machines are this machine, in check mode."""

from __future__ import annotations

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
