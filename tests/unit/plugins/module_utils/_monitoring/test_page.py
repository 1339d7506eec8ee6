# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page gpucluster-status, from what Slurm 24.11.5 printed and answers of Prometheus."""

from __future__ import annotations

import re
import time
import typing as t
from html.parser import HTMLParser
from pathlib import Path

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._monitoring import cli, live, page, slurm
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host
from ansible_collections.hpcai.gpucluster.tests.patience import cheap

ROOT = Path(__file__).parents[5]
RECORDED = ROOT / "tests/unit/fixtures/slurm/24.11.5"
STYLE = (ROOT / "plugins/plugin_utils/_validation/report.css").read_text(encoding="utf-8")
QUIET = live.Live([], {})
FILES = {"scontrol": "scontrol-show-nodes", "squeue": "squeue", "sdiag": "sdiag"}


def answer(args: t.Sequence[str]) -> tuple[int, str, str]:
    return 0, (RECORDED / f"{FILES[args[0]]}.json").read_text(encoding="utf-8"), ""


@pytest.fixture
def state() -> slurm.State:
    return slurm.read(answer)


def alert(severity: str, summary: str = "too hot") -> dict[str, t.Any]:
    return {"state": "firing", "labels": {"alertname": "X", "severity": severity}, "annotations": {"summary": summary}}


def verdict(text: str) -> tuple[str, str]:
    match = re.search(r'<div class="verdict (\w+)"><b>(.*?)</b>', text)
    assert match
    return match[1], match[2]


def test_it_shows_gpus_nodes_and_who_uses_them(state: slurm.State) -> None:
    busy = live.Live([], {("gpu1", "nvidia0"): 90.0, ("gpu2", "nvidia1"): 30.0})
    text = page.page(state, busy, STYLE, 0, "training")

    assert "<b>8 of 16</b><span>GPUs allocated</span><span>2 free, 6 on unavailable nodes</span>" in text
    assert "<b>1 of 2</b><span>nodes available</span><span>1 drained, 0 down</span>" in text
    assert 'title="gpu2: drained: NHC: gpu_ecc: expected 0 uncorrectable errors, found GPU 2: 4"' in text
    assert '<td data-name="utilisation">60 %</td>' in text
    assert '<td data-name="reason">JobHeldUser</td><td data-name="jobs">1</td>' in text
    assert verdict(text) == ("pass", "no alerts")


@pytest.mark.parametrize(
    ("alerts", "trouble", "expected"),
    [
        ([], "", ("pass", "no alerts")),
        (["info"], "", ("warn", "1 alert")),
        (["warning", "info"], "", ("warn", "2 alerts")),
        (["warning", "critical"], "", ("fail", "1 critical alert")),
        ([], "Prometheus does not answer", ("warn", "alerts are unknown")),
    ],
)
def test_the_headline(alerts: list[str], trouble: str, expected: tuple[str, str], state: slurm.State) -> None:
    text = page.page(state, live.Live([alert(one) for one in alerts], {}, trouble), STYLE, 0)

    assert verdict(text) == expected
    assert trouble in text


def test_no_answer_of_slurm_is_never_green() -> None:
    assert verdict(page.page(None, QUIET, STYLE, 0)) == ("fail", "Slurm does not answer")


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        (["IDLE"], "pass"),
        (["ALLOCATED"], "busy"),
        (["MIXED", "PLANNED"], "busy"),
        (["IDLE", "DRAIN"], "warn"),
        (["ALLOCATED", "DRAIN"], "warn"),
        (["DOWN", "DRAIN"], "fail"),
        (["IDLE", "NOT_RESPONDING"], "fail"),
        (["IDLE", "POWERED_DOWN"], "not_run"),
        (["SOMETHING_NEW"], "fail"),
        ([], "fail"),
    ],
)
def test_a_node_is_green_only_if_it_can_take_jobs(states: list[str], expected: str) -> None:
    assert page.kind({"state": states})[0] == expected


def test_the_page_names_what_is_missing(state: slurm.State) -> None:
    text = page.page(state, QUIET, STYLE, 0, "", {}, ["gpu: nvidia-smi <exited> 6"])

    assert verdict(text) == ("warn", "figures are missing")
    assert '<article class="warn"><b class="warn">gpu: nvidia-smi &lt;exited&gt; 6</b>' in text
    assert "<h2>Queue</h2>" in text


