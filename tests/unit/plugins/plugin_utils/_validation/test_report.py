# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import typing as t
from xml.etree import ElementTree as ET

import pytest

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation import advice, report_junit
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation import report as results
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation.checks import check

ABOUT = {"run": "20261120T101500Z", "stages": ["nccl"]}


def stage(*checks: dict[str, t.Any], name: str = "nccl", **more: t.Any) -> dict[str, t.Any]:
    return {"stage": name, "checks": list(checks), "nodes": ["gpu1", "gpu10", "gpu2"], "seconds": 1.5, **more}


def pair(busbw: float, status: str = "pass") -> dict[str, t.Any]:
    return check("nccl.pair.all_reduce", "pairs", status, "", None, group="gpu1 - gpu2", measured=busbw)


GOOD = check("scheduler.job", "job runs", "pass", "", "gpu1")
BAD = check("isolation.node", "isolation", "fail", "holds every group back", "gpu2")
SKIPPED = check("node.dcgm", "DCGM", "not_run", "not installed", "gpu1")
DOUBT = check("preflight.clock", "clock", "warn", "nobody knows", "gpu1")


@pytest.mark.parametrize(
    ("checks", "verdict", "words"),
    [
        ([GOOD], "pass", "all 1 checks passed on 3 machines"),
        ([GOOD, SKIPPED], "pass", "all 1 checks passed on 3 machines; 1 check not run"),
        ([GOOD, DOUBT], "warn", "1 warning"),
        ([GOOD, BAD], "fail", "1 of 2 checks failed, on gpu2"),
        ([SKIPPED], "fail", "nothing was proved; 1 check not run"),
        ([], "fail", "nothing was proved"),
    ],
)
def test_verdict(checks: list[dict[str, t.Any]], verdict: str, words: str) -> None:
    report = results.build([stage(*checks)], ABOUT)

    assert report["verdict"] == verdict
    assert words in report["summary"]


@pytest.mark.parametrize(("size", "said"), [("simulated_h100", True), ("DGX_H100", False)])
def test_simulated_gpus_are_called_simulated(size: str, said: bool) -> None:
    after = stage(name="after", hardware=[{"size": size, "count": 2, "gpus": 8}])

    report = results.build([stage(GOOD), after], ABOUT)

    assert ("the GPUs are simulated, so nothing is proved about GPUs" in report["summary"]) is said


def test_a_stage_that_was_wanted_and_did_not_run_is_no_pass() -> None:
    report = results.build([stage(GOOD)], {**ABOUT, "stages": ["nccl", "node"]})
    states = {entry["name"]: entry["state"] for entry in report["stages"]}

    assert report["verdict"] == "fail"
    assert "did not run although it was asked for: node" in report["summary"]
    assert states == {
        "preflight": "not_run",
        "scheduler": "not_run",
        "node": "missing",
        "nccl": "pass",
        "training": "not_run",
        "after": "not_run",
    }


def test_what_the_prolog_said_stands_where_slurm_only_says_that_it_failed() -> None:
    job = check("scheduler.job", "job runs", "fail", "drained: Prolog error", "gpu1")
    other = check("scheduler.job", "job runs", "fail", "drained: repair", "gpu2")
    said = "slurmd: error: prolog failed: rc:1 output:expected 8 GPUs, found 2"
    report = results.build([stage(job, other)], {**ABOUT, "reasons": {"gpu1": said, "gpu2": said, "gpu3": ""}})

    assert report["worst"] == [
        "gpu1: job runs: drained: Prolog error: expected 8 GPUs, found 2",
        "gpu2: job runs: drained: repair",
    ]


def test_what_the_last_stage_sees_of_a_node_replaces_what_the_first_saw() -> None:
    before = check("preflight.slurm_state", "state in Slurm", "pass", "idle", "gpu1")
    after = {**before, "status": "fail", "message": "since this run began: drained"}
    report = results.build(
        [stage(before, name="preflight"), stage(after, name="after")], {"stages": ["preflight", "after"]}
    )

    assert [(item["stage"], item["status"]) for item in report["checks"]] == [("after", "fail")]
    assert report["verdict"] == "fail"


def test_stages_say_how_long_they_took() -> None:
    began = 1763720100
    stages = [
        stage(GOOD, name="preflight", seconds=None, ended=began + 5),
        stage(GOOD, name="nccl", seconds=None, ended=began + 65),
    ]
    report = results.build(stages, {"run": "20251121T101500Z", "ended": began + 70, "stages": ["preflight", "nccl"]})

    assert [entry["seconds"] for entry in report["stages"]] == [5, None, None, 60, None, None]
    assert report["seconds"] == 70


def test_failures_come_with_advice_and_the_culprit_first() -> None:
    report = results.build([stage(check("nccl.pair.all_reduce", "pairs", "fail", "slow"), BAD)], ABOUT)

    assert report["worst"][0] == "gpu2: isolation: holds every group back"
    assert all(item["advice"] for item in report["checks"])


def test_every_kind_of_check_has_advice() -> None:
    for name in (
        "preflight.version.nccl",
        "nccl.all.alltoall",
        "scheduler.mpi",
        "isolation.link",
        "nccl.limits",
        "nccl.part",
        "stage",
    ):
        assert advice.advice(name), name
    assert advice.advice("nothing.like.it") == []


def test_nodes_are_sorted_as_people_count() -> None:
    assert results.build([stage(GOOD)], ABOUT)["nodes"] == ["gpu1", "gpu2", "gpu10"]


