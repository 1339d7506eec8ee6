# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module slurm_config_info with a directory in the place of /etc/slurm, and Slurm commands of its own."""

from __future__ import annotations

import os
import typing as t

import pytest
from ansible.module_utils.common.yaml import yaml_load

from ansible_collections.hpcai.gpucluster.plugins.module_utils._slurm import config_state
from ansible_collections.hpcai.gpucluster.plugins.modules import slurm_config_info
from ansible_collections.hpcai.gpucluster.tests.unit.support.run_module import RunModule, program

if t.TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def controller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the directory of the configuration; commands are beside it."""
    directory = tmp_path / "slurm"
    directory.mkdir()
    (tmp_path / "bin").mkdir()
    monkeypatch.setattr(config_state, "DIRECTORY", str(directory))
    monkeypatch.setattr(config_state, "PENDING", str(directory / ".gpucluster-pending"))
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    (directory / "slurm.conf").write_text("ClusterName=lab\n", encoding="utf-8")
    program(tmp_path / "bin", "scontrol", "echo 'NodeName=gpu1 SlurmdStartTime=2026-11-22T08:00:00'")
    program(tmp_path / "bin", "squeue", "echo 17")
    program(tmp_path / "bin", "systemd-run", "echo cpu memory")
    return directory


def test_the_default_is_slurm_conf_and_no_command_runs(controller: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = RunModule(capsys)(slurm_config_info.main)

    assert found["files"]["slurm.conf"]["content"] == "ClusterName=lab\n"
    assert (found["changed"], found["pending"], found["delegated"], found["at_risk"]) == (False, [], None, None)
    assert set(yaml_load(slurm_config_info.RETURN)) <= set(found)
    assert not (controller.parent / "bin/calls").exists()


def test_owner_and_mode_are_compared(controller: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (controller / "gres.conf").write_text("", encoding="utf-8")
    (controller / "gres.conf").chmod(0o600)
    (controller / "slurm.conf").chmod(0o644)
    found = RunModule(capsys)(slurm_config_info.main, files=["slurm.conf", "gres.conf", "missing.conf"])["files"]

    assert {name: file["right"] for name, file in found.items()} == {
        "slurm.conf": os.getuid() == 0 == os.getgid(),
        "gres.conf": False,
    }


def test_control_groups_and_risks_are_read_on_request(controller: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = RunModule(capsys)(slurm_config_info.main, True, files=[], delegated=True, jobs="yes")

    assert (found["files"], found["delegated"], found["at_risk"]) == ({}, ["cpu", "memory"], ["gpu1", "17"])
    calls = (controller.parent / "bin/calls").read_text()
    assert "scontrol --oneliner show nodes" in calls


def test_what_an_interrupted_run_noted_is_returned(controller: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (controller / ".gpucluster-pending").write_text('[{"action": "restart"}]', encoding="utf-8")

    assert RunModule(capsys)(slurm_config_info.main)["pending"] == [{"action": "restart"}]


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (lambda directory: (directory / ".gpucluster-pending").write_text("{"), "run 'scontrol reconfigure'"),
        (lambda directory: (directory / "slurm.conf").unlink() or (directory / "slurm.conf").mkdir(), "Is a directory"),
        (lambda directory: program(directory.parent / "bin", "systemd-run", "echo no bus >&2; exit 1"), "1: no bus"),
    ],
    ids=["note", "file", "systemd"],
)
def test_what_cannot_be_read_is_named(
    controller: Path, capsys: pytest.CaptureFixture[str], fault: t.Callable[[Path], t.Any], reason: str
) -> None:
    fault(controller)
    found = RunModule(capsys)(slurm_config_info.main, delegated=True)

    assert found["failed"]
    assert found["msg"].startswith("Slurm's configuration cannot be read: ")
    assert reason in found["msg"]
