# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is remembered between runs, and when a bad sample counts."""

from __future__ import annotations

import json
import typing as t

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.hpcai.gpucluster.plugins.module_utils._health import counters
from ansible_collections.hpcai.gpucluster.plugins.module_utils._health.memory import Memory, settle
from ansible_collections.hpcai.gpucluster.plugins.module_utils._health.verdict import healthy, unhealthy, unknown

if t.TYPE_CHECKING:
    from pathlib import Path

BAD, GOOD, SILENT = unhealthy(8, 7), healthy("fine"), unknown("no answer")


def samples(findings: list[t.Any], params: dict[str, t.Any], step: float = 60) -> list[str]:
    before: dict[str, t.Any] = {}
    said = []
    for number, finding in enumerate(findings):
        status, _reason, before = settle(finding, before, params, 1000 + number * step)
        said.append(status)
    return said


@pytest.mark.parametrize(
    ("findings", "limit", "said"),
    [
        ([BAD], 1, ["unhealthy"]),
        ([BAD, BAD, BAD], 3, ["suspect", "suspect", "unhealthy"]),
        ([BAD, GOOD, BAD, BAD], 2, ["suspect", "healthy", "suspect", "unhealthy"]),
        # A silent tool neither clears nor proves a bad sample.
        ([BAD, SILENT, BAD], 2, ["suspect", "unknown", "suspect"]),
        ([SILENT, SILENT, SILENT], 9, ["unknown", "unknown", "unhealthy"]),
        ([BAD, BAD, BAD, BAD, GOOD], 2, ["suspect", "unhealthy", "unhealthy", "unhealthy", "healthy"]),
    ],
)
def test_bad_samples_count_in_a_row(findings: list[t.Any], limit: int, said: list[str]) -> None:
    assert samples(findings, {"samples": limit, "unknown_samples": 3}) == said


def test_two_runs_at_once_are_one_sample() -> None:
    assert samples([BAD, BAD, BAD], {"samples": 2, "gap_seconds": 5}, step=0.5) == ["suspect"] * 3


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=20))
def test_time_that_jumps_never_makes_a_verdict_out_of_one_sample(times: list[float]) -> None:
    before: dict[str, t.Any] = {}
    status, _reason, before = settle(BAD, before, {"samples": 2}, times[0])
    assert status == "suspect"
    for time in times[1:]:
        status, _reason, before = settle(BAD, before, {"samples": 10_000}, time)
        assert status == "suspect"


@pytest.mark.parametrize(
    "before", [{}, {"row": 3}, {"row": {"kind": "unhealthy"}}, {"row": {"kind": "x", "count": 9, "time": 0}}]
)
def test_a_damaged_memory_is_no_memory(before: dict[str, t.Any]) -> None:
    assert settle(BAD, before, {"samples": 2}, 50)[0] == "suspect"


def test_what_was_kept_is_there_at_the_next_run_of_this_boot_only(tmp_path: Path) -> None:
    first = Memory(str(tmp_path), "boot-1")
    first.load()
    first.checks["memory"] = {"keep": 7}
    first.save()
    first.close()
    same, other = Memory(str(tmp_path), "boot-1"), Memory(str(tmp_path), "boot-2")
    same.load()
    same.close()
    other.load()

    assert same.checks == {"memory": {"keep": 7}}
    assert other.checks == {}


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"boot_id": "b"}', '{"boot_id": "b", "checks": [1], "mark": 2}', "\x00"]
)
def test_a_damaged_file_is_as_good_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "state.json").write_text(text)
    memory = Memory(str(tmp_path), "b")
    memory.load()

    assert memory.checks == {}
    memory.checks["x"] = {}
    memory.save()
    assert json.loads((tmp_path / "state.json").read_text())["checks"] == {"x": {}}


