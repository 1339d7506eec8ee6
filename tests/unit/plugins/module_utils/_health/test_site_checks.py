# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The site's own checks: what NHC 1.4.3 prints becomes one verdict."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._health import site_checks
from ansible_collections.hpcai.gpucluster.tests.unit.plugins.module_utils._health import machines

if t.TYPE_CHECKING:
    from ansible_collections.hpcai.gpucluster.plugins.module_utils._health.verdict import Verdict

NHC = "/usr/local/sbin/nhc"
# As NHC 1.4.3 prints it with NHC_CHECK_ALL=1.
FAILED = """ERROR:  nhc:  Health check failed:  check_ps_service:  Service ntpd (process ntpd) owned by root not running
ERROR:  nhc:  Health check failed:  check_file_test:  File test for /etc/site (type "-f") returned false.
ERROR:  nhc:  2 health checks failed.
"""


def _judged(tool: machines.Tool | None, **params: t.Any) -> Verdict:
    machine = machines.healthy("lab")
    if tool:
        machine.tools[NHC] = tool
    config = machines.expectations("lab", nhc={"path": NHC, **params})
    return machines.judge(machine, config, names=["nhc"])["nhc"]


def test_every_failure_is_named() -> None:
    verdict = _judged(machines.says(FAILED, 2))

    assert verdict.status == "unhealthy"
    assert "check_ps_service:  Service ntpd".replace("  ", " ") in verdict.reason
    assert "check_file_test" in verdict.reason


@pytest.mark.parametrize(
    ("tool", "status", "words"),
    [
        (machines.says(""), "healthy", "the site's checks pass"),
        (machines.says("bash: syntax error", 1), "unknown", "ended with 1: bash: syntax error"),
        (machines.says("", 10), "unknown", "ended with 10: without a word"),
        (machines.hangs, "unknown", "no answer in time"),
        (None, "not run", "no such program"),
    ],
)
def test_what_cannot_be_found_out_is_never_green(tool: machines.Tool | None, status: str, words: str) -> None:
    verdict = _judged(tool)

    assert (verdict.status, words in verdict.reason) == (status, True)


def test_started_by_nhc_it_does_not_start_nhc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(site_checks.INSIDE, "yes")

    assert _judged(machines.says(FAILED, 2)).status == "not applicable"


def test_it_is_in_the_fast_set_only_where_there_is_something_to_run() -> None:
    assert "nhc" not in machines.expectations("lab")["sets"]["fast"]
    assert "nhc" in machines.expectations("lab", nhc={"path": NHC})["sets"]["fast"]
