# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation import step_checks

PARTLY = """memory: healthy: 24105 MiB
cpus: not applicable: switched off
clock: not run: chronyc and timedatectl are missing
munge: healthy: works
4 checks in 0.03 s: not run
"""


@pytest.mark.parametrize(
    ("code", "output", "status"),
    [
        (0, "memory: healthy: 24105 MiB\n1 checks in 0.029 s: healthy\n", "pass"),
        (0, "memory: healthy: 24105 MiB\nraid: not applicable: none\n2 checks in 0.029 s: healthy\n", "pass"),
        (4, PARTLY, "warn"),
        (4, "cpus: not applicable: switched off\n1 checks in 0.029 s: not applicable\n", "fail"),
        (1, PARTLY.replace("not applicable: switched off", "unhealthy: expected 8, found 7"), "fail"),
        (127, "", "not_run"),
    ],
)
def test_health_passes_only_where_something_was_healthy_and_nothing_was_wrong(
    code: int, output: str, status: str
) -> None:
    result = {"rc": code, "stdout": output, "stderr": "", "nodes": ["gpu1"]}

    (check,) = step_checks.health([result], "node.check", "gpucluster-check")

    assert check["status"] == status


def test_health_says_what_was_not_run() -> None:
    result = {"rc": 4, "stdout": PARTLY, "stderr": "srun: error: gpu1: task 0: Exited", "nodes": ["gpu1"]}

    message = step_checks.health([result], "node.check", "x")[0]["message"]

    assert message == "2 checks healthy; clock: not run: chronyc and timedatectl are missing"


SICK = """gpu_count: healthy: 8 GPUs
gpu_temperature: suspect: expected at most 93, found 95 (bad sample 1 of 3)
gpu_xid: unhealthy: expected no fatal Xid since boot, found Xid 79 on 0000:1b:00.0
3 checks in 0.214 s: unhealthy
"""
DOUBT = """gpu_count: healthy: 8 GPUs
gpu_temperature: suspect: expected at most 93, found 95 (bad sample 1 of 3)
munge: unknown: timed out after 5 s
3 checks in 5.214 s: unknown
"""


@pytest.mark.parametrize(
    ("code", "output", "status", "first", "second"),
    [
        (1, SICK, "fail", "gpu_xid: unhealthy: expected no fatal Xid", "gpu_temperature: suspect: expected"),
        (3, DOUBT, "warn", "munge: unknown: timed out after 5 s", "gpu_temperature: suspect: expected"),
    ],
)
def test_what_is_not_healthy_is_named_worst_first(code: int, output: str, status: str, first: str, second: str) -> None:
    result = {"rc": code, "stdout": output, "stderr": "srun: error: gpu1: task 0: Exited", "nodes": ["gpu1"]}

    (check,) = step_checks.health([result], "node.check", "gpucluster-check")

    assert check["status"] == status
    assert check["message"].startswith(first)
    assert f"; {second}" in check["message"]
    assert "healthy: 8 GPUs" not in check["message"]


def test_a_program_that_died_with_the_same_status_has_failed() -> None:
    result = {"rc": 3, "stdout": "", "stderr": "bash: fork: out of memory", "nodes": ["gpu1"]}

    (check,) = step_checks.health([result], "node.check", "gpucluster-check")

    assert (check["status"], check["message"]) == ("fail", "exit status 3: bash: fork: out of memory")


@pytest.mark.parametrize(
    ("stderr", "status", "message"),
    [
        ("srun: error: gpu1: task 0: Exited with exit code 127", "not_run", "not installed on the node"),
        (
            "nvbandwidth: error while loading shared libraries: libnvidia-ml.so.1\nsrun: error: gpu1: task 0: Exited",
            "fail",
            "exit status 127: nvbandwidth: error while loading shared libraries: libnvidia-ml.so.1",
        ),
    ],
    ids=["command", "library"],
)
def test_a_missing_library_is_no_missing_command(stderr: str, status: str, message: str) -> None:
    result = {"rc": 127, "stdout": "", "stderr": stderr, "nodes": ["gpu1"]}

    (check,) = step_checks.steps([result], "node.nvbandwidth", "host to GPU")

    assert (check["status"], check["message"]) == (status, message)