def test_a_part_that_cannot_be_shown_is_named_and_the_others_stay(state: slurm.State) -> None:
    jobs = [{key: value for key, value in job.items() if key != "account"} for job in state.jobs]
    text = page.page(state._replace(jobs=jobs), QUIET, STYLE, 0)

    assert verdict(text) == ("warn", "figures are missing")
    assert "users: KeyError: &#x27;account&#x27;" in text
    assert "<b>8 of 16</b>" in text
    assert "<h2>Queue</h2>" in text


def test_alerts_come_by_severity(state: slurm.State) -> None:
    alerts = [alert("info", "c"), alert("warning", "b"), alert("critical", "a"), alert("odd", "d")]
    text = page.page(state, live.Live(alerts, {}), STYLE, 0)

    assert re.findall(r'<article class="\w+"><b class="\w+">(\w)</b>', text) == ["a", "b", "c", "d"]


def test_no_name_of_a_user_makes_a_tag_or_a_template(state: slurm.State) -> None:
    evil = '<script>alert(1)</script>{{ printf "x" }}"'
    jobs = [{**job, "user_name": evil, "state_reason": evil, "partition": "batch"} for job in state.jobs]
    nodes = [{**node, "reason": evil} for node in state.nodes]
    text = page.page(slurm.State(nodes, jobs, {}), live.Live([alert("info", evil)], {}), STYLE + "a{{b}}", 0, evil)

    assert "<script" not in text
    assert "{{" not in text
    assert "&lt;script&gt;" in text


def test_tags_are_closed(state: slurm.State) -> None:
    opened: list[str] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: t.Any) -> None:
            if tag != "meta":
                opened.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert opened.pop() == tag

    Reader().feed(page.page(state, live.Live([alert("info")], {}), STYLE, 0))

    assert opened == []


def test_gpu2_stands_before_gpu10(state: slurm.State) -> None:
    nodes = [{**state.nodes[0], "name": name} for name in ("gpu10", "gpu2", "a1-gpu3", "1", "login")]
    text = page.page(state._replace(nodes=nodes), QUIET, STYLE, 0)

    names = re.findall(r'title="(\S+): in use"', text)
    assert names.index("gpu2") < names.index("gpu10")


def test_a_thousand_nodes_take_two_seconds_and_a_megabyte(state: slurm.State) -> None:
    nodes = [{**state.nodes[number % 2], "name": f"node{number}"} for number in range(1000)]
    jobs = [{**state.jobs[number % 6], "job_id": number, "user_name": f"u{number % 90}"} for number in range(2000)]
    alerts = [alert("warning", f"node{number}") for number in range(1000)]
    with cheap(2):
        text = page.page(slurm.State(nodes, jobs, {}), live.Live(alerts, {}), STYLE, 0)

    assert len(text.encode()) < 1_000_000
    assert "and 950 more" in text


def test_answers_of_prometheus() -> None:
    alerts = [alert("critical"), {**alert("info"), "state": "pending"}]
    series = [{"metric": {"node": "gpu1", "device": "nvidia0"}, "value": [0, "97.5"]}]
    answers = {"alerts": {"alerts": alerts}, "query": {"result": series}}

    found = live.read("http://x", lambda url: {"data": answers["alerts" if url.endswith("alerts") else "query"]})

    assert found == live.Live(alerts[:1], {("gpu1", "nvidia0"): 97.5})


@pytest.mark.parametrize("bad", [OSError("refused"), {}, [], {"data": None}, {"data": {"alerts": [{}]}}])
def test_an_answer_without_data_is_trouble(bad: t.Any) -> None:
    def get(_url: str) -> t.Any:
        if isinstance(bad, OSError):
            raise bad
        return bad

    assert live.read("http://x", get).trouble.startswith("Prometheus does not answer")


@pytest.mark.parametrize(("code", "expected"), [(0, "alerts are unknown"), (1, "Slurm does not answer")])
def test_the_program_writes_the_page_in_any_case(code: int, expected: str, tmp_path: Path) -> None:
    about = {
        "path": str(tmp_path / "page.html"),
        "style": "/nowhere",
        "prometheus": "http://127.0.0.1:1",
        "cluster": "x",
    }
    host = Host(lambda args: (code, answer(args)[1], "down"))
    collectors = cli.Collectors({"collectors": ["slurm"], "page": about}, host, t.cast("t.Any", None))

    _page, reason = cli.collect("slurm", collectors.wanted()["slurm"], time.monotonic)

    assert bool(reason) == bool(code)
    assert verdict((tmp_path / "page.html").read_text(encoding="utf-8"))[1] == expected
