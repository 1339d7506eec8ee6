# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A task says what it did, does nothing in check mode, and fails with the whole result."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_scale import task
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_scale.scale_sets import ScaleError
from ansible_collections.hpcai.gpucluster.tests.unit.plugins.plugin_utils._azure_scale.test_scaler import (
    GROUP,
    QUOTA,
    FakeArm,
    machine,
)


def run(arm: FakeArm, check_mode: bool = False, **asked: t.Any) -> dict[str, t.Any]:
    return task.run(arm, task.Asked(GROUP, "hpc", "h100", **asked), lambda: 60.0, lambda _line: None, check_mode)


def test_check_mode_writes_nothing_and_foresees_the_change() -> None:
    arm = FakeArm({"hpc-h100": 2, "hpc-h100-2": 0})

    grown, shrunk = run(arm, True, machines=102), run(arm, True, remove=("hpc-h100000001",))

    assert arm.writes == []
    assert (grown["changed"], len(grown["added"])) == (True, 100)
    assert [one["capacity"] for one in grown["scale_sets"]] == [100, 2]
    assert "hpc-h100: capacity 2\n" in grown["diff"]["before"]
    assert "hpc-h100: capacity 100\n" in grown["diff"]["after"]
    assert shrunk["removed"] == ["hpc-h100000001"]
    assert shrunk["changed"]
    assert "hpc-h100: capacity 1\n" in shrunk["diff"]["after"]


@pytest.mark.parametrize("check_mode", [True, False])
def test_a_set_as_asked_is_not_changed(check_mode: bool) -> None:
    arm = FakeArm({"h100": 16})

    for asked in ({"machines": 16}, {"remove": ("gone",)}, {}):
        result = run(arm, check_mode, **asked)
        assert not result["changed"]
        assert result["diff"]["before"] == result["diff"]["after"]
    assert arm.writes == []


def test_a_task_that_only_reads_names_what_does_not_run_and_does_not_fail() -> None:
    arm = FakeArm({"h100": 1}, spot=True)
    arm.members["h100"][0] = machine("h100", 0, power="deallocated")

    assert "deallocated" in run(arm)["problems"][0]


def test_a_failure_has_the_whole_result() -> None:
    arm = FakeArm({"h100": 2})
    arm.faults = [QUOTA]

    with pytest.raises(task.ShortError, match=r"the set h100 has 2 of 16 machines. h100: .*Quota") as failed:
        run(arm, machines=16)
    assert len(failed.value.result["machines"]) == 2
    assert failed.value.result["problems"]


def test_a_lower_count_is_refused_because_azure_would_choose() -> None:
    arm = FakeArm({"h100": 16})

    with pytest.raises(ScaleError, match=r"has 16 machines, and count is 8. A set shrinks by the names"):
        run(arm, machines=8)
    assert arm.writes == []


@pytest.mark.parametrize(("count", "remove", "limit"), [(1, ["a"], 0), (-1, [], 0), (1, [], -1)])
def test_options_that_contradict_are_refused(count: int, remove: list[str], limit: int) -> None:
    with pytest.raises(ScaleError):
        task.check(count, remove, limit)