def test_a_second_program_waits_and_then_remembers_nothing(tmp_path: Path) -> None:
    first, second = Memory(str(tmp_path), "b"), Memory(str(tmp_path), "b")
    first.load()
    first.checks["memory"] = {"keep": 1}
    first.save()
    second.load(wait=0.1)
    second.checks["memory"] = {"keep": 2}
    second.save()
    first.close()
    third = Memory(str(tmp_path), "b")
    third.load(wait=0.1)

    assert "holds the lock" in second.trouble
    # Who can read a file can lock it.
    assert [path.stat().st_mode & 0o777 for path in tmp_path.rglob("lock")] == [0o600]
    assert third.checks == {"memory": {"keep": 1}}
    assert not third.trouble


@pytest.mark.parametrize("marked", [{"clean": False}, {}])  # {}: scontrol gave no answer, and may have drained the node
@pytest.mark.parametrize("later", [False, True])
def test_a_drain_that_could_not_be_remembered_is_looked_at_by_the_next_run(
    tmp_path: Path, marked: dict[str, t.Any], later: bool
) -> None:
    """Else a node that is well again asks Slurm only in one run out of twelve, and stays drained that long."""
    first, second, third, fourth = (Memory(str(tmp_path), "b") for _number in range(4))
    first.load()
    first.mark = {"clean": True, "quiet": 3}
    second.load(wait=0.1)
    second.mark = dict(marked)
    for one in (second, first) if later else (first, second):
        one.save()
    first.close()

    third.load(wait=0.1)
    assert third.mark["clean"] is False
    third.mark["clean"] = True
    third.save()
    third.close()
    fourth.load(wait=0.1)
    assert fourth.mark["clean"] is True


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    memory = Memory(str(tmp_path / "file/folder"), "b")
    memory.load()
    memory.save()

    assert "Not a directory" in memory.trouble


def test_a_full_disk_is_said() -> None:
    memory = Memory("/dev/full", "b")
    memory.load(wait=0.1)

    assert memory.trouble


WINDOW = 3600.0


def count(values: list[int | None], step: float = 300, limit: float = 2) -> list[str]:
    kept: dict[str, t.Any] = {}
    said = []
    for number, value in enumerate(values):
        found = {} if value is None else {"port": value}
        finding = counters.judge(found, {"port": limit}, WINDOW, kept, 1e4 + number * step)
        kept = finding.keep
        said.append(finding.status)
    return said


@pytest.mark.parametrize(
    ("values", "last"),
    [
        ([0, 0, 0], "healthy"),
        ([90, 90, 90], "healthy"),  # errors of long ago
        ([90, 92], "healthy"),
        ([90, 93], "unhealthy"),
        ([0, 1, 2, 3], "unhealthy"),
        ([5, 0, 1, 2], "healthy"),  # went backwards: a reset
        ([5, 0, 3], "unhealthy"),
        ([7, None, 99], "healthy"),  # the port was away: starts anew
    ],
)
def test_counters_are_judged_by_growth(values: list[int | None], last: str) -> None:
    assert count(values)[-1] == last


def test_growth_is_forgotten_after_the_window() -> None:
    assert count([0, 3, 3], step=3000) == ["healthy", "unhealthy", "unhealthy"]
    assert count([0, 3, 3], step=3700) == ["healthy", "unhealthy", "healthy"]


JSON = st.recursive(
    st.none() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner),
)


@given(JSON)
def test_any_memory_of_a_counter_is_survived(kept: t.Any) -> None:
    finding = counters.judge({"port": 5}, {"port": 2}, WINDOW, {"port": kept, "last": kept}, 1e4)

    assert finding.status == "healthy"


def test_a_counter_that_stands_still_takes_no_place_in_the_memory() -> None:
    kept = counters.judge({"port": 5}, {"port": 2}, WINDOW, {}, 1e4).keep
    kept = counters.judge({"port": 5}, {"port": 2}, WINDOW, kept, 1e4 + 300).keep

    assert kept == {"port": {"last": 5, "events": []}}


def test_the_window_is_told_in_hours() -> None:
    assert counters.judge({"port": 5}, {"port": 2}, 7200, {}, 1e4).reason.endswith("in 2 h")
