# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The action firewall: when it connects anew, and what it does if it cannot."""

from __future__ import annotations

import typing as t
from unittest import mock

import pytest
from ansible.errors import AnsibleConnectionFailure

from ansible_collections.hpcai.gpucluster.plugins.action import firewall

Answer = t.Union[dict[str, t.Any], Exception]
LOADED = {"changed": True, "pending": True, "diff": {}}


class Clock:
    """A clock that only waits move."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(firewall, "time", found)
    return found


def run(*answers: Answer) -> tuple[dict[str, t.Any], list[str], int]:
    """Return the result, the steps that reached the machine, and how often the action reset the connection."""
    steps, left = list[str](), list(answers)
    action = firewall.ActionModule(*(mock.MagicMock() for _number in range(6)))
    action._task.args = {"cluster": ["10.0.0.0/8"], "seconds": 60}

    def execute(module_args: dict[str, t.Any], **_others: t.Any) -> dict[str, t.Any]:
        answer = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(answer, Exception):
            raise answer
        steps.append(module_args.get("step", "load"))
        return dict(answer)

    plain = mock.patch("ansible.plugins.action.ActionBase.run", side_effect=lambda *_arguments: {})
    with mock.patch.object(action, "_execute_module", execute), plain:
        result = action.run(None, {})
    return result, steps, t.cast("mock.Mock", action._connection).reset.call_count


def test_rules_are_confirmed_through_a_new_connection() -> None:
    result, steps, resets = run(LOADED, {"changed": True})

    assert (result["changed"], result["pending"], steps, resets) == (True, False, ["load", "confirm"], 1)


@pytest.mark.parametrize("answer", [{"changed": False, "pending": False}, {"failed": True, "msg": "nft refuses"}])
def test_nothing_is_confirmed_without_a_trial(answer: dict[str, t.Any]) -> None:
    assert run(answer) == (answer, ["load"], 0)


def test_a_connection_that_fails_once_is_tried_again() -> None:
    result, steps, resets = run(LOADED, AnsibleConnectionFailure("timed out"), {"changed": True})

    assert (result["changed"], steps, resets) == (True, ["load", "confirm"], 2)


def test_the_reason_of_a_rollback_is_the_result() -> None:
    result, _steps, _resets = run(LOADED, AnsibleConnectionFailure("x"), {"failed": True, "msg": "restored"})

    assert (result["failed"], result["changed"], result["msg"]) == (True, False, "restored")


def test_a_machine_that_never_answers_is_given_up_after_the_rollback(clock: Clock) -> None:
    result, steps, _resets = run(LOADED, AnsibleConnectionFailure("timed out"))

    assert result["failed"]
    assert "after the rollback" in result["msg"]
    assert steps == ["load"]
    assert 60 < clock.now < 120
