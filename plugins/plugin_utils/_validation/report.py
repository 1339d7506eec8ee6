# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Combine the stages of a validation, determine the verdict, and compare it with an earlier run."""

from __future__ import annotations

import typing as t
from collections import Counter
from datetime import datetime, timezone

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import words
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._training.judge import LEAST_SPEED, against
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation.advice import advice
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation.checks import (
    FAIL,
    NOT_RUN,
    PASS,
    WARN,
    natural,
)
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation.figure_checks import limited

Report = dict[str, t.Any]

STAGES = {
    "preflight": "Nodes answer and are alike",
    "scheduler": "Jobs run on all nodes",
    "node": "Each node by itself",
    "nccl": "Bandwidth between GPUs and nodes",
    "training": "A model trains",
    "after": "Nodes can still be used at the end",
}
# A figure that is lower than in the earlier run by more than this fraction is a regression. all_gather in one node
# varied by 7 percent between runs on two H200. Between CPUs that share a host with others, figures differ by a factor
# from run to run.
_REGRESSION = 0.1
_REGRESSION_MPI = 0.8
# A regression by more than this fails, in percent.
_FAILS = 50
_PROGRAMS = {"nccl": "NCCL between GPUs", "mpi": "MPI between CPUs"}
# What is said about a run that its report does not repeat.
_NOT_SHOWN = ("stages", "reasons", "ended", "regression_percent")
# Prefix of the names of hardware records with simulated GPUs.
_SIMULATED = "simulated_"
_RANK = {PASS: 0, NOT_RUN: 0, WARN: 1, FAIL: 2}


class ReportError(ValueError):
    """The input of a report is not the output of the validation stages."""


def build(stages: t.Sequence[t.Mapping[str, t.Any]], about: t.Mapping[str, t.Any], baseline: t.Any = None) -> Report:
    """Return the report: verdict, checks with advice, figures, versions, and regressions since O(baseline)."""
    by_name = {stage["stage"]: stage for stage in stages}
    unknown = sorted(set(by_name) - set(STAGES))
    if unknown:
        raise ReportError(f"unknown stage: {', '.join(unknown)}; there are {', '.join(STAGES)}")
    wanted = list(about.get("stages") or (name for name in STAGES if name != "training"))
    checks = _explained(_newest(by_name), about.get("reasons") or {})
    began = _began(str(about.get("run")))
    seconds = _seconds(by_name, began)
    report: Report = {
        "format": 1,
        **{key: value for key, value in about.items() if key not in _NOT_SHOWN},
        "seconds": about["ended"] - began if began and about.get("ended") else None,
        "stages": [
            {**_stage(name, by_name.get(name), name in wanted, checks), "seconds": seconds.get(name)} for name in STAGES
        ],
        "checks": checks,
        "nodes": sorted({node for stage in stages for node in stage.get("nodes", [])}, key=natural),
        "hardware": by_name.get("after", {}).get("hardware") or [],
        "repairs": by_name.get("after", {}).get("repairs") or [],
        "devices": by_name.get("nccl", {}).get("devices") or [],
        "image": by_name.get("nccl", {}).get("image") or None,
        "limits": by_name.get("nccl", {}).get("limits") or [],
        "program": _PROGRAMS.get(by_name.get("nccl", {}).get("program") or ""),
        "versions": {
            **_versions(by_name.get("preflight", {})),
            **(by_name.get("nccl", {}).get("versions_used") or {}),
        },
        "curves": [curve for stage in stages for curve in stage.get("curves", [])],
        "pairs": next((stage["pairs"] for stage in stages if stage.get("pairs")), None),
        "isolation": next((stage["isolation"] for stage in stages if stage.get("isolation")), None),
        "training": by_name.get("training", {}).get("training"),
        "baseline": None,
    }
    if baseline:
        report["baseline"] = compare(report, baseline)
        report["baseline"]["fails_percent"] = about.get("regression_percent", _FAILS)
        _judge_training(report, baseline)
    report["verdict"] = verdict(report)
    report["summary"] = summary(report)
    report["worst"] = worst(report)
    return report


def verdict(report: Report) -> str:
    """Return V(pass), V(warn) or V(fail). It is not a pass if nothing was measured or a requested stage did not run."""
    statuses = Counter(item["status"] for item in report["checks"])
    if statuses[FAIL] or not statuses[PASS] or any(stage["state"] == "missing" for stage in report["stages"]):
        return FAIL
    regressions = _regressions(report)
    if any(_fails(report, change) for change in regressions):
        return FAIL
    return WARN if statuses[WARN] or regressions else PASS


def _regressions(report: Report) -> list[dict[str, t.Any]]:
    return list(report["baseline"]["regressions"]) if report["baseline"] else []


def _fails(report: Report, change: t.Mapping[str, t.Any]) -> bool:
    """Return whether a figure fell by so much that the validation fails."""
    lost = _lost(change)
    return lost is not None and lost > report["baseline"]["fails_percent"]


