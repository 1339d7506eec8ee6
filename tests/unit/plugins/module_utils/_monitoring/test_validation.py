# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The last validation, from the brief of a report to figures and the page."""

from __future__ import annotations

import json
import time
import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._monitoring import cli, live, page, validation
from ansible_collections.hpcai.gpucluster.plugins.module_utils._monitoring.text import render
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation import report, report_brief
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation.checks import check


def measured(status: str = "pass", value: float | None = 0.5, group: str = "gpu1 - gpu2") -> dict[str, t.Any]:
    more: dict[str, t.Any] = {"measured": value, "unit": "GB/s", "group": group, "limits": {"fail": 0.1}}
    return check("nccl.pair.all_reduce", "between two nodes, all_reduce", status, "slow {{<b>", **more)


def brief(*checks: dict[str, t.Any], stages: t.Sequence[str] = ("nccl",)) -> dict[str, t.Any]:
    built = report.build([{"stage": "nccl", "checks": checks}], {"run": "20261120T101500Z", "stages": stages})
    return json.loads(json.dumps(report_brief.brief(built, 1763633700)))  # type: ignore[no-any-return]


def shown(about: dict[str, t.Any] | None) -> str:
    return page.page(None, live.Live([], {}), "", 0, "", about)


def test_verdict_stages_and_the_slowest_bandwidth_become_figures() -> None:
    text = render(validation.samples(brief(measured(), measured(value=0.25, group="gpu1 - gpu3"))))

    assert "gpucluster_validation_timestamp_seconds 1763633700\n" in text
    assert 'gpucluster_validation_verdict{verdict="pass"} 1\n' in text
    assert 'gpucluster_validation_stage{stage="nccl",state="pass"} 1\n' in text
    assert 'gpucluster_validation_stage{stage="training",state="not_run"} 1\n' in text
    assert 'gpucluster_validation_bandwidth_bytes{check="nccl.pair.all_reduce"} 250000000\n' in text


def test_a_bandwidth_without_a_result_is_missing() -> None:
    text = render(validation.samples(brief(measured("fail", None))))

    assert 'verdict="fail"' in text
    assert "bandwidth" not in text


def test_the_page_shows_it() -> None:
    text = shown(brief(measured(), measured("fail", 0.05, "gpu1 - gpu3")))

    assert '<b class="fail">fail, 2025-11-20 10:15 UTC</b><p>1 of 2 checks failed' in text
    assert "nccl fail" in text
    assert '<td data-name="figure">0.05 GB/s</td><td data-name="nodes">gpu1 - gpu3</td>' in text
    assert "{{" not in text
    assert "<b>slow" not in text


@pytest.mark.parametrize(("about", "expected"), [({}, "No validation has run."), (None, "Its result cannot be read.")])
def test_no_validation_is_never_green(about: dict[str, t.Any] | None, expected: str) -> None:
    text = shown(about)

    assert expected in text
    assert '"pass"' not in text


def test_an_unknown_verdict_is_red() -> None:
    assert '<article class="fail"><b class="fail">splendid' in shown({**brief(measured()), "verdict": "splendid"})


@pytest.mark.parametrize("text", ["nonsense", "[]", "[1]", '{"format": 1}', '{"format": 2}', "{1"])
def test_a_broken_file_is_a_fault_of_the_collector(text: str, monkeypatch: pytest.MonkeyPatch, tmp_path: t.Any) -> None:
    (tmp_path / "brief").write_text(text, encoding="utf-8")
    monkeypatch.setattr(validation, "PATH", str(tmp_path / "brief"))
    collectors = cli.Collectors({"collectors": ["validation"]}, Host(t.cast("t.Any", None)), t.cast("t.Any", None))

    written, reason = cli.collect("validation", collectors.wanted()["validation"], time.monotonic)

    assert reason.startswith("validation: ")
    assert "gpucluster_validation_verdict" not in written


@pytest.mark.parametrize("figure", ["0.5", -0.5, 1e18, [0.5]])
def test_what_is_no_figure_is_refused(figure: t.Any) -> None:
    broken = brief(measured())
    for row in broken["figures"]:
        row["slowest"] = figure

    for damaged in (broken, {**brief(measured()), "ended": figure}):
        with pytest.raises(ValueError, match="where a figure belongs"):
            validation.samples(damaged)


def test_a_machine_without_a_validation_has_no_figures(monkeypatch: pytest.MonkeyPatch, tmp_path: t.Any) -> None:
    monkeypatch.setattr(validation, "PATH", str(tmp_path / "missing"))
    collectors = cli.Collectors({"collectors": ["validation"]}, Host(t.cast("t.Any", None)), t.cast("t.Any", None))

    written, reason = cli.collect("validation", collectors.wanted()["validation"], time.monotonic)

    assert reason == ""
    assert "gpucluster_validation" not in written
