# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The users who get another UID or are removed, and their jobs, from what squeue printed."""

from __future__ import annotations

import os
import typing as t
from pathlib import Path

import pytest
from ansible.module_utils.common.yaml import yaml_load

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host
from ansible_collections.hpcai.gpucluster.plugins.modules import slurm_state_info
from ansible_collections.hpcai.gpucluster.tests.unit.support.run_module import RunModule, program

SQUEUE = (Path(__file__).parents[2] / "fixtures/slurm/24.11.5/squeue-users.txt").read_text(encoding="utf-8")
PASSWD = "root:x:0:0::/root:/bin/sh\nalice:x:2001:2001::/home/alice:/bin/sh\nbob:x:2002:2002::/home/bob:/bin/sh\n"


class Controller(Host):
    """A controller with three users, whose squeue answers as it is told."""

    def __init__(self, answer: tuple[int, str, str] = (0, SQUEUE, "")) -> None:
        super().__init__(self.squeue)
        self.answer = answer
        self.asked = 0

    def squeue(self, args: t.Sequence[str]) -> tuple[int, str, str]:
        if args[-1].endswith("clustername"):
            return 1, "", "No such file or directory"
        assert args[0] == "squeue"
        self.asked += 1
        return self.answer

    def read_required(self, path: str) -> str:
        return PASSWD if path == "/etc/passwd" else ""


def found(controller: Controller, users: t.Any = None, removed: t.Sequence[str] = ()) -> dict[str, t.Any]:
    params = {"state_directory": "/var/spool/slurmctld", "users": users or {}, "removed": removed}
    return slurm_state_info.state(controller, params)


def test_slurm_is_not_asked_where_no_user_changes() -> None:
    controller = Controller((1, "", "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"))

    state = found(controller, {"alice": 2001, "new": 2009}, ["gone"])

    assert (state["leaving"], state["jobs"], state["problem"], controller.asked) == ({}, {}, "", 0)


def test_the_jobs_of_a_user_with_another_uid_are_found_by_number() -> None:
    state = found(Controller(), {"alice": 2101, "bob": 2002})

    assert state["leaving"] == {"alice": 2001}
    assert state["jobs"] == {"alice": ["6 (PENDING)", "3_[2-4%1] (PENDING)", "4 (PENDING)", "3_1 (RUNNING on gpu1)"]}


def test_a_user_who_is_removed_has_jobs_too() -> None:
    state = found(Controller(), {"alice": 2001}, ["bob"])

    assert (state["leaving"], state["jobs"]) == ({"bob": 2002}, {"bob": ["2 (RUNNING on gpu1)"]})


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (
            (1, "", "slurm_load_jobs error: Unable to contact slurm controller"),
            "squeue exited 1: slurm_load_jobs error",
        ),
        ((124, "", "'squeue' did not answer in 60 s and was killed"), "squeue exited 124: 'squeue' did not answer"),
        ((0, "alice|1|RUNNING|gpu1\n", ""), "squeue printed 'alice|1|RUNNING|gpu1'"),
        ((0, "2001|1|RUNNING\n", ""), "squeue printed '2001|1|RUNNING'"),
    ],
)
def test_what_slurm_does_not_say_is_unknown(answer: tuple[int, str, str], problem: str) -> None:
    state = found(Controller(answer), {"alice": 2101})

    assert state["problem"].startswith(problem)
    assert state["jobs"] == {}


def test_a_machine_without_slurm_has_no_jobs() -> None:
    state = found(Controller((127, "", "squeue cannot be started")), {"alice": 2101})

    assert (state["leaving"], state["jobs"], state["problem"]) == ({"alice": 2001}, {}, "")


# slurmctld 24.11 writes the number of the cluster, too.
@pytest.mark.parametrize("text", ["lab|2667", "lab", "lab\n"])
def test_the_module_reads_the_cluster_of_the_state(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "clustername").write_text(text, encoding="utf-8")
    (tmp_path / "job_state").touch()
    program(tmp_path, "squeue", "echo '0|7|RUNNING|gpu1'")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(Host, "read_required", lambda _host, path: PASSWD if path == "/etc/passwd" else "")

    state = RunModule(capsys)(slurm_state_info.main, True, state_directory=str(tmp_path), removed=["root"])

    assert (state["cluster"], state["jobs"], state["changed"]) == ("lab", {"root": ["7 (RUNNING on gpu1)"]}, False)
    assert set(yaml_load(slurm_state_info.RETURN)) <= set(state)


def test_storage_that_root_may_not_read_is_read_as_slurm() -> None:
    asked: list[t.Any] = []

    def run(args: t.Sequence[str]) -> tuple[int, str, str]:
        asked.append(args[0])
        return (0, "lab|7", "") if args[0] == "runuser" else (1, "", "Permission denied")

    assert slurm_state_info.cluster(Host(run), "/shared/state") == "lab"
    assert asked == ["cat", "runuser", "runuser"]


def test_a_controller_that_never_worked_has_no_records_to_lose() -> None:
    """slurmctld writes the name before it first reaches slurmdbd, so the second try of a first run finds it."""

    def run(args: t.Sequence[str]) -> tuple[int, str, str]:
        return (0, "lab|7", "") if "cat" in args else (1, "", "")

    assert slurm_state_info.cluster(Host(run), "/var/spool/slurmctld") == ""
