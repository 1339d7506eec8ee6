# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the role base has the kernel take its settings, with a stand-in for sysctl."""

from __future__ import annotations

import os
import subprocess
import typing as t
from pathlib import Path

import pytest
from ansible.module_utils.common.yaml import yaml_load
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar

VARS = Path(__file__).parents[3] / "roles/base/vars/main.yml"
ROLE = VARS.parents[1]
# The kernel's settings are files; a load writes one of them.
SYSCTL = """#!/bin/sh
cd "$KERNEL" || exit
case $1 in
  --ignore) shift; for name; do [ ! -e "$name" ] || echo "$name = $(cat "$name")"; done ;;
  --quiet) [ "$3" = /etc/sysctl.d/90-gpucluster.conf ] && echo 10 > vm.swappiness ;;
esac
"""


def _load(tmp_path: Path) -> str:
    tool = tmp_path / "tools/sysctl"
    tool.parent.mkdir(exist_ok=True)
    tool.write_text(SYSCTL, encoding="utf-8")
    tool.chmod(0o755)
    script = (ROLE / "files/load_settings.sh").read_text(encoding="utf-8")
    environment = {**os.environ, "PATH": f"{tool.parent}:{os.environ['PATH']}", "KERNEL": str(tmp_path / "kernel")}
    return subprocess.run(
        ["sh", "-c", script, "sh", "net.unknown", "vm.swappiness"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def test_settings_are_loaded_whoever_has_changed_them_and_a_second_time_changes_nothing(tmp_path: Path) -> None:
    kernel = tmp_path / "kernel"
    kernel.mkdir()
    (kernel / "vm.swappiness").write_text("60\n", encoding="utf-8")

    assert _load(tmp_path) == "vm.swappiness = 10\n"
    assert _load(tmp_path) == ""


@pytest.mark.parametrize(
    ("servers", "expected"),
    [
        ([], {"content": "\n", "state": "absent"}),
        (["time1", "10.0.0.1"], {"content": "server time1 iburst\nserver 10.0.0.1 iburst\n", "state": "present"}),
    ],
)
@pytest.mark.parametrize("check_mode", [False, True])
def test_the_file_of_time_servers_follows_the_list_also_in_check_mode(
    servers: list[str], expected: dict[str, str], check_mode: bool
) -> None:
    loader = DataLoader()
    tasks = loader.load_from_file(str(VARS.parents[1] / "tasks/time.yml"), trusted_as_template=True)
    variables: dict[str, t.Any] = {"base_time_servers": servers, "base_time_service": "chrony"}
    templar = Templar(
        loader=loader, variables={**variables, "ansible_check_mode": check_mode, "__base_time_file": "/x"}
    )
    (file,) = templar.template(tasks[0]["hpcai.gpucluster.file_set"]["files"])

    assert templar.evaluate_conditional(tasks[0]["when"])
    assert {name: file[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("program", "method", "user", "lacks"),
    [
        ("sh -c", "sudo", "ops", False),
        ("no-such-sudo", "sudo", "ops", True),
        ("no-such-sudo", "sudo", "root", False),
        ("no-such-sudo", "doas", "ops", False),
    ],
)
def test_a_machine_without_systemd_or_sudo_is_named(program: str, method: str, user: str, lacks: bool) -> None:
    script = ROLE / "files/lacks.sh"
    said = subprocess.run(["sh", script, program, method, user], capture_output=True, text=True, check=False)
    systemd = [] if Path("/run/systemd/system").exists() else ["systemd"]

    assert said.stdout.split() == systemd + ([program] if lacks else [])


def test_such_a_machine_is_refused_before_the_first_task_that_becomes_root() -> None:
    tasks = yaml_load((ROLE / "tasks/main.yml").read_text(encoding="utf-8"))

    assert tasks[0]["become"] is False
    assert tasks[1]["ansible.builtin.assert"]["that"] == "__base_look.stdout | length == 0"
    assert "become" not in tasks[1]