def _lost(change: t.Mapping[str, t.Any]) -> float | None:
    """Return by how many percent a figure fell; None for a check that only has another status."""
    before, after = change["before"], change["after"]
    return None if isinstance(before, str) or isinstance(after, str) or not before else 100 * (1 - after / before)


def summary(report: Report) -> str:
    """Return the verdict in one sentence that names the culprits."""
    failed = [item for item in report["checks"] if item["status"] == FAIL]
    warned = [item for item in report["checks"] if item["status"] == WARN]
    skipped = [item for item in report["checks"] if item["status"] == NOT_RUN]
    missing = [stage["name"] for stage in report["stages"] if stage["state"] == "missing"]
    nodes = sorted({item["node"] for item in failed if item["node"]}, key=natural)
    parts = []
    if missing:
        parts.append(f"did not run although it was asked for: {', '.join(missing)}")
    if failed:
        parts.append(
            f"{len(failed)} of {len(report['checks'])} checks failed" + (f", on {words.listed(nodes)}" if nodes else "")
        )
    if warned:
        parts.append(f"{_count(len(warned), 'warning')}")
    regressions = _regressions(report)
    if regressions:
        gross = sum(_fails(report, change) for change in regressions)
        more = f", {gross} of them by more than {report['baseline']['fails_percent']} %" if gross else ""
        parts.append(f"{_count(len(regressions), 'regression')} since {report['baseline']['run']}{more}")
    passed = sum(item["status"] == PASS for item in report["checks"])
    if not passed and not failed:
        parts.append("nothing was proved")
    if not parts:
        parts.append(f"all {passed} checks passed on {_count(len(report['nodes']), 'machine')}")
    if skipped:
        parts.append(f"{_count(len(skipped), 'check')} not run")
    return "; ".join(parts + _notices(report))


def _notices(report: Report) -> list[str]:
    """Return notices that apply to every verdict."""
    simulated = any(str(kind.get("size", "")).startswith(_SIMULATED) for kind in report["hardware"])
    return ["the GPUs are simulated, so nothing is proved about GPUs"] if simulated else []


def worst(report: Report, most: int = 10) -> list[str]:
    """
    Return failures, regressions and warnings as single lines, each kind up to the maximum.

    Named culprits come first. A regression of a check that failed is no line of its own.
    """
    failed = [item for item in report["checks"] if item["status"] == FAIL]
    warned = [item for item in report["checks"] if item["status"] == WARN]
    order = {"isolation.node": 0, "isolation.link": 0, "isolation.shared": 0, "stage": 1, "stage.follows": 3}
    failed.sort(key=lambda item: order.get(item["check"], 2))
    known = {_key(item) for item in failed}
    lower = [change for change in _regressions(report) if _key(change) not in known]
    lower.sort(key=lambda change: -(_lost(change) or 0))
    kinds = (
        [_line(item, item["message"]) for item in failed],
        [_line(change, _fall(report, change)) for change in lower],
        [_line(item, item["message"]) for item in warned],
    )
    return [text for lines in kinds for text in [*lines[:most], *filter(None, [words.more(lines, most)])]]


def _line(item: t.Mapping[str, t.Any], text: str) -> str:
    return f"{item['node'] + ': ' if item['node'] else ''}{item['title']}: {text}"


def _fall(report: Report, change: t.Mapping[str, t.Any]) -> str:
    """Return a regression with both figures, such as C(gpu1 - gpu2: 345 before, now 79 (-77 %), since run X)."""
    lost, who = _lost(change), f"{change['group']}: " if change["group"] and not change["node"] else ""
    figures = [change["before"], change["after"]]
    before, after = (value if isinstance(value, str) else f"{value:.4g}" for value in figures)
    part = "" if lost is None else f" ({-lost:+.0f} %)"
    return f"{who}{before} in run {report['baseline']['run']}, now {after}{part}"


