# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The health watches of DCGM. The reports have the form that the source of dcgmi writes (DCGM 4, dcgmi/Health.cpp)."""

from __future__ import annotations

import json
import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._health import dcgm
from ansible_collections.hpcai.gpucluster.plugins.module_utils._health.process import DONE, Result
from ansible_collections.hpcai.gpucluster.plugins.module_utils._health.verdict import UnknownError
from ansible_collections.hpcai.gpucluster.tests.unit.plugins.module_utils._health import machines

if t.TYPE_CHECKING:
    from collections.abc import Sequence

    from ansible_collections.hpcai.gpucluster.plugins.module_utils._health.verdict import Verdict

SIZE = "DGX_H100"
DISABLED = "Error: Health watches not enabled. Please enable watches. \n"
REPLAYS = "Detected more than 8 PCIe replays per minute for GPU 3: 12."


def report(overall: str, **watches: str) -> str:
    """Return a report; watches of GPU 3 have a value by name."""
    found: dict[str, t.Any] = {"Overall Health": {"value": overall}}
    if watches:
        errors = {f"{name} system": {"value": value, "overflow": [REPLAYS]} for name, value in watches.items()}
        found["GPU"] = {"children": {"3": {"value": overall, "children": {"Errors": {"children": errors}}}}}
    return json.dumps({"header": ["Health Monitor Report"], "body": found}, indent=3)


class Dcgmi:
    """dcgmi with a service that has just started: it has no watches until they are enabled."""

    def __init__(self, text: str, enabled: bool = True) -> None:
        self.text = text
        self.enabled = enabled
        self.calls: list[list[str]] = []

    def __call__(self, argv: Sequence[str], _stdin: str) -> Result:
        self.calls.append(list(argv[1:]))
        if "-s" in argv:
            self.enabled = True
            return machines.says("Health monitor systems set successfully.\n")(argv, "")
        return machines.says(self.text if self.enabled else DISABLED, 0 if self.enabled else 255)(argv, "")


def judged(tool: machines.Tool | None, size: str = SIZE, **params: t.Any) -> Verdict:
    machine = machines.healthy(size)
    if tool:
        machine.tools["dcgmi"] = tool
    config = machines.expectations(size, dcgm_health={"group": 0, **params})
    return machines.judge(machine, config, names=["dcgm_health"])["dcgm_health"]


def test_a_healthy_report() -> None:
    dcgmi = Dcgmi(report("Healthy"))
    verdict = judged(dcgmi)

    assert (verdict.status, dcgmi.calls) == ("healthy", [["health", "-g", "0", "-c", "-j"]])


def test_a_failure_names_the_device_the_watch_and_the_text() -> None:
    verdict = judged(Dcgmi(report("Failure", PCIe="Failure")))

    assert verdict.status == "unhealthy"
    assert f"GPU 3: PCIe system: Failure: {REPLAYS}" in verdict.reason


def test_a_warning_is_told_and_drains_no_node() -> None:
    verdict = judged(Dcgmi(report("Warning", PCIe="Warning")))

    assert verdict.status == "healthy"
    assert "DCGM warns: GPU 3: PCIe system: Warning" in verdict.reason


def nvlink_down(overall: str = "Failure", **others: str) -> str:
    """Return a report of a PCIe GPU without a bridge, as reported in public; others are watches with their values."""

    def watch(value: str, says: str) -> dict[str, t.Any]:
        return {"value": value, "children": {"Errors": {"children": {"e0": {"value": value, "overflow": [says]}}}}}

    watches = {"NVLINK system": watch("Failure", "GPU 0's NvLink link 0 is currently down")}
    watches.update({f"{name} system": watch(value, REPLAYS) for name, value in others.items()})
    gpu = {"0": {"value": overall, "children": watches}}
    return json.dumps({"body": {"Overall Health": {"value": overall}, "GPU": {"children": gpu}}})


@pytest.mark.parametrize("size", ["standard_nc24ads_a100_v4", "standard_nc24rs_v3", "standard_nc40ads_h100_v5"])
def test_the_nvlink_watch_does_not_apply_without_links(size: str) -> None:
    for text in (nvlink_down(), report("Failure", NVLINK="Failure")):
        verdict = judged(Dcgmi(text), size)

        assert verdict.status == "healthy"
        assert "does not apply: GPU" in verdict.reason
        assert "NVLINK system" in verdict.reason


