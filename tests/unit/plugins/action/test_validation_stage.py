# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The action: check mode, time limits, lost connections, and what passes from stage to stage."""

from __future__ import annotations

import types
import typing as t

import pytest
from ansible.errors import AnsibleActionFail, AnsibleActionSkip, AnsibleConnectionFailure

from ansible_collections.hpcai.gpucluster.plugins.action import validation_stage
from ansible_collections.hpcai.gpucluster.tests.unit.support.slurm_hosts import SETTINGS, Host


class Timeout(BaseException):
    """What ends a task whose time limit is over is no Exception."""


class Action(validation_stage.ActionModule):
    """The action with an invented host."""

    def __init__(self, host: Host, check_mode: bool = False, **arguments: t.Any) -> None:
        self.host = host
        task = types.SimpleNamespace(
            args=arguments, check_mode=check_mode, async_val=0, action="hpcai.gpucluster.validation_stage", diff=False
        )
        connection = types.SimpleNamespace(_shell=types.SimpleNamespace(tmpdir=None))
        super().__init__(t.cast("t.Any", task), t.cast("t.Any", connection), *(t.cast("t.Any", None),) * 4)
        self.fault: BaseException | None = None

    def _execute_module(self, *args: t.Any, **kwargs: t.Any) -> t.Any:
        name = kwargs["module_name"].rpartition(".")[2]
        if self.fault and name == "nccl_test":
            raise self.fault
        return self.host.call(kwargs["module_name"], kwargs["module_args"])


def action(
    stage: str, host: Host | None = None, earlier: t.Any = (), check_mode: bool = False, **changes: t.Any
) -> Action:
    settings = {**SETTINGS, **changes}
    return Action(host or Host(2), check_mode, stage=stage, settings=settings, earlier=list(earlier))


@pytest.fixture(autouse=True)
def shown(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bool]]:
    lines: list[tuple[str, bool]] = []

    class Display:
        def display(self, text: str, stderr: bool = False) -> None:
            lines.append((text, stderr))

    monkeypatch.setattr(validation_stage, "Display", Display)
    return lines


def cancelled(host: Host) -> list[str]:
    return [call["name"] for call in host.called("slurm_job") if call.get("state") == "absent"]


def test_a_stage_goes_on_with_the_nodes_of_the_earlier_ones() -> None:
    host = Host(3)
    first = action("preflight", host).run()
    host.lost = {"gpu3": "drained: broken"}
    second = action("scheduler", host, [first, {"skipped": True}]).run()
    third = action("nccl", host, [first, second, {"skipped": True}]).run()

    assert (first["stage"]["stage"], first["changed"]) == ("preflight", False)
    assert second["nodes"]["taken"] == third["stage"]["nodes"] == ["gpu1", "gpu2"]
    assert first["stage"]["ended"] > 1.7e9
    assert len(cancelled(host)) == 1, "only before nodes are chosen"


def test_each_step_is_shown_beside_the_output(shown: list[tuple[str, bool]]) -> None:
    action("nccl").run()

    assert all(stderr for _text, stderr in shown)
    assert any(text.endswith("nccl: measure all_reduce between two nodes: 1 group") for text, _stderr in shown)


@pytest.mark.parametrize("stage", ["scheduler", "node", "nccl", "after"])
def test_no_job_runs_in_check_mode(stage: str) -> None:
    host = Host(2)

    with pytest.raises(AnsibleActionSkip):
        action(stage, host, check_mode=True).run()
    assert not host.calls


def test_the_first_stage_only_asks_so_it_runs_in_check_mode() -> None:
    host = Host(2)

    assert action("preflight", host, check_mode=True).run()["stage"]["checks"]
    assert [name for name, _arguments in host.calls] == ["slurm_nodes_info"]


def test_the_jobs_of_a_task_whose_time_is_over_are_cancelled() -> None:
    host = Host(2)
    late = action("nccl", host)
    late.fault = Timeout()

    with pytest.raises(Timeout):
        late.run()
    assert host.calls[-1] == ("slurm_job", {"name": "gpucluster-validate", "state": "absent"})


def test_a_time_limit_ends_the_task_even_if_nothing_can_be_cancelled() -> None:
    host = Host(2)
    late = action("nccl", host, [{"nodes": {"known": host.nodes, "meant": host.names, "taken": host.names}}])
    late.fault = Timeout()
    host.faults["slurm_job"] = "squeue exited 1"

    with pytest.raises(Timeout):
        late.run()
    assert len(cancelled(host)) == 1


def test_a_lost_connection_is_a_failed_check() -> None:
    lost = action("nccl")
    lost.fault = AnsibleConnectionFailure("timed out")
    (check,) = (item for item in lost.run()["stage"]["checks"] if item["check"] == "stage")

    assert (check["status"], check["message"]) == ("fail", "the host that submits jobs cannot be reached: timed out")


def test_wrong_settings_fail_the_task_by_name() -> None:
    with pytest.raises(AnsibleActionFail, match="validate_thresholds: found pairs"):
        action("nccl", thresholds={"pairs": 1}).run()
    with pytest.raises(AnsibleActionFail, match="repeats"):
        action("nccl", repeats="often").run()


def test_numbers_and_switches_in_words_are_taken_as_such() -> None:
    host = Host(9, slow=["gpu3"])
    found = action("nccl", host, search_rounds="0", busy_too="yes", nodelist="gpu[1-4,7]").run()

    assert found["stage"]["isolation"]["complete"] is False
    (asked,) = host.called("slurm_nodes_info")
    assert asked["busy_too"] is True
    assert ",".join(asked["nodelist"]) == "gpu[1-4,7]"
