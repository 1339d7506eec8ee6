# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The checks nvlink and nvlink_errors. The words are those of nvidia-smi 580.159.04; it was recorded with 4 H200."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest

from ansible_collections.hpcai.gpucluster.tests.unit.plugins.module_utils._health import machines

if t.TYPE_CHECKING:
    from collections.abc import Sequence

    from ansible_collections.hpcai.gpucluster.plugins.module_utils._health.process import Result
    from ansible_collections.hpcai.gpucluster.plugins.module_utils._health.verdict import Verdict

FIXTURES = Path(__file__).parents[3] / "fixtures/gpucluster_check"
RECORDED = (FIXTURES / "nvidia-smi-nvlink-s-h200-x4-580.159.04.txt").read_text(encoding="utf-8")
SIZE = "standard_nd96isr_h200_v5"
RATE = "26.562 GB/s"


def _judged(check: str, text: str, remembered: dict[str, dict[str, t.Any]] | None = None) -> Verdict:
    """Judge an output of nvidia-smi nvlink on a machine with 4 GPUs of 18 links."""
    machine = machines.healthy(SIZE)
    smi = t.cast("machines.Smi", machine.tools["nvidia-smi"])
    smi.config["gpus"] = {**smi.config["gpus"], "count": 4}

    def tool(argv: Sequence[str], stdin: str) -> Result:
        return machines.says(text)(argv, stdin) if "nvlink" in argv else smi(argv, stdin)

    machine.tools["nvidia-smi"] = tool
    config = machines.expectations(SIZE, nvlink={"samples": 1})
    return machines.judge(machine, config, remembered, [check])[check]


def _with(words: str, gpu: int = 2, link: int = 5) -> str:
    """Return the recorded output with other words for one link."""
    lines = RECORDED.splitlines(keepends=True)
    lines[gpu * 19 + 1 + link] = words and f"{words}\n"
    return "".join(lines)


def test_the_recorded_output_is_healthy() -> None:
    assert (_judged("nvlink", RECORDED).status, _judged("nvlink", RECORDED).reason) == (
        "healthy",
        "18 NVLinks up on 4 GPUs",
    )


@pytest.mark.parametrize(
    "words", ["<inactive>", "ERR!", "N/A", "[N/A]", "0.000 GB/s", "0 GB/s", "0.0 GB/s", "ERR! GB/s", "N/A GB/s"]
)
def test_what_is_no_rate_is_not_up(words: str) -> None:
    verdict = _judged("nvlink", _with(f"\t Link 5: {words}"))

    assert verdict.status == "unhealthy"
    assert verdict.reason == f"expected 18 NVLinks up per GPU, found GPU 2: 17 (link 5 {words})"


def test_a_link_of_which_the_tool_says_only_that_it_is_down() -> None:
    verdict = _judged("nvlink", _with("NVML: Unable to retrieve NVLink information for link 5 - inActive"))

    assert "GPU 2: 17 (link 5 inActive)" in verdict.reason


def test_a_gpu_without_links_is_named() -> None:
    lines = RECORDED.splitlines(keepends=True)
    text = "".join([*lines[:58], "NVML: Unable to retrieve NVLink information as all links are inActive\n"])

    assert _judged("nvlink", text).reason == "expected 18 NVLinks up per GPU, found GPU 3: 0"


def test_a_link_slower_than_the_others_is_named() -> None:
    verdict = _judged("nvlink", _with("\t Link 5: 13.281 GB/s"))

    assert verdict.status == "unhealthy"
    assert verdict.reason.endswith("18 NVLinks up per GPU at 26.562 GB/s, found GPU 2: 18 (link 5 13.281 GB/s)")


def test_a_link_that_sleeps_is_no_fault() -> None:
    assert _judged("nvlink", _with("\t Link 5 in Sleep state")).status == "healthy"


def test_links_that_no_board_connects_are_no_fault() -> None:
    text = re.sub(r"(Link 17: .*\n)", r"\1\t Link 18: <inactive>\n", RECORDED)

    assert _judged("nvlink", text).status == "healthy"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (_with(""), "lists 17 links of GPU 2, not 18"),
        ("".join(RECORDED.splitlines(keepends=True)[:70]), "lists 12 links of GPU 3, not 18"),
        ("".join(RECORDED.splitlines(keepends=True)[:58]), "lists 0 links of GPU 3, not 18"),
        ("".join(RECORDED.splitlines(keepends=True)[:57]), "does not name GPU 3"),
        ("".join(RECORDED.splitlines(keepends=True)[19:]), "does not name GPU 0"),
        (RECORDED.replace("GPU 1: NVIDIA", "GPU 0: NVIDIA"), "names GPU 0 twice"),
        (_with(f"\t Link 4: {RATE}"), "lists 17 links of GPU 2, not 18"),
        (_with(f"\t Link 5: {RATE}\n\t Link 5: {RATE}"), "lists GPU 2 link 5 twice"),
        (_with("\t Link 5: 26.S62 GB/s"), "GPU 2: link 5 is '26.S62 GB/s': neither a rate nor a link that is down"),
        (_with("\t Link 5: 26.562 \x1b[0mGB/s"), "GPU 2: link 5 is"),
        (_with("\t Link 5:"), "found 'Link 5:'"),
    ],
)
def test_a_cut_or_damaged_list_is_no_verdict(text: str, words: str) -> None:
    verdict = _judged("nvlink", text)

    assert verdict.status == "unknown"
    assert words in verdict.reason


