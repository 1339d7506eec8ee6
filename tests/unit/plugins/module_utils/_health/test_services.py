# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""slurmd runs the health check at its start, before it answers anything: the check must not wait for slurmd."""

from __future__ import annotations

import os
import re

import pytest

from ansible_collections.hpcai.gpucluster.tests.unit.plugins.module_utils._health import machines

TICKS = os.sysconf("SC_CLK_TCK")


def _run_by(daemon: str, seconds: float) -> machines.FakeMachine:
    """Return a machine whose slurmd never answers, where a daemon of this age runs the program through a shell."""
    machine = machines.healthy("lab")
    machine.tools["scontrol"] = machines.hangs
    born = int((machine.clock - seconds) * TICKS)
    machine.files.update(machines.process(40, daemon, "0::/", uid=0, start=born))
    parents = {"50": "40", "self": "50"}
    for pid, parent in parents.items():
        stat = machines.process(50, "sh (1)", "0::/", uid=0)["/proc/50/stat"]
        machine.files[f"/proc/{pid}/stat"] = re.sub(r"\) S 1 ", f") S {parent} ", stat)
    machine.forget_names()
    return machine


@pytest.mark.parametrize(
    ("daemon", "seconds", "status"),
    [
        ("slurmd", 1, "healthy"),
        ("slurmd", 300, "unknown"),  # the next health check of Slurm
        ("sshd", 1, "unknown"),  # an administrator
    ],
)
def test_a_slurmd_that_waits_for_the_check_is_not_asked(daemon: str, seconds: float, status: str) -> None:
    machine = _run_by(daemon, seconds)

    verdict = machines.judge(machine, machines.expectations("lab"), names=["slurmd"])["slurmd"]

    assert verdict.status == status
    assert any("slurmd" in call for call in machine.calls) == (status == "unknown")
