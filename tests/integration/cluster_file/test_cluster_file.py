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

import pexpect
import pytest
import yaml
from patience import PATIENCE  # type: ignore[import-not-found]

CHECKOUT = Path(__file__).parents[3]
EXAMPLES = CHECKOUT / "inventories/examples"
BIN = Path(sys.executable).parent
ANSWERS = {
    "init_name": "training",
    "init_user": "ubuntu",
    "init_controller": "head1=192.0.2.10",
    "init_nodes": "gpu[1-4]=192.0.2.[11-14]",
    "init_vm_size": "DGX_H100",
    "init_users": "alice,bob",
}
# Variables that differ on purpose: the machines that run no jobs have no VM size, and the rest belongs to
# inventories/lab alone (its mirror, NFS and GPUs), or names the same address in another way.
# base_hosts: the file of an own cluster leaves names to DNS.
DIFFERENT = {"__lab_nfs", "base_hosts", "lab_gpu_notes", "lab_mirror_note"}
NODES_ONLY = {"gpucluster_vm_size", "slurm_node_config"}


def _run(program: str, *arguments: str, **environment: str) -> tuple[int, str]:
    settings = {"ANSIBLE_CONFIG": str(CHECKOUT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1", "GPUCLUSTER_LAB": "43"}
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
    return done.returncode, done.stdout + (done.stderr if done.returncode else "")


def _listed(inventory: Path) -> dict[str, t.Any]:
    code, output = _run("ansible-inventory", "-i", str(inventory), "--list")
    assert code == 0, output[-3000:]
    found: dict[str, t.Any] = json.loads(output)
    return found


def _init(file: Path, *arguments: str, **answers: str) -> tuple[int, str]:
    given = json.dumps({**ANSWERS, **answers, "init_file": str(file)})
    return _run("ansible-playbook", "-i", "localhost,", "playbooks/init.yml", "-e", given, *arguments)


def _templated(inventory: Path) -> dict[str, dict[str, t.Any]]:
    """Return by host the variables that roles and connections read, as Ansible evaluates them."""
    names = "hostvars[inventory_hostname] | dict2items | selectattr('key', 'match', pattern) | items2dict"
    pattern = (
        "^(ansible_(host|user|python_interpreter|ssh_.*)|(base|enroot|gpu|health|lab|nccl|nfs|pyxis|slurm|users|validate)_.*"
        "|gpucluster_(vm_size|networks))$"
    )
    code, output = _run(
        *("ansible", "all", "-i", str(inventory), "-m", "debug", "-a", f"msg={{{{ {names} }}}}"),
        *("-e", json.dumps({"pattern": pattern})),
        ANSIBLE_CALLBACK_RESULT_FORMAT="json",
    )
    assert code == 0, output[-3000:]
    parts = re.split(r"^(\w+) \| SUCCESS => ", output, flags=re.MULTILINE)[1:]
    return {host: json.loads(text)["msg"] for host, text in zip(parts[::2], parts[1::2])}


def test_the_example_of_the_lab_is_the_lab() -> None:
    plain, single = CHECKOUT / "inventories/lab", EXAMPLES / "lab/cluster.yml"
    groups = [_listed(source) for source in (plain, single)]
    for name in groups[0]:
        if name not in ("_meta", "all", "mirrored", "simulated"):
            first, second = (sorted(found[name].get("hosts", [])) for found in groups)
            assert first == second, name

    expected, found = _templated(plain), _templated(single)

    assert sorted(expected) == sorted(found) == ["control", "gpu1", "gpu2", "login"]
    for host, variables in expected.items():
        skipped = DIFFERENT | (set() if host.startswith("gpu") else NODES_ONLY)
        network = found[host]["gpucluster_networks"]
        assert network == {"cluster": [variables["gpucluster_networks"]["cluster"]]}
        assert {name: value for name, value in found[host].items() if name not in skipped} == {
            **{name: value for name, value in variables.items() if name not in skipped},
            "gpucluster_networks": network,
        }


@pytest.mark.parametrize("example", ["lab", "dgx"])
def test_the_input_of_the_examples_is_right(example: str) -> None:
    code, output = _run("ansible-playbook", "-i", str(EXAMPLES / example / "cluster.yml"), "playbooks/check_input.yml")

    assert code == 0, output[-3000:]
    assert "Remember that the input was checked" in output
    assert "UNREACHABLE" not in output


def test_limit_and_group_vars_work(tmp_path: Path) -> None:
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "group_vars/slurm_compute.yml").write_text("gpucluster_vm_size: DGX_A100\n", encoding="utf-8")
    _init(tmp_path / "cluster.yml")

    code, output = _run(
        *("ansible", "slurm_compute", "-i", str(tmp_path / "cluster.yml"), "--limit", "gpu3", "-m", "debug"),
        *("-a", "msg={{ gpucluster_vm_size }}/{{ slurm_cluster_name }}/{{ ansible_host }}"),
    )

    assert code == 0, output
    assert output.count("DGX_A100/training/192.0.2.13") == output.count("SUCCESS") == 1


def test_init_writes_a_file_whose_input_is_right(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yml"

    code, output = _init(file, "--check", "--diff")
    assert code == 0, output
    assert not file.exists()
    assert "+name: training" in output

    assert _init(file)[0] == 0
    code, output = _init(file)
    assert "changed=0" in output
    code, output = _run("ansible-playbook", "-i", str(file), "playbooks/check_input.yml")
    assert code == 0, output[-3000:]


def test_init_asks_six_questions(tmp_path: Path) -> None:
    asked = []
    answers = iter(["training", "", "head1=192.0.2.10", "gpu[1-4]=192.0.2.[11-14]", "DGX_H100", "alice"])
    child = pexpect.spawn(
        str(BIN / "ansible-playbook"),
        ["-i", "localhost,", str(CHECKOUT / "playbooks/init.yml")],
        cwd=str(tmp_path),
        env={**os.environ, "ANSIBLE_CONFIG": str(CHECKOUT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"},
        encoding="utf-8",
        timeout=PATIENCE,
    )
    while child.expect([r"\n?([^\n]*): $", pexpect.EOF]) == 0:
        asked.append(str(child.before))
        child.sendline(next(answers))
    child.close()

    assert child.exitstatus == 0, child.before
    assert len(asked) == 6, asked
    found = yaml.safe_load((tmp_path / "cluster.yml").read_text(encoding="utf-8"))
    assert (found["name"], found["connection"]["user"], found["vm_size"]) == ("training", "ubuntu", "DGX_H100")


def test_init_overwrites_only_when_it_is_told_to(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yml"
    file.write_text("mine: true\n", encoding="utf-8")

    code, output = _init(file)
    assert code != 0
    assert "exists and differs. Nothing was written." in " ".join(output.split())
    assert file.read_text(encoding="utf-8") == "mine: true\n"

    assert _init(file, "-e", "init_overwrite=true")[0] == 0
    assert yaml.safe_load(file.read_text(encoding="utf-8"))["name"] == "training"
    assert [backup.read_text(encoding="utf-8") for backup in tmp_path.glob("cluster.yml.*")] == ["mine: true\n"]


@pytest.mark.parametrize("answers", [{"init_vm_size": "DGX_H10"}, {"init_nodes": ""}])
def test_init_refuses_a_wrong_answer(answers: dict[str, str], tmp_path: Path) -> None:
    code, output = _init(tmp_path / "cluster.yml", **answers)

    assert code != 0
    assert "Wrong answers. No file was written." in output
    assert not list(tmp_path.iterdir())


def test_a_wrong_file_ends_the_run_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yml"
    _init(file)
    file.write_text(
        file.read_text(encoding="utf-8").replace("vm_size: DGX_H100", "vm_sizes: DGX_H100"), encoding="utf-8"
    )
    line = file.read_text(encoding="utf-8").splitlines().index("vm_sizes: DGX_H100") + 1

    code, output = _run("ansible-playbook", "-i", str(file), "playbooks/check_input.yml")

    assert code != 0
    assert f"{file}:{line}: vm_sizes: found an unknown key; allowed: plugin, name, " in output
    assert "did you mean vm_size?" in output
