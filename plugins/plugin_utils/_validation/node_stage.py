# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""The stage C(node): each node alone."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._hardware import record as _paths
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation import (
    choice,
    figure_checks,
    node_tests,
    step_checks,
)
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation import settings as inputs
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation.checks import FAIL, PASS, Check
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation.session import Session, StoppedError

Raw = t.Mapping[str, t.Any]

_PROGRAMS = {
    "check": "gpucluster-check",
    "dcgm": "dcgmi diag --run {level} --json",
    "nvbandwidth": "nvbandwidth --json --testcase host_to_device_memcpy_ce device_to_host_memcpy_ce",
}


def measure(session: Session, raw: dict[str, t.Any], silent: t.Collection[str]) -> None:
    """Run each program on every node; if one program fails as a whole, the others still run."""
    choice.need(session, silent)
    raw["thresholds"] = inputs.limits(session.settings, session.record)
    raw["gpus"], raw["most"] = session.gpus, _paths.most_copies(session.record)
    names, faults = session.taken, []
    for test in session.settings["node_checks"]:
        session.say(f"run {_PROGRAMS[test].split()[0]} on {len(names)} nodes")
        try:
            raw[test] = _run(session, names, _PROGRAMS[test].format(level=session.settings["dcgm_level"]))
        except StoppedError as exc:
            faults.append(str(exc))
    results = [result for test in session.settings["node_checks"] for result in raw.get(test, [])]
    drained = {name for result in results if result.get("lost") for name in result["nodes"]}
    session.nodes.taken = [name for name in names if name not in drained]
    if faults:
        raise StoppedError("; ".join(dict.fromkeys(faults)))


def _run(session: Session, names: t.Sequence[str], line: str) -> list[t.Mapping[str, t.Any]]:
    """Return the results of a program on each node; status 127 means that the program is missing."""
    found = session.job(
        "hpcai.gpucluster.slurm_job",
        nodelist=list(names),
        command=["sh", "-c", f"command -v {line.split()[0]} > /dev/null || exit 127; exec {line}"],
        step_options=[f"--gpus-per-node={session.gpus}"] if session.gpus else [],
        each_node=True,
    )
    return list(found["results"])


def judge(raw: Raw) -> dict[str, t.Any]:
    """Return the checks of each single node."""
    found = step_checks.health(raw["check"], "node.check", "gpucluster-check") if raw.get("check") else []
    for check, result in zip(step_checks.steps(raw.get("dcgm") or [], "node.dcgm", "DCGM"), raw.get("dcgm") or []):
        if check["status"] == PASS or (check["status"] == FAIL and "{" in result["stdout"]):
            check["status"], check["message"] = node_tests.dcgm(result["stdout"])
        found.append(check)
    return {"checks": found + _memcpy(raw)}


def _memcpy(raw: Raw) -> list[Check]:
    """Return the checks of the bandwidth between host and GPUs."""
    results = raw.get("nvbandwidth") or []
    found = [
        item for item in step_checks.steps(results, "node.host_to_device", "host to GPU") if item["status"] != PASS
    ]
    for test, key in (("host_to_device", "host_to_device_gbps"), ("device_to_host", "device_to_host_gbps")):
        measured = {
            result["nodes"][0]: node_tests.nvbandwidth(result["stdout"]).get(f"{test}_memcpy_ce", {})
            for result in results
            if result["rc"] == 0
        }
        title = {"host_to_device": "host to GPU", "device_to_host": "GPU to host"}[test]
        threshold = (raw.get("thresholds") or {}).get(key)
        found += (
            figure_checks.memcpy(
                measured, f"node.{test}", title, threshold, raw.get("gpus", 0), raw.get("most", _paths.FASTEST_COPY)
            )
            if measured
            else []
        )
    return found
