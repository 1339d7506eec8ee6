# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What runs for which words, and what the last screen says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ansible_collections.hpcai.gpucluster.tests.unit.support.ci_program import ci_program

ROOT = Path(__file__).parents[3]
suite, parts, lanes, proofs = (ci_program(name) for name in ("suite", "parts", "lanes", "proofs"))
TEST = [lanes.Part(name, list) for name in ("site", "unit", "style", "sanity")]
REST = [lanes.Part(name, list, applies=name) for name in ("nfs", "login", "ha", "new")]
KNOWN = {
    "nfs": proofs.Proof("old", "2026-11-01", 900),
    "login": proofs.Proof("old", "2026-11-01", 100),
    "ha": proofs.Proof("now", "2026-11-01", 200),
}


def names(words: list[str]) -> tuple[list[str], list[str], list[str]]:
    plan = suite.plan(words, TEST, REST, KNOWN, lambda _scenario: "now")
    return [part.name for part in plan.test], [part.name for part in plan.rest], plan.proved


@pytest.mark.parametrize(
    ("words", "test", "rest", "proved"),
    [
        ([], ["site", "unit", "style", "sanity"], ["login", "nfs", "new"], ["ha"]),
        (["all"], ["site", "unit", "style", "sanity"], ["new", "nfs", "login"], ["ha"]),
        (["test"], ["site", "unit", "style", "sanity"], [], []),
        (["lint"], ["style", "sanity"], [], []),
        (["ha", "unit", "ha"], ["ha", "unit"], [], []),
    ],
)
def test_the_words_choose_the_parts(words: list[str], test: list[str], rest: list[str], proved: list[str]) -> None:
    assert names(words) == (test, rest, proved)


def test_a_part_that_nobody_knows_is_refused() -> None:
    with pytest.raises(KeyError, match="unti"):
        names(["unti"])


def test_the_last_screen_says_what_passed_failed_did_not_run_and_was_flaky(tmp_path: Path) -> None:
    (tmp_path / "unit.log").write_text("\n== python3 -m pytest tests/unit (9 s)\nFAILED a.py::b - x\n", "utf-8")
    results = [
        lanes.Result("site", 500),
        lanes.Result("unit", 9, failed=True),
        lanes.Result("nfs", 70, flaky="failed: scenario nfs, step verify; disk"),
    ]

    assert list(suite.summary(results, {"no mirror": ["upstream", "x"], "stopped": []}, tmp_path, 600)) == [
        f"\n== unit failed; its output is in {tmp_path / 'unit.log'}",
        "failed: python3 -m pytest tests/unit",
        "    FAILED a.py::b - x",
        "\n== 600 s. Passed, each with its seconds: site 500, nfs 70",
        "not run: upstream, x (no mirror)",
        "flaky: nfs: failed: scenario nfs, step verify; disk",
        "failed: unit",
        "2 passed, 1 failed",
    ]


def test_every_scenario_is_a_part_and_only_scenarios_are_repeated(tmp_path: Path) -> None:
    stage = tmp_path / "ansible_collections/hpcai/gpucluster"
    folders = {path.parent.name for path in ROOT.glob("molecule/*/molecule.yml")} - {"default"}
    found = parts.scenarios(ROOT, tmp_path)

    assert {part.name for part in found} == folders
    assert all(part.repeat and part.applies == part.name for part in found)
    assert not any(part.repeat for part in parts.gates(stage))


def test_each_lane_has_machines_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GPUCLUSTER_LAB", "7")
    part = next(part for part in parts.scenarios(ROOT, tmp_path) if part.name == "munge")

    assert [part.commands(lane)[0].environment["GPUCLUSTER_LAB"] for lane in range(lanes.LANES)] == ["7", "8"]


def test_the_gate_runs_the_unit_tests_without_chance(tmp_path: Path) -> None:
    commands = [command for part in parts.gates(tmp_path / "a/b/c") for command in part.commands(0)]

    assert [
        word for command in commands if "tests/unit" in command.words for word in command.words if "hypothesis" in word
    ] == ["--hypothesis-profile=gate"]


def test_the_other_releases_of_ansible_run_unit_tests_integration_tests_and_the_lab(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(parts, "newer_python", lambda: "/usr/bin/python3.13")
    found = {
        part.name: [" ".join(command.words) for command in part.commands(1)]
        for part in parts.cores(tmp_path / "a/b/c", tmp_path)
    }
    release, newest = parts.CORES

    assert set(found) == {name for core in parts.CORES for name in (f"core-{core}", f"core-{core}-lab")}
    assert found[f"core-{release}"][0].startswith(".ci/core.sh /usr/bin/python3.13 ansible==")
    assert found[f"core-{release}"][2].endswith(" tests/integration")
    # What does not import Ansible runs once with their Python.
    of_ansible = "tests/unit/playbooks tests/unit/plugins tests/unit/roles"
    assert found[f"core-{release}"][1].endswith(f" {of_ansible} --ignore=tests/unit/plugins/module_utils")
    assert found[f"core-{newest}"][1].endswith(f" {of_ansible}")
    assert found[f"core-{release}-lab"][1] == "molecule test -s cores"


def test_the_other_releases_have_each_tool_that_a_test_starts() -> None:
    left_out = re.findall(r"[a-z]+-[a-z]+", re.findall(r"/\^\((.*)\)/d", (ROOT / ".ci/core.sh").read_text("utf-8"))[0])
    text = "".join(path.read_text("utf-8") for path in ROOT.glob("tests/*/**/test_*.py"))

    assert left_out
    assert not [f"take {tool} out of the list in .ci/core.sh" for tool in left_out if tool.replace("-", "_") in text]


def test_without_a_newer_python_the_other_releases_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(parts, "newer_python", lambda: "")
    _test, rest, missing = suite.every_part(tmp_path / "a/b/c", tmp_path)

    assert missing["no Python 3.12 or newer"] == ["core-2.20", "core-2.21"]
    assert not [part for part in rest if part.name.startswith("core")]


def test_what_logs_say_is_grouped_by_its_reason(tmp_path: Path) -> None:
    line = "SKIPPED [1] tests/a.py:1: not run: {} ({})\n"
    (tmp_path / "unit.log").write_text(
        line.format("a page", "no Chromium; see X") + line.format("b", "no mirror"), "utf-8"
    )
    (tmp_path / "integration.log").write_text(line.format("c", "no mirror"), "utf-8")

    assert suite._said(tmp_path) == {"no mirror": ["c", "b"], "no Chromium; see X": ["a page"]}


def test_the_verbs_of_make_are_those_of_the_runner() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")

    assert "\t.ci/run test\n" in text
    assert "\t.ci/run $(or $(PARTS),all)\n" in text