def test_a_regression_is_named_with_both_figures() -> None:
    before = results.build([stage(pair(190.0), GOOD)], {**ABOUT, "run": "yesterday"})
    report = results.build([stage(pair(170.0), GOOD)], ABOUT, json.loads(json.dumps(before)))

    assert report["baseline"]["regressions"] == [
        {
            "check": "nccl.pair.all_reduce",
            "title": "pairs",
            "node": None,
            "group": "gpu1 - gpu2",
            "before": 190.0,
            "after": 170.0,
            "worse": True,
        }
    ]
    assert report["verdict"] == "warn"
    assert "1 regression since yesterday" in report["summary"]


@pytest.mark.parametrize(
    ("after", "percent", "verdict"), [(43.7, None, "fail"), (96.0, None, "warn"), (43.7, 80, "warn")]
)
def test_a_gross_regression_fails(after: float, percent: int | None, verdict: str) -> None:
    before = results.build([stage(pair(190.0), GOOD)], {**ABOUT, "run": "yesterday"})
    about = ABOUT if percent is None else {**ABOUT, "regression_percent": percent}
    report = results.build([stage(pair(after), GOOD)], about, before)

    assert report["verdict"] == verdict
    assert report["worst"] == [
        f"pairs: gpu1 - gpu2: 190 in run yesterday, now {after:.4g} ({100 * (after / 190 - 1):+.0f} %)"
    ]
    assert ("by more than 50 %" in report["summary"]) is (verdict == "fail")


def test_warnings_are_listed_after_the_failures() -> None:
    warning = check("nccl.limits", "limits", "warn", "no limit is known")
    report = results.build([stage(warning, BAD, GOOD)], ABOUT)

    assert report["worst"] == ["gpu2: isolation: holds every group back", "limits: no limit is known"]
    assert results.build([stage(warning, GOOD)], ABOUT)["worst"] == ["limits: no limit is known"]


def test_noise_is_no_regression_and_better_is_no_fault() -> None:
    before = results.build([stage(pair(190.0), BAD)], ABOUT)
    better = {**BAD, "status": "pass"}
    report = results.build([stage(pair(187.0), better)], ABOUT, before)

    assert report["verdict"] == "pass"
    assert [change["check"] for change in report["baseline"]["improvements"]] == ["isolation.node"]


def test_figures_of_different_message_sizes_are_not_compared() -> None:
    before = results.build([stage({**pair(190.0), "size": 2**33})], ABOUT)
    report = results.build([stage({**pair(120.0), "size": 2**26})], ABOUT, before)

    assert report["baseline"]["regressions"] == []


def test_versions_that_changed_are_listed() -> None:
    old = results.build([stage(GOOD, name="preflight", versions={"gpu1": {"nccl": "2.27.3"}})], {"stages": []})
    new = results.build([stage(GOOD, name="preflight", versions={"gpu1": {"nccl": "2.28.9"}})], {"stages": []}, old)

    assert new["baseline"]["versions"] == {"nccl": ["2.27.3", "2.28.9"]}


def test_what_the_earlier_run_did_not_look_at_has_not_changed() -> None:
    old = results.build([stage(GOOD, versions_used={"NCCL in use": "2.27.3"})], {"stages": []})
    seen = stage(GOOD, name="preflight", versions={"gpu1": {"kernel": "6.8.0"}})
    new = results.build([seen, stage(GOOD, versions_used={"NCCL in use": "2.28.9"})], {"stages": []}, old)

    assert new["versions"] == {"kernel": "6.8.0", "NCCL in use": "2.28.9"}
    assert new["baseline"]["versions"] == {"NCCL in use": ["2.27.3", "2.28.9"]}


@pytest.mark.parametrize(("after", "regressions"), [(100.0, 0), (30.0, 1)])
def test_between_cpus_only_a_gross_loss_is_a_regression(after: float, regressions: int) -> None:
    before = results.build([stage(pair(190.0), program="mpi")], ABOUT)
    report = results.build([stage(pair(after), program="mpi")], ABOUT, before)

    assert report["program"] == "MPI between CPUs"
    assert len(report["baseline"]["regressions"]) == regressions


def test_wrong_input_is_refused() -> None:
    with pytest.raises(results.ReportError, match="unknown stage: fabric"):
        results.build([stage(name="fabric")], ABOUT)
    with pytest.raises(results.ReportError, match=r"not a report.json"):
        results.build([stage(GOOD)], ABOUT, {"hello": "world"})


def test_the_report_survives_json() -> None:
    report = results.build([stage(GOOD, BAD, SKIPPED, DOUBT, pair(1.0))], ABOUT)

    assert json.loads(json.dumps(report)) == report


def test_junit_counts_and_escapes() -> None:
    evil = check("scheduler.job", "job", "fail", 'died: <&"\x1b[31m>', "gpu1")
    report = results.build([stage(GOOD, evil, SKIPPED, DOUBT)], {**ABOUT, "stages": ["nccl", "node"]})
    suites = ET.fromstring(report_junit.junit(report))
    nccl = next(suite for suite in suites if suite.get("name") == "nccl")
    node = next(suite for suite in suites if suite.get("name") == "node")

    assert [nccl.get(name) for name in ("tests", "failures", "skipped", "errors")] == ["4", "1", "1", "0"]
    assert node.get("errors") == "1"
    assert node.find("testcase/error") is not None
    message = nccl.find("testcase/failure")
    assert message is not None
    assert message.get("message") == 'died: <&"?[31m>'
