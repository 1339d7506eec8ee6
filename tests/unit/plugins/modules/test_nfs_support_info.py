# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module nfs_support_info with a modprobe of its own."""

from __future__ import annotations

import os
import typing as t

import pytest
from ansible.module_utils.common.yaml import yaml_load

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host
from ansible_collections.hpcai.gpucluster.plugins.modules import nfs_support_info
from ansible_collections.hpcai.gpucluster.tests.unit.support.run_module import RunModule, program

if t.TYPE_CHECKING:
    from pathlib import Path

MISSING = "echo 'modprobe: FATAL: Module lustre not found' >&2; exit 1"


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> t.Callable[[str, str], None]:
    """Return a function that sets the file systems of the kernel, and what modprobe does."""

    def have(file_systems: str, modprobe: str) -> None:
        program(tmp_path, "modprobe", modprobe)
        monkeypatch.setattr(Host, "read", lambda _host, path: file_systems if path == "/proc/filesystems" else "")
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    return have


def test_a_file_system_of_the_kernel_needs_no_module(
    kernel: t.Callable[[str, str], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel("nodev\tnfs\nnodev\tnfs4\n", MISSING)
    found = RunModule(capsys)(nfs_support_info.main)

    assert (found["changed"], found["supported"], found["reason"]) == (False, True, "")
    assert found["cpus"] >= 1
    assert set(yaml_load(nfs_support_info.RETURN)) <= set(found)
    assert not (tmp_path / "calls").exists()


@pytest.mark.parametrize("check_mode", [False, True])
def test_a_module_is_looked_for_and_not_loaded(
    kernel: t.Callable[[str, str], None], tmp_path: Path, capsys: pytest.CaptureFixture[str], check_mode: bool
) -> None:
    kernel("nodev\tnfs\n", "exit 0")

    assert RunModule(capsys)(nfs_support_info.main, check_mode, kind="nfsd")["supported"] is True
    assert (tmp_path / "calls").read_text() == "modprobe --dry-run nfsd\n"


def test_a_kernel_without_it_fails_the_task(
    kernel: t.Callable[[str, str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    kernel("ext4\n", MISSING)
    found = RunModule(capsys)(nfs_support_info.main, kind="lustre")

    assert found["failed"]
    assert found["msg"].startswith("the kernel of this machine cannot mount Lustre")
    assert found["msg"].endswith("modprobe: FATAL: Module lustre not found")


def test_a_kernel_without_it_is_a_warning_where_it_is_not_required(
    kernel: t.Callable[[str, str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    kernel("ext4\n", MISSING)
    found = RunModule(capsys)(nfs_support_info.main, kind="lustre", required="no")

    assert (found["supported"], "failed" in found) == (False, False)
    assert found["reason"] in str(found["warnings"])


@pytest.mark.parametrize(("options", "named"), [({"kind": "smb"}, "kind"), ({"required": "maybe"}, "required")])
def test_a_wrong_option_is_refused(
    kernel: t.Callable[[str, str], None], capsys: pytest.CaptureFixture[str], options: dict[str, t.Any], named: str
) -> None:
    kernel("nodev\tnfs\n", "exit 0")
    found = RunModule(capsys)(nfs_support_info.main, **options)

    assert found["failed"]
    assert named in found["msg"]
