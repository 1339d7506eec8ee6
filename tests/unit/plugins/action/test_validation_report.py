# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of a report and its verdict."""

from __future__ import annotations

import json
import types
import typing as t
from xml.etree import ElementTree

import pytest
from ansible.errors import AnsibleActionFail

from ansible_collections.hpcai.gpucluster.plugins.action.validation_report import ActionModule
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation.checks import check

if t.TYPE_CHECKING:
    from pathlib import Path

EVIL = "<script src=https://evil.example/x.js></script>"


def run(directory: Path, *, check_mode: bool = False, message: str = "", **changes: t.Any) -> dict[str, t.Any]:
    stage = {"stage": "nccl", "checks": [check("nccl.part", EVIL, "fail" if message else "pass", message, EVIL)]}
    arguments = {
        "results": [stage],
        "stages": ["nccl"],
        "run": "20261120T101500Z",
        "cluster": EVIL,
        "directory": str(directory),
        **changes,
    }
    task = types.SimpleNamespace(
        args=arguments, check_mode=check_mode, async_val=0, action="hpcai.gpucluster.validation_report", diff=False
    )
    connection = types.SimpleNamespace(_shell=types.SimpleNamespace(tmpdir=None))
    action = ActionModule(t.cast("t.Any", task), t.cast("t.Any", connection), *(t.cast("t.Any", None),) * 4)
    return action.run()


def test_the_report_is_written_in_three_forms_and_the_verdict_returned(tmp_path: Path) -> None:
    found = run(tmp_path / "new", message="slow")
    folder = tmp_path / "new" / "20261120T101500Z"

    assert (found["verdict"], found["changed"], found["page"]) == ("fail", True, str(folder / "report.html"))
    assert found["worst"] == [f"{EVIL}: {EVIL}: slow"]
    assert {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()} == dict.fromkeys(
        ("report.json", "junit.xml", "report.html"), 0o644
    )
    assert json.loads((folder / "report.json").read_text(encoding="utf-8"))["verdict"] == "fail"
    assert ElementTree.parse(folder / "junit.xml").getroot().get("name") == "gpucluster validation"
    assert "<script" not in (folder / "report.html").read_text(encoding="utf-8")


def test_nothing_is_written_in_check_mode(tmp_path: Path) -> None:
    assert run(tmp_path, check_mode=True)["verdict"] == "pass"
    assert not list(tmp_path.iterdir())


def test_a_run_is_compared_with_an_earlier_one(tmp_path: Path) -> None:
    before = run(tmp_path / "one")["page"].replace("report.html", "report.json")
    found = run(tmp_path / "two", message="slow", baseline=before)

    assert "1 regression since 20261120T101500Z" in found["summary"]


@pytest.mark.parametrize("text", [None, "no JSON", '{"format": 7}'])
def test_a_baseline_that_is_none_is_refused(tmp_path: Path, text: str | None) -> None:
    if text:
        (tmp_path / "report.json").write_text(text, encoding="utf-8")

    with pytest.raises(AnsibleActionFail, match=r"report\.json"):
        run(tmp_path / "new", baseline=str(tmp_path / "report.json"))


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")

    with pytest.raises(AnsibleActionFail, match="directory: the report cannot be written"):
        run(tmp_path / "file")


def test_nothing_measured_is_a_failure(tmp_path: Path) -> None:
    assert run(tmp_path, results=[])["verdict"] == "fail"


def test_an_unknown_stage_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AnsibleActionFail, match="unknown stage: fabric"):
        run(tmp_path, results=[{"stage": "fabric", "checks": []}])
