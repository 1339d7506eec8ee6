# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The task azure_scale_set by its documented options, on scale sets in memory."""

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleError
from ansible.module_utils.common.yaml import yaml_load
from ansible.parsing.dataloader import DataLoader

from ansible_collections.hpcai.gpucluster.plugins.action import azure_scale_set
from ansible_collections.hpcai.gpucluster.plugins.modules import azure_scale_set as module
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_stack import session
from ansible_collections.hpcai.gpucluster.tests.unit.plugins.plugin_utils._azure_scale.test_scaler import QUOTA, FakeArm

GIVEN = {"resource_group": "rg", "cluster": "hpc", "set": "h100", "subscription_id": "s"}


class Counter(t.NamedTuple):
    """The number of requests of a session."""

    value: int


class Task:
    """What the action reads of a task."""

    async_val = 0

    def __init__(self, args: dict[str, t.Any], check_mode: bool) -> None:
        self.args, self.check_mode = args, check_mode


@pytest.fixture
def arm(monkeypatch: pytest.MonkeyPatch) -> FakeArm:
    """Return scale sets with two machines, to which each session connects."""
    found = FakeArm({"h100": 2})

    def run(_arguments: t.Any, work: t.Callable[[session.Session], t.Any], _tell: t.Any) -> t.Any:
        nothing: t.Any = None
        return work(session.Session(nothing, t.cast("t.Any", found), "s", Counter(3)))

    monkeypatch.setattr(session, "run", run)
    return found


def scaled(check_mode: bool = False, **args: t.Any) -> dict[str, t.Any]:
    nothing: t.Any = None
    task = t.cast("t.Any", Task({**GIVEN, **args}, check_mode))
    action = azure_scale_set.ActionModule(task, nothing, nothing, DataLoader(), nothing, nothing)
    action._connection = t.cast("t.Any", type("Connection", (), {"_shell": type("Shell", (), {"tmpdir": None})})())
    return action.run(None, {})


def test_a_task_without_count_only_reads_and_returns_what_is_documented(arm: FakeArm) -> None:
    found = scaled()

    assert set(yaml_load(module.RETURN)) <= set(found)
    assert (found["changed"], len(found["machines"]), found["requests"]) == (False, 2, 3)
    assert arm.writes == []


def test_a_set_grows_once(arm: FakeArm) -> None:
    foreseen = scaled(check_mode=True, count="4")
    assert arm.writes == []
    first, second = scaled(count="4"), scaled(count=4)

    assert [one["changed"] for one in (foreseen, first, second)] == [True, True, False]
    assert (len(foreseen["added"]), len(first["added"])) == (2, 2)
    assert arm.writes == [("PATCH", "h100", 4)]


def test_named_nodes_are_removed(arm: FakeArm) -> None:
    assert scaled(remove=["H100000001"])["removed"] == ["h100000001"]
    assert arm.capacity == {"h100": 1}


def test_a_set_that_is_short_fails_with_the_result(arm: FakeArm) -> None:
    arm.faults = [QUOTA]
    found = scaled(count=4)

    assert found["failed"]
    assert "the set h100 has 2 of 4 machines" in found["msg"]
    assert len(found["machines"]) == 2


@pytest.mark.parametrize(
    ("args", "named"),
    [
        ({"count": 1}, "has 2 machines, and count is 1"),
        ({"count": 4, "remove": ["a"]}, "count and remove exclude each other"),
        ({"count": -1}, "count is -1; allowed: 0 or more"),
        ({"limit": -1}, "limit is -1"),
        ({"set": None}, "set is empty"),
        ({"cluster": " "}, "cluster is empty"),
        ({"resource_group": ""}, "resource_group is empty"),
    ],
)
def test_what_contradicts_is_refused(arm: FakeArm, args: dict[str, t.Any], named: str) -> None:
    found = scaled(**args)

    assert found["failed"]
    assert named in found["msg"]
    assert arm.writes == []


@pytest.mark.parametrize("args", [{"count": "many"}, {"size": 4}, {"auth_source": "guess"}], ids=str)
def test_wrong_options_are_refused_before_a_request(arm: FakeArm, args: dict[str, t.Any]) -> None:
    with pytest.raises(AnsibleError, match=next(iter(args))):
        scaled(**args)
    assert arm.writes == []