def compare(report: Report, baseline: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return regressions and improvements since an earlier report, and changed versions."""
    if baseline.get("format") != 1:
        raise ReportError("the baseline is not a report.json of this validation")
    before = {_key(item): item for item in baseline["checks"]}
    least = _REGRESSION_MPI if report["program"] == _PROGRAMS["mpi"] else _REGRESSION
    regressions: list[dict[str, t.Any]] = []
    improvements: list[dict[str, t.Any]] = []
    for item in report["checks"]:
        old = before.get(_key(item))
        change = old and _change(old, item, least)
        if change:
            (regressions if change["worse"] else improvements).append(change)
    # A check that was not run is not a change.
    known = baseline.get("versions") or {}
    versions = {
        name: [known[name], version]
        for name, version in report["versions"].items()
        if name in known and known[name] != version
    }
    gone = [item for key, item in before.items() if key not in {_key(item) for item in report["checks"]}]
    return {
        "run": baseline.get("run"),
        "regressions": regressions,
        "improvements": improvements,
        "versions": versions,
        "gone": len(gone),
    }


def _stage(
    name: str, stage: t.Mapping[str, t.Any] | None, wanted: bool, checks: t.Sequence[t.Mapping[str, t.Any]]
) -> dict[str, t.Any]:
    """Return the result of a stage."""
    statuses = Counter(item["status"] for item in checks if item["stage"] == name)
    if stage:
        state = max((status for status in statuses if status != NOT_RUN), key=_RANK.__getitem__, default=NOT_RUN)
    else:
        state = "missing" if wanted else NOT_RUN
    return {
        "name": name,
        "title": STAGES[name],
        "state": state,
        "reason": "" if stage else ("it did not run" if wanted else "not asked for"),
        "counts": dict(statuses),
        "notes": list((stage or {}).get("notes", [])),
    }


def _newest(by_name: t.Mapping[str, t.Mapping[str, t.Any]]) -> list[dict[str, t.Any]]:
    """Return the checks of all stages; the results of the last stage replace those of earlier ones."""
    found = [
        dict(item, stage=name, advice=_advice(item)) for name, stage in by_name.items() for item in stage["checks"]
    ]
    last = {_key(item) for item in found if item["stage"] == "after"}
    return [item for item in found if item["stage"] == "after" or _key(item) not in last]


def _explained(checks: list[dict[str, t.Any]], reasons: t.Mapping[str, str]) -> list[dict[str, t.Any]]:
    """Return the checks; if Slurm only reports a failed prolog, add the message of the prolog."""
    for item in checks:
        said = (reasons.get(item["node"] or "") or "").rpartition("output:")[2].strip()
        if said and item["status"] == FAIL and "Prolog error" in item["message"]:
            item["message"] = item["message"].replace("Prolog error", f"Prolog error: {said}")
    return checks


def _began(run: str) -> float | None:
    """Return the start time of a run, which is in its name."""
    try:
        return datetime.strptime(run, "%Y%m%dT%H%M%SZ").replace(tzinfo=timezone.utc).timestamp()
    except ValueError:
        return None


def _seconds(by_name: t.Mapping[str, t.Mapping[str, t.Any]], began: float | None) -> dict[str, float]:
    """Return the duration of each stage: the recorded one, or the time since the end of the previous stage."""
    found: dict[str, float] = {}
    for name in (name for name in STAGES if name in by_name):
        seconds, ended = by_name[name].get("seconds"), by_name[name].get("ended")
        if seconds is None and ended and began:
            seconds = ended - began
        if seconds is not None:
            found[name] = seconds
        began = ended or began
    return found


def _advice(item: t.Mapping[str, t.Any]) -> list[str]:
    """Return the advice for a check that did not pass."""
    return advice(item["check"]) if item["status"] in (FAIL, WARN) else []


def _versions(preflight: t.Mapping[str, t.Any]) -> dict[str, str]:
    """Return the most common version of each component."""
    found: dict[str, Counter[str]] = {}
    for versions in preflight.get("versions", {}).values():
        for name, version in versions.items():
            if version:
                found.setdefault(name, Counter())[version] += 1
    return {name: count.most_common(1)[0][0] for name, count in found.items()}


def _key(item: t.Mapping[str, t.Any]) -> tuple[t.Any, ...]:
    """Return the key that identifies a check in two reports."""
    return item["check"], item["node"], item.get("group")


def _judge_training(report: Report, baseline: t.Mapping[str, t.Any]) -> None:
    """Judge the speed of a training run by that of an earlier run of the same recipe on as many ranks."""
    now, before = report.get("training"), baseline.get("training")
    if not now or not before or any(now[key] != before[key] for key in ("recipe", "ranks", "device")):
        return
    speed = (before["figures"] or {}).get("tokens_per_second_per_gpu")
    for item in report["checks"]:
        if item["check"] == "training.speed" and item["status"] != FAIL and speed:
            item["status"], item["message"] = against(item["measured"], speed, f"run {baseline.get('run')}")
            item.update(limited(item["measured"], LEAST_SPEED * speed))


def _change(old: t.Mapping[str, t.Any], new: t.Mapping[str, t.Any], least: float) -> dict[str, t.Any] | None:
    """Return a relevant change of one check: its status, or its figure by more than a fraction."""
    change = {"check": new["check"], "title": new["title"], "node": new["node"], "group": new.get("group")}
    same_size = old.get("size") == new.get("size")
    before, after = (item.get("measured") if same_size else None for item in (old, new))
    change.update(
        before=before if before is not None else old["status"], after=after if after is not None else new["status"]
    )
    if _RANK[old["status"]] != _RANK[new["status"]] and NOT_RUN not in (old["status"], new["status"]):
        return {**change, "worse": _RANK[new["status"]] > _RANK[old["status"]]}
    if before and after and min(before, after) < (1 - least) * max(before, after):
        return {**change, "worse": after < before}
    return None


def _count(number: int, noun: str) -> str:
    """Return C(1 node) or C(2 nodes)."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