def _counters(**others: str) -> str:
    """Return counters of 4 GPUs; others have another value on link 5 of GPU 2, by name with _ for a space."""
    values = {
        "Replay Errors": "0",
        "Rx Errors": "0",
        "Tx discards": "0",
        "Link recovery successful events": "0",
        "Link recovery failed events": "0",
        "Total link recovery events": "0",
        "Effective Errors": "0",
        "Effective BER": "15e-255",
        "FEC Errors - 0": "36140749276",
        "FEC Errors - 15": "65535",
    }
    changed = {name.replace("_", " "): value for name, value in others.items()}
    lines = []
    for gpu in range(4):
        lines.append(f"GPU {gpu}: NVIDIA H200 (UUID: GPU-{gpu})")
        for link in range(18):
            shown = {**values, **changed} if (gpu, link) == (2, 5) else values
            lines += [f"\t Link {link}: {name}: {value}" for name, value in shown.items()]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("name", ["Link recovery failed events", "Failed link recovery"])
def test_a_failed_recovery_is_a_fault_at_once(name: str) -> None:
    verdict = _judged("nvlink_errors", _counters().replace("Link recovery failed events: 0", f"{name}: 1"))

    assert verdict.status == "unhealthy"
    assert f"GPU 0 link 0 {name} 1" in verdict.reason


@pytest.mark.parametrize("value", ["65535", "4294967295"])
def test_a_counter_that_cannot_grow_is_a_fault(value: str) -> None:
    verdict = _judged("nvlink_errors", _counters(Replay_Errors=value))

    assert verdict.status == "unhealthy"
    assert f"GPU 2 link 5 Replay Errors {value}" in verdict.reason


def test_the_history_of_corrected_codewords_is_no_fault() -> None:
    verdict = _judged("nvlink_errors", _counters())

    assert verdict.status == "healthy"
    assert verdict.reason.startswith(f"no counter of {4 * 18 * 7} grew")


@pytest.mark.parametrize(
    ("name", "grown", "status"),
    [
        ("Replay_Errors", 1000, "healthy"),
        ("Replay_Errors", 1001, "unhealthy"),
        ("Tx_discards", 1000, "healthy"),
        ("Rx_Errors", 100, "healthy"),
        ("Rx_Errors", 101, "unhealthy"),
        ("Effective_Errors", 101, "unhealthy"),
        ("Link_recovery_successful_events", 3, "healthy"),
        ("Link_recovery_successful_events", 4, "unhealthy"),
    ],
)
def test_each_kind_of_counter_has_its_limit(name: str, grown: int, status: str) -> None:
    remembered: dict[str, dict[str, t.Any]] = {}
    _judged("nvlink_errors", _counters(**{name: "7"}), remembered)
    verdict = _judged("nvlink_errors", _counters(**{name: str(7 + grown)}), remembered)

    assert verdict.status == status, verdict.reason


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (_counters(Replay_Errors="1O"), "GPU 2 link 5 Replay Errors is '1O', not a count"),
        (_counters(Replay_Errors="ERR!"), "not a count"),
        (_counters(Replay_Errors="18446744073709551615"), "not a count"),
        (_counters().replace("\t Link 5: Rx Errors: 0\n", "", 1), "GPU 0 link 5 has no counter 'Rx Errors'"),
        (_counters()[: -len("\t Link 17: FEC Errors - 15: 65535\n")], "GPU 3 link 17 has no counter"),
        (_counters().replace("Link 5: Rx", "Link 4: Rx", 1), "lists GPU 0 link 4 Rx Errors twice"),
        (_counters().partition("GPU 3")[0], "does not name GPU 3"),
    ],
)
def test_a_cut_or_damaged_list_of_counters_is_no_verdict(text: str, words: str) -> None:
    verdict = _judged("nvlink_errors", text)

    assert verdict.status == "unknown"
    assert words in verdict.reason


def test_a_counter_that_a_driver_does_not_have_is_passed_over() -> None:
    assert _judged("nvlink_errors", _counters(Replay_Errors="N/A")).status == "healthy"


def test_counters_that_no_gpu_has_do_not_apply() -> None:
    """Some virtual machines print N/A for every counter. Three unknown results would drain the node."""
    text = re.sub(r": (\d+|15e-255)$", ": N/A", _counters(), flags=re.MULTILINE)
    verdict = _judged("nvlink_errors", text)

    assert (verdict.status, verdict.reason) == ("not applicable", "no link has error counters: each is N/A")


def test_counters_that_one_gpu_lacks_are_no_verdict() -> None:
    head, mark, tail = _counters().partition("GPU 3")
    verdict = _judged("nvlink_errors", head + mark + re.sub(r": \d+$", ": N/A", tail, flags=re.MULTILINE))

    assert verdict.status == "unknown"
    assert "GPU 3: every error counter of NVLink is N/A" in verdict.reason


@pytest.mark.parametrize(
    ("kept", "words", "status", "found"),
    [
        (12, RATE, "unknown", "GPU 0: 12 links are listed, not 18, and none of them is down"),
        (18, "<inactive>", "unhealthy", "found GPU 0: 17 (link 5 <inactive>)"),
        (12, "<inactive>", "unhealthy", "found GPU 0: 11 (link 5 <inactive>)"),
    ],
)
def test_the_list_of_a_single_gpu_may_be_cut(kept: int, words: str, status: str, found: str) -> None:
    machine = machines.healthy(SIZE)
    smi = t.cast("machines.Smi", machine.tools["nvidia-smi"])
    smi.config["gpus"] = {**smi.config["gpus"], "count": 1}
    text = "".join(_with(f"\t Link 5: {words}", gpu=0).splitlines(keepends=True)[: kept + 1])
    machine.tools["nvidia-smi"] = lambda argv, stdin: (machines.says(text) if "nvlink" in argv else smi)(argv, stdin)
    verdict = machines.judge(machine, machines.expectations(SIZE, nvlink={"samples": 1}), names=["nvlink"])["nvlink"]

    assert verdict.status == status
    assert found in verdict.reason
