# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of the control node are copied only where they differ, and before the files that use them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import typing as t
from pathlib import Path

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._programs.copied import merged
from ansible_collections.hpcai.gpucluster.tests.patience import PATIENCE

BINARY = bytes(range(256))
FAULTS = ("content", "mode", "link", "missing", "none")


class Place:
    """A program that is copied, and a setting that is written, in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.program, self.setting = folder / "bin/program", folder / "etc/setting"
        self.program.parent.mkdir(parents=True)

    def task(self, name: str, source: Path, **more: t.Any) -> dict[str, t.Any]:
        """Return a task of file_set."""
        copied = {"path": str(self.program), "src": str(source), "mode": "0750", **more}
        files = [{"path": str(self.setting), "content": "x\n"}, copied]
        return _task(name, files=files)

    def installed(self) -> bool:
        return (
            not self.program.is_symlink()
            and self.program.read_bytes() == BINARY
            and oct(self.program.stat().st_mode & 0o7777) == "0o750"
            and self.setting.read_text(encoding="utf-8") == "x\n"
        )


def _task(name: str, **options: t.Any) -> dict[str, t.Any]:
    me = {"owner": str(os.getuid()), "group": str(os.getgid())}
    return {"name": name, "hpcai.gpucluster.file_set": {**me, **options}, "ignore_errors": True}


def _run(folder: Path, *tasks: dict[str, t.Any], options: t.Sequence[str] = ()) -> dict[str, tuple[str, str]]:
    """Run tasks on this machine; return for each ok, changed or fatal, and what it says."""
    play = {"hosts": "localhost", "gather_facts": False, "tasks": tasks}
    (folder / "play.json").write_text(json.dumps([play]), encoding="utf-8")
    program, interpreter = (
        Path(sys.executable).parent / "ansible-playbook",
        f"ansible_python_interpreter={sys.executable}",
    )
    done = subprocess.run(
        [str(program), "-i", "localhost,", "-c", "local", "-e", interpreter, *options, "play.json"],
        cwd=folder,
        env={**os.environ, "ANSIBLE_NOCOLOR": "1"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    found = re.findall(r"^TASK \[(.*?)\].*?^(ok|changed|fatal): (.*?)(?=^TASK|^PLAY RECAP)", done.stdout, re.M | re.S)
    assert len(found) == len(tasks), done.stdout + done.stderr
    return {name: (status, said + done.stderr) for name, status, said in found}


def _source(folder: Path) -> Path:
    (folder / "source").write_bytes(BINARY)
    return folder / "source"


def test_a_binary_file_is_copied_once_with_its_mode(tmp_path: Path) -> None:
    source, place, other = _source(tmp_path), Place(tmp_path / "a"), Place(tmp_path / "b")
    old = tmp_path / "old"
    old.write_text("x", encoding="utf-8")
    copy_and_remove = {"files": [{"path": str(other.program), "src": str(source)}], "absent": [str(old)]}

    found = _run(
        tmp_path,
        place.task("first", source),
        place.task("second", source),
        _task("remove", **copy_and_remove),
        _task("remove again", **copy_and_remove),
    )

    expected = {"first": "changed", "second": "ok", "remove": "changed", "remove again": "ok"}
    assert {name: status for name, (status, _said) in found.items()} == expected
    assert place.installed()
    assert other.program.exists()
    assert not old.exists()


def test_what_differs_is_copied_again(tmp_path: Path) -> None:
    source = _source(tmp_path)
    places = {fault: Place(tmp_path / fault) for fault in FAULTS}
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(b"of somebody else")
    for fault, place in places.items():
        place.setting.parent.mkdir()
        place.setting.write_text("x\n", encoding="utf-8")
        place.setting.chmod(0o644)
        if fault == "link":
            place.program.symlink_to(elsewhere)
        elif fault != "missing":
            place.program.write_bytes(BINARY + b"x" * (fault == "content"))
            place.program.chmod(0o777 if fault == "mode" else 0o750)

    found = _run(tmp_path, *(place.task(fault, source) for fault, place in places.items()))

    expected = {fault: "ok" if fault == "none" else "changed" for fault in FAULTS}
    assert {name: status for name, (status, _said) in found.items()} == expected
    assert [fault for fault, place in places.items() if not place.installed()] == []
    assert elsewhere.read_bytes() == b"of somebody else"


def test_check_mode_names_the_change_and_writes_nothing(tmp_path: Path) -> None:
    place = Place(tmp_path / "a")

    assert _run(tmp_path, place.task("check", _source(tmp_path)), options=["--check"])["check"][0] == "changed"
    assert not place.program.exists()
    assert not place.setting.exists()


def test_what_cannot_be_copied_leaves_the_files_that_use_it(tmp_path: Path) -> None:
    source, lost, refused = _source(tmp_path), Place(tmp_path / "a"), Place(tmp_path / "b")
    lost.program.parent.rmdir()

    found = _run(tmp_path, lost.task("no folder", source), refused.task("other options", source, content="text"))

    assert {name: status for name, (status, _said) in found.items()} == {"no folder": "fatal", "other options": "fatal"}
    assert "does not exist" in found["no folder"][1]
    assert "no other options" in found["other options"][1]
    assert not lost.setting.exists()
    assert not refused.program.exists()


def test_a_failure_of_its_files_fails_the_task() -> None:
    result = merged({"changed": True, "diff": {"after": "y"}}, {"failed": True, "msg": "full"})

    assert result == {"failed": True, "msg": "full", "changed": True, "diff": [{"after": "y"}]}
