# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._slurm import waiting
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host
from ansible_collections.hpcai.gpucluster.plugins.modules import slurm_wait


@pytest.mark.parametrize(
    ("condition", "command"),
    [("controller_answers", "scontrol"), ("nodes_registered", "sinfo"), ("jobs_ended", "squeue")],
)
def test_each_condition_has_its_command(condition: str, command: str) -> None:
    calls: list[str] = []

    def run(args: list[str]) -> tuple[int, str, str]:
        calls.append(args[0])
        return 1, "", "down"

    assert slurm_wait.query(run, condition, ["gpu1"]).problem == "down"
    assert calls == [command]


def test_the_result_has_each_node() -> None:
    found = waiting.Found(False, nodes={"gpu1": (True, "idle"), "gpu2": (False, "")})

    assert slurm_wait.result(found)["nodes"] == {
        "gpu1": {"registered": True, "state": "idle"},
        "gpu2": {"registered": False, "state": ""},
    }


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (waiting.Found(False, "Unable to contact"), "after 9 s: Unable to contact"),
        (waiting.Found(False, nodes={"gpu1": (True, "idle"), "gpu2": (False, "")}), ": gpu2: unknown to Slurm"),
        (waiting.Found(False, jobs=["5 train"]), ": 5 train"),
        (waiting.Found(False), ": Slurm said nothing"),
    ],
)
def test_the_message_says_what_is_missing(found: waiting.Found, words: str) -> None:
    text = slurm_wait.message(found, "jobs_ended", 9)

    assert text.startswith("jobs_ended is not met after 9 s")
    assert text.endswith(words)


@pytest.mark.parametrize(
    ("condition", "missing", "explained"),
    [("controller_answers", False, True), ("controller_answers", True, False), ("jobs_ended", False, False)],
)
def test_a_controller_that_is_silent_has_its_journal_in_the_message(
    condition: str, missing: bool, explained: bool
) -> None:
    host = Host(lambda _args: (0, "slurmctld: fatal: no\n", ""))

    text = slurm_wait.reason(waiting.Found(False, missing=missing), condition, host)

    assert ("slurmctld: fatal: no" in text) is explained