def test_a_record_with_links_fails_for_a_link_that_is_down() -> None:
    verdict = judged(Dcgmi(nvlink_down()))

    assert verdict.status == "unhealthy"
    assert "GPU 0 NVLINK system: e0: Failure: GPU 0's NvLink link 0 is currently down" in verdict.reason


def test_what_does_not_apply_hides_no_other_watch() -> None:
    size = "standard_nc24ads_a100_v4"
    verdict = judged(Dcgmi(nvlink_down(PCIe="Failure")), size)

    assert verdict.status == "unhealthy"
    assert "GPU 0 PCIe system: e0: Failure" in verdict.reason
    assert "NVLINK" not in verdict.reason
    assert judged(Dcgmi(nvlink_down(PCIe="Warning")), size).reason.startswith("DCGM warns: GPU 0 PCIe system: e0: Warn")
    assert judged(Dcgmi(report("Failure")), size).status == "unhealthy"
    assert judged(Dcgmi(report("Failure", NVLINK="Warning")), size).status == "unhealthy"


def test_a_site_names_the_watches_that_it_ignores() -> None:
    text = report("Failure", PCIe="Failure")

    assert judged(Dcgmi(text), ignored_watches=["pcie"]).status == "healthy"
    assert judged(Dcgmi(text), ignored_watches=["Memory"]).status == "unhealthy"


def test_watches_are_enabled_after_a_start_of_the_service() -> None:
    dcgmi = Dcgmi(report("Healthy"), enabled=False)
    verdict = judged(dcgmi)

    assert verdict.status == "healthy"
    assert [call[3] for call in dcgmi.calls] == ["-c", "-s", "-c"]


@pytest.mark.parametrize(
    ("tool", "status", "words"),
    [
        (None, "not run", "dcgmi is missing"),
        (machines.hangs, "unknown", "no answer within 10 s"),
        (
            machines.says("Error: unable to establish a connection to the specified host: localhost", 252),
            "unknown",
            "conn",
        ),
        (machines.says("", 1), "unknown", "exit status 1"),
        (machines.says(report("Internal error")), "unknown", "Internal error"),
        (machines.says('{"body": []}'), "unknown", "no report"),
        (machines.says('{"body": {"Overall Health": "Healthy"}}'), "unknown", "no report"),
    ],
)
def test_without_a_report_the_check_is_never_green(tool: machines.Tool | None, status: str, words: str) -> None:
    verdict = judged(tool)

    assert (verdict.status, words in verdict.reason) == (status, True), verdict.reason


def test_the_check_runs_only_where_it_was_requested() -> None:
    assert "dcgm_health" not in machines.expectations(SIZE)["sets"]["fast"]
    assert "dcgm_health" in machines.expectations(SIZE, dcgm_health={"group": 0})["sets"]["fast"]


def beside_nvlink(**watches: t.Any) -> Result:
    """Return a report of one GPU with an ignored failure of NVLink, and other watches."""
    nvlink = {"value": "Failure", "children": {"Errors": {"overflow": ["GPU 0's NvLink link 0 is down"]}}}
    children = {"NVLink system": nvlink, **{name.replace("_", " "): one for name, one in watches.items()}}
    body = {"Overall Health": {"value": "Failure"}, "GPU": {"children": {"0": {"children": children}}}}
    return Result(DONE, 0, json.dumps({"body": body}))


def test_an_ignored_watch_hides_no_other() -> None:
    memory = {"value": "Failure", "children": {"Errors": {"overflow": ["A DBE"]}}}

    assert dcgm.judge(beside_nvlink(), ["NVLINK"]).status == "healthy"
    found = dcgm.judge(beside_nvlink(Memory_system=memory), ["NVLINK"])
    assert (found.status, "Memory system: Failure: A DBE" in found.found) == ("unhealthy", True)
    for odd in ({"value": "FAILURE"}, {"value": "Failure", "children": ["x"]}):
        with pytest.raises(UnknownError):
            dcgm.judge(beside_nvlink(Memory_system=odd), ["NVLINK"])
    assert (
        dcgm.judge(beside_nvlink(Memory_system={"value": "Failure", "overflow": [{}]}), ["NVLINK"]).status
        == "unhealthy"
    )
