# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the action asks of a controller, and in which order."""

from __future__ import annotations

import types
import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.action import slurm_config
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import config_plan, files
from ansible_collections.hpcai.gpucluster.tests.unit.support.slurm_inputs import inputs

ALL = ["cpuset", "cpu", "memory"]
KILL_WAIT = {"slurm_config": {"KillWait": 77}}
SMALLER = {"slurm_nodes": [{**inputs()["slurm_nodes"][0], "hosts": "gpu1"}]}


class Controller(slurm_config.ActionModule):
    """The action before a controller that answers as it is told."""

    def __init__(self, check_mode: bool = False, at_risk: t.Sequence[str] = (), **present: t.Any) -> None:
        texts = files.texts(inputs(), cgroup=True)
        there = {name: {"content": config_plan.HEADER + text, "right": True} for name, text in texts.items()}
        self.info = {"files": there, "pending": [], "delegated": ALL, **present}
        self.at_risk = list(at_risk)
        self.calls: list[str] = []
        self.broken = 0
        self._task = t.cast("t.Any", types.SimpleNamespace(check_mode=check_mode))
        self._display = t.cast("t.Any", types.SimpleNamespace(display=lambda text: None))
        self._variables = {}

    def _execute_module(self, *_args: t.Any, **given: t.Any) -> t.Any:
        name, module_args = given["module_name"].rpartition(".")[2], given["module_args"]
        detail = ""
        answer: dict[str, t.Any] = {}
        if name == "slurm_config_info":
            detail = "jobs" if module_args.get("jobs") else ""
            answer = {"at_risk": self.at_risk} if detail else self.info
        elif name == "file_set":
            detail = ",".join(f"{one.get('state', '')}{one['path'].rpartition('/')[2]}" for one in module_args["files"])
            answer = {"diff": [{"after_header": one["path"]} for one in module_args["files"]]}
        elif name == "systemd_service":
            detail = module_args["state"]
        elif name == "daemon":
            answer = {"failed": True, "msg": f"{module_args['failure']} fatal: no"}
        elif self.broken:
            self.broken -= 1
            answer = {"failed": True, "stderr": "no contact"}
        self.calls.append(f"{name} {detail}".strip())
        return answer

    def bring(self, **given: t.Any) -> dict[str, t.Any]:
        return self._bring(inputs(**given))


APPLIED = [
    "slurm_config_info",
    "file_set .gpucluster-pending,slurm.conf",
    "systemd_service started",
    "command",
    "file_set absent.gpucluster-pending",
]


def test_a_controller_that_has_everything_is_asked_once() -> None:
    controller = Controller()
    result = controller.bring()

    assert (result["changed"], result["files"], controller.calls) == (False, [], ["slurm_config_info"])


def test_a_change_is_noted_written_applied_and_forgotten() -> None:
    controller = Controller()
    result = controller.bring(**KILL_WAIT)

    assert controller.calls == APPLIED
    assert [one["after_header"] for one in result["diff"]] == ["/etc/slurm/slurm.conf"], "the note is nobody's business"


def test_check_mode_applies_nothing() -> None:
    controller = Controller(check_mode=True)

    assert controller.bring(**KILL_WAIT)["changed"]
    assert controller.calls == APPLIED[:2]  # file_set runs in check mode as well


def test_a_key_that_slurmctld_reads_at_start_restarts_it() -> None:
    controller = Controller()
    controller.bring(slurm_config={"SlurmctldPort": 7000})

    assert "systemd_service restarted" in controller.calls


def test_a_bare_controller_gets_its_files_and_no_daemon_is_asked() -> None:
    controller = Controller(files={})

    assert controller.bring()["changed"]
    assert [call.split()[0] for call in controller.calls] == ["slurm_config_info", "file_set"]


def test_what_an_interrupted_run_has_left_is_applied() -> None:
    left = {"action": "reconfigure", "restart": [], "reconfigure": ["slurmctld"], "jobs_at_risk": False, "warnings": []}
    controller = Controller(pending=[left])

    assert controller.bring()["changed"]
    assert controller.calls == [APPLIED[0], *APPLIED[2:]]


def test_a_change_that_would_lose_jobs_is_refused_before_anything_is_written() -> None:
    controller = Controller(at_risk=["11"])

    with pytest.raises(config_plan.Refused, match="This change would lose running jobs, and nothing was changed"):
        controller.bring(**SMALLER)
    assert controller.calls == ["slurm_config_info", "slurm_config_info jobs"]


@pytest.mark.parametrize("given", [{}, {"slurm_allow_job_loss": True}])
def test_it_is_applied_without_jobs_or_where_their_loss_is_allowed(given: dict[str, t.Any]) -> None:
    controller = Controller(at_risk=["11"] if given else [])

    assert controller.bring(**SMALLER, **given)["changed"]
    assert ("slurm_config_info jobs" in controller.calls) is not bool(given)


@pytest.mark.parametrize(("times", "passes"), [(1, True), (5, True), (6, False)])
def test_a_controller_that_starts_is_asked_again(times: int, passes: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    controller = Controller()
    controller.broken = times

    if passes:
        controller.bring(**KILL_WAIT)
        assert controller.calls[-1] == APPLIED[-1]
    else:
        with pytest.raises(slurm_config.ModuleFailed, match=r"command: no contact\. fatal: no"):
            controller.bring(**KILL_WAIT)
        assert controller.calls[-2:] == ["command", "daemon"], "the note stays for the next run"
