# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""cluster.yml as an operator uses it: written by init.yml, read by ansible-inventory, judged by check_input.yml."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
from patience import PATIENCE  # type: ignore[import-not-found]

CHECKOUT = Path(__file__).parents[3]
BIN = Path(sys.executable).parent
CHECK = "playbooks/check_input.yml"
KEY = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKnw8lNDEZWwZDkyeW3yzCWvUWzPTmY7TFu8vcZiGpVR it\'s "a: b" # c'
ANSWERS = {
    "init_name": "training",
    "init_user": "ubuntu",
    "init_controller": "head1=192.0.2.10",
    "init_nodes": "gpu[1-4]=192.0.2.[11-14]",
    "init_vm_size": "DGX_H100",
    "init_users": "alice,bob",
}
OLD = "plugin: hpcai.gpucluster.cluster\nname: training\nmachines: {head1: {roles: controller}}\n"


def _run(program: str, *arguments: str, **environment: str) -> tuple[int, str]:
    settings = {"ANSIBLE_CONFIG": str(CHECKOUT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"}
    done = subprocess.run(
        [str(BIN / program), *arguments],
        cwd=CHECKOUT,
        env=os.environ | settings | environment,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=2 * PATIENCE,
        check=False,
    )
    return done.returncode, re.sub(r"\s+", " ", done.stdout + (done.stderr if done.returncode else ""))


def _init(file: Path, *arguments: str, **answers: str) -> tuple[int, str]:
    given = json.dumps({**ANSWERS, **answers, "init_file": str(file)})
    return _run("ansible-playbook", "-i", "localhost,", "playbooks/init.yml", "-e", given, *arguments)


def _listed(file: Path) -> dict[str, t.Any]:
    code, output = _run("ansible-inventory", "-i", str(file), "--list")
    assert code == 0, output[-3000:]
    found: dict[str, t.Any] = json.loads(output)
    return found


def test_init_writes_an_inventory_whose_input_is_right(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yml"

    code, output = _init(file, "--check", "--diff")
    assert code == 0, output
    assert '+ slurm_cluster_name: "training"' in output
    assert not file.exists()

    assert _init(file)[0] == 0
    assert "changed=0" in _init(file)[1]
    found = _listed(file)
    assert found["slurm_compute"]["hosts"] == ["gpu1", "gpu2", "gpu3", "gpu4"]
    assert found["_meta"]["hostvars"]["gpu4"]["ansible_host"] == "192.0.2.14"
    assert found["_meta"]["hostvars"]["gpu4"]["gpucluster_vm_size"] == "DGX_H100"
    code, output = _run("ansible-playbook", "-i", str(file), CHECK)
    assert code == 0, output[-3000:]
    assert "Remember that the input was checked" in output


def test_init_overwrites_only_when_it_is_told_to(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yml"
    file.write_text("mine: true\n", encoding="utf-8")

    code, output = _init(file)
    assert code != 0
    assert "exists and differs. Nothing was written." in output
    assert file.read_text(encoding="utf-8") == "mine: true\n"

    assert _init(file, "-e", "init_overwrite=true")[0] == 0
    assert _listed(file)["slurm_controller"]["hosts"] == ["head1"]
    assert [backup.read_text(encoding="utf-8") for backup in tmp_path.glob("cluster.yml.*")] == ["mine: true\n"]


def test_odd_answers_stay_what_they_are(tmp_path: Path) -> None:
    """YAML reads each of these words as something else, unless it has quotes."""
    public = tmp_path / "odd.pub"
    public.write_text(KEY, encoding="utf-8")
    answers = {
        "init_name": "1_000",
        "init_user": "yes",
        "init_controller": "on=0x1f",
        "init_users": f"no={public},null",
    }
    assert _init(tmp_path / "cluster.yml", **answers, init_nodes="1e3,0b1,1_0,off")[0] == 0

    found = _listed(tmp_path / "cluster.yml")
    machine = found["_meta"]["hostvars"]["on"]
    assert (machine["slurm_cluster_name"], machine["ansible_user"], machine["ansible_host"]) == ("1_000", "yes", "0x1f")
    assert found["slurm_compute"]["hosts"] == ["1e3", "0b1", "1_0", "off"]
    assert found["slurm_database"]["hosts"] == ["on"]
    assert [(user["name"], user["ssh_keys"]) for user in machine["users_accounts"]] == [("no", [KEY]), ("null", [])]


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ({"init_vm_size": "DGX_H10"}, "gpucluster_vm_size"),
        ({"init_name": 'a"b'}, "slurm_cluster_name: found"),
        ({"init_user": "ubuntu\n    x: 1"}, "init_user: found"),
        ({"init_controller": "1"}, "machines of Slurm named 1"),
    ],
)
def test_init_refuses_a_wrong_answer(answers: dict[str, str], said: str, tmp_path: Path) -> None:
    code, output = _init(tmp_path / "cluster.yml", **answers)

    assert code != 0
    assert "Wrong answers. No file was written." in output
    assert said in output
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("failed", ["true", "false"])
@pytest.mark.parametrize("text", [OLD, OLD.partition("\n")[2]])
def test_a_file_of_the_older_form_ends_the_run_and_says_what_to_do(text: str, failed: str, tmp_path: Path) -> None:
    (tmp_path / "cluster.yml").write_text(text, encoding="utf-8")

    code, output = _run(
        *("ansible-playbook", "-i", str(tmp_path / "cluster.yml"), CHECK),
        ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED=failed,
    )

    assert code != 0
    assert "docs/cluster-file.md says what" in output


def test_the_example_of_the_docs_is_right() -> None:
    code, output = _run("ansible-playbook", "-i", str(CHECKOUT / "inventories/examples/dgx/cluster.yml"), CHECK)
    assert code == 0, output[-3000:]
