# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of the control node are copied only where they differ, and before the files that use them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._programs.copied import merged
from ansible_collections.hpcai.gpucluster.tests.patience import PATIENCE

BINARY = bytes(range(256))


class Site:
    """A playbook with one task of file_set, on this machine."""

    def __init__(self, directory: Path) -> None:
        self.source, self.program, self.setting = (
            directory / name for name in ("source", "bin/program", "etc/setting")
        )
        self.source.write_bytes(BINARY)
        self.program.parent.mkdir()
        self.directory = directory
        self.options: dict[str, t.Any] = {}

    def run(self, *options: str, **more: t.Any) -> tuple[int, str]:
        """Return the exit status of a run and what it says."""
        copied = {"path": str(self.program), "src": str(self.source), "mode": "0750", **more}
        files = [{"path": str(self.setting), "content": "x\n"}, copied]
        me = {"owner": str(os.getuid()), "group": str(os.getgid())}
        play = {
            "hosts": "localhost",
            "gather_facts": False,
            "tasks": [{"hpcai.gpucluster.file_set": {"files": files, **me, **self.options}}],
        }
        (self.directory / "play.json").write_text(json.dumps([play]), encoding="utf-8")
        command = [
            str(Path(sys.executable).parent / "ansible-playbook"),
            "-i",
            "localhost,",
            "-c",
            "local",
            "-e",
            f"ansible_python_interpreter={sys.executable}",
        ]
        environment = {**os.environ, "ANSIBLE_NOCOLOR": "1"}
        done = subprocess.run(
            [*command, *options, "play.json"],
            cwd=self.directory,
            env=environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_a_binary_file_is_copied_once_with_its_mode(site: Site) -> None:
    first, second = site.run()[1], site.run()[1]

    assert "changed=1 " in first
    assert "changed=0 " in second
    assert site.program.read_bytes() == BINARY
    assert oct(site.program.stat().st_mode & 0o7777) == "0o750"
    assert site.setting.read_text(encoding="utf-8") == "x\n"


def test_what_must_not_exist_goes_where_a_file_is_copied(site: Site) -> None:
    old = site.directory / "old"
    old.write_text("x", encoding="utf-8")
    site.options = {"files": [{"path": str(site.program), "src": str(site.source)}], "absent": [str(old)]}

    assert "changed=1 " in site.run()[1]
    assert site.program.exists()
    assert not old.exists()
    assert "changed=0 " in site.run()[1]


@pytest.mark.parametrize("fault", ["content", "mode", "link", "missing"])
def test_what_differs_is_copied_again(site: Site, fault: str) -> None:
    site.run()
    if fault == "content":
        site.program.write_bytes(BINARY + b"x")
    elif fault == "mode":
        site.program.chmod(0o777)
    else:
        site.program.unlink()
    if fault == "link":
        elsewhere = site.directory / "elsewhere"
        elsewhere.write_bytes(b"of somebody else")
        site.program.symlink_to(elsewhere)

    assert "changed=1 " in site.run()[1]
    assert site.program.read_bytes() == BINARY
    assert oct(site.program.stat().st_mode & 0o7777) == "0o750"


def test_check_mode_names_the_change_and_writes_nothing(site: Site) -> None:
    assert "changed=1 " in site.run("--check")[1]
    assert not site.program.exists()
    assert not site.setting.exists()


def test_a_copy_that_fails_leaves_the_files_that_use_it(site: Site) -> None:
    site.program.parent.rmdir()
    status, said = site.run()

    assert status
    assert "does not exist" in said
    assert not site.setting.exists()


def test_other_options_of_a_copy_are_refused(site: Site) -> None:
    status, said = site.run(content="text")

    assert status
    assert "no other options" in said
    assert not site.program.exists()


def test_a_failure_of_its_files_fails_the_task() -> None:
    result = merged({"changed": True, "diff": {"after": "y"}}, {"failed": True, "msg": "full"})

    assert result == {"failed": True, "msg": "full", "changed": True, "diff": [{"after": "y"}]}
