# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Damaged output of tools and damaged files: a verdict, never a traceback, never a false "healthy"."""

from __future__ import annotations

import contextlib
import typing as t

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.hpcai.gpucluster.plugins.module_utils._health import (
    hardware,
    marker,
    readings,
    services,
    storage,
    throughput,
    xid,
)
from ansible_collections.hpcai.gpucluster.plugins.module_utils._health.process import DONE, Result
from ansible_collections.hpcai.gpucluster.plugins.module_utils._health.verdict import (
    NotRunError,
    UnhealthyError,
    UnknownError,
    worst,
)
from ansible_collections.hpcai.gpucluster.tests.unit.plugins.module_utils._health import machines

if t.TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SIZE = "standard_nd96isr_h200_v5"
SAID = (NotRunError, UnhealthyError, UnknownError, marker.MarkError)
NOISE = st.text(alphabet=st.characters(codec="utf-8"), max_size=12)


@st.composite
def damage(draw: st.DrawFn) -> Callable[[str], str]:
    """Return a way to damage a text: cut it, put noise into it, lose or double a line, or replace it."""
    kind = draw(st.sampled_from(["cut", "head", "noise", "lose", "double", "replace", "empty"]))
    place = draw(st.floats(0, 1))
    noise = draw(NOISE)

    def apply(text: str) -> str:
        at = int(place * len(text))
        lines = text.splitlines(keepends=True)
        row = min(int(place * len(lines)), len(lines) - 1)
        return {
            "cut": text[:at],
            "head": text[at:],
            "noise": text[:at] + noise + text[at:],
            "lose": "".join(lines[:row] + lines[row + 1 :]),
            "double": "".join(lines[: row + 1] + lines[row:]),
            "replace": noise,
            "empty": "",
        }[kind]

    return apply


def _query(size: str) -> str:
    smi = machines.Smi(machines.record(size))
    return smi(["nvidia-smi", f"--query-gpu={','.join(readings.FIELDS)}", "--format=csv,noheader,nounits"], "").out


@settings(max_examples=150, deadline=None)
@given(damage(), st.sampled_from([0, 0, 2, 9, 15, 255]))
def test_a_sick_gpu_is_never_hidden_by_damage(how: Callable[[str], str], rc: int) -> None:
    machine = machines.healthy(SIZE)
    smi = t.cast("machines.Smi", machine.tools["nvidia-smi"])
    # Sick in several ways, so that no lost line or cell makes it well.
    smi.shows("*", remapped_rows__pending="Yes", persistence_mode="Disabled", pcie__link__width__current="8")

    def damaged(argv: Sequence[str], stdin: str) -> Result:
        result = smi(argv, stdin)
        return Result(DONE, rc or result.rc, how(result.out))

    machine.tools["nvidia-smi"] = damaged
    config = machines.expectations(SIZE)
    names = [name for name in config["checks"] if name.startswith(("gpu_", "nvlink"))]
    verdicts = machines.judge(machine, config, names=names)

    assert worst(verdict.status for verdict in verdicts.values()) != "healthy"
    assert not [verdict for verdict in verdicts.values() if "itself failed" in verdict.reason]
    assert all(verdict.reason.isprintable() and len(verdict.reason) < 400 for verdict in verdicts.values())


def _links(text: str) -> object:
    return readings.links(machines.FakeMachine({}, {"nvidia-smi": machines.says(text)}), 1)


PARSERS: dict[str, tuple[str, Callable[[str], object]]] = {
    "meminfo": (
        "MemTotal:       263856 kB\nMemFree:          24 kB\n",
        lambda text: hardware.judge_memory(100, 3, text),
    ),
    "mdstat": (
        "Personalities : \nmd0 : active raid1 sdb1[1] sda1[0]\n      1000 blocks [2/2] [UU]\nunused devices: none\n",
        lambda text: hardware.judge_raid({"md0": 2}, text),
    ),
    "cpu list": ("0-47,96-143\n", hardware.cpu_list),
    "mounts": ("/dev/sda1 / ext4 rw,relatime 0 0\nnfs:/a\\040b /a\\040b nfs4 rw 0 0\n", storage.parse_mounts),
    "chrony": (
        "C0A80101,10.0.0.1,3,1763623000.1,0.0001,0,0,0,0,0,0,0,64.2,Normal\n",
        lambda text: services.judge_chrony(1, text),
    ),
    "timedatectl": ("yes\n", lambda text: services.judge_systemd(Result(DONE, 0, text))),
    "kernel log": (
        "4,9,12345678,-;NVRM: Xid (PCI:0001:00:00): 79, pid=1\n",
        lambda text: xid.events(text.splitlines()),
    ),
    "nvbandwidth": (
        '{"nvbandwidth": {"testcases": [{"name": "x", "status": "Passed", "bandwidth_matrix": [["55.1", "N/A"]]}]}}',
        lambda text: throughput.copies(text, "x"),
    ),
    "all_reduce_perf": (
        " 536870912 134217728 float sum -1 2317.2 231.6 347.5 0 2318.1 231.5 347.3 0\n# Out of bounds values : 0 OK\n"
        "# Avg bus bandwidth : 347.4\n",
        throughput.busbw,
    ),
    "ib_write_bw": (" 65536      5000             392.11             391.90             0.747\n", throughput.average),
    "dcgmi": (
        '{"DCGM Diagnostic": {"test_categories": [{"category": "Hardware", "tests": [{"name": "PCIe", '
        '"results": [{"gpu_id": "0", "status": "Pass"}]}]}]}}',
        lambda text: throughput.judge_dcgm(1, text),
    ),
    "scontrol": (
        "NodeName=a\n   State=IDLE+DRAIN Weight=1\n   Reason=NHC: memory: x [root@2026-01-01T00:00:00]\n",
        marker.node,
    ),
    "nvlink": ("GPU 0: NVIDIA H200 (UUID: GPU-1)\n\t Link 0: 26.562 GB/s\n", _links),
}


@pytest.mark.parametrize("name", PARSERS)
@settings(max_examples=60, deadline=None)
@given(how=damage())
def test_every_parser_says_what_it_cannot_read(name: str, how: Callable[[str], str]) -> None:
    text, parse = PARSERS[name]
    parse(text)
    with contextlib.suppress(*SAID):
        parse(how(text))


# The answers of the real tool when something is wrong with it, with its exit codes.
@pytest.mark.parametrize(
    ("faults", "check", "status", "words"),
    [
        ({"no_driver": True}, "gpu_count", "unhealthy", "couldn't communicate with the NVIDIA driver"),
        ({"no_library": True}, "gpu_count", "unknown", "exited 12"),
        ({"version_mismatch": True}, "gpu_count", "unhealthy", "Driver/library version mismatch"),
        ({"blocked": True}, "gpu_count", "unhealthy", "GPU access blocked"),
        ({"missing_gpus": [3]}, "gpu_count", "unhealthy", "expected 8 GPUs, found 7"),
        ({"lost_gpus": [3]}, "gpu_count", "unhealthy", "expected 8 GPUs, found 7"),
        ({"requires_reset": [3]}, "gpu_count", "unhealthy", "GPU requires reset"),
        ({"missing_gpus": list(range(8))}, "gpu_count", "unhealthy", "No devices were found"),
        ({"warnings": ["infoROM is corrupted at gpu 0001:00:00.0"]}, "gpu_count", "unhealthy", "infoROM is corrupted"),
        ({"warnings": ["infoROM is corrupted at gpu 0001:00:00.0"]}, "gpu_ecc", "healthy", "on 8 GPUs"),
        ({"lost_gpus": [3]}, "gpu_ecc", "healthy", "on 7 GPUs"),
        ({"no_driver": True}, "gpu_ecc", "unknown", "couldn't communicate"),
    ],
)
def test_every_failure_of_the_tool_is_said(faults: dict[str, t.Any], check: str, status: str, words: str) -> None:
    machine = machines.healthy(SIZE)
    t.cast("machines.Smi", machine.tools["nvidia-smi"]).config["faults"] = faults
    verdict = machines.judge(machine, machines.expectations(SIZE), names=[check])[check]

    assert verdict.status == status
    assert words in verdict.reason


def test_an_old_driver_that_ends_with_an_error_for_a_lost_gpu_is_a_fault() -> None:
    machine = machines.healthy(SIZE)
    t.cast("machines.Smi", machine.tools["nvidia-smi"]).config.update(driver="535.104.05", faults={"lost_gpus": [3]})
    verdict = machines.judge(machine, machines.expectations(SIZE), names=["gpu_count"])["gpu_count"]

    assert verdict.status == "unhealthy"
    assert "GPU is lost" in verdict.reason


def test_success_with_an_error_text_is_not_success() -> None:
    machine = machines.healthy(SIZE)
    machine.tools["nvidia-smi"] = machines.says(
        "Unable to determine the device handle for GPU 0001:00:00.0: Unknown Error\n"
    )
    verdict = machines.judge(machine, machines.expectations(SIZE), names=["gpu_count"])["gpu_count"]

    assert verdict.status == "unhealthy"


def test_what_gpu_count_judges_is_no_fault_of_other_checks() -> None:
    machine = machines.healthy(SIZE)
    smi = t.cast("machines.Smi", machine.tools["nvidia-smi"])
    config = machines.expectations(SIZE)
    names = [name for name in config["checks"] if name.startswith("gpu_") or name == "nvlink"]
    remembered: dict[str, dict[str, t.Any]] = {}
    for faults in ({"requires_reset": [3]}, {"no_driver": True}, {"lost_gpus": [3]}, {"missing_gpus": [0]}):
        smi.config["faults"] = faults
        for _round in range(5):
            machine.clock += 60
            verdicts = machines.judge(machine, config, remembered, names)

        assert [name for name, verdict in verdicts.items() if verdict.status == "unhealthy"] == ["gpu_count"]
        assert verdicts["gpu_ecc"].status == (
            "healthy" if "reset" not in str(faults) and "driver" not in str(faults) else "unknown"
        )


def test_a_tool_that_hangs_becomes_a_fault_when_it_stays_silent() -> None:
    machine = machines.healthy(SIZE)
    machine.tools["nvidia-smi"] = machines.hangs
    remembered: dict[str, dict[str, t.Any]] = {}
    seen = []
    for _round in range(3):
        machine.clock += 60
        seen.append(machines.judge(machine, machines.expectations(SIZE), remembered, ["gpu_count"])["gpu_count"])

    assert [verdict.status for verdict in seen] == ["unknown", "unhealthy", "unhealthy"]
    assert seen[0].reason == "nvidia-smi gave no answer within 10 s"


def test_a_field_that_an_old_driver_does_not_know_costs_only_its_own_check() -> None:
    machine = machines.healthy(SIZE)
    smi = machine.tools["nvidia-smi"]
    known = [field for field in readings.FIELDS if not field.startswith("remapped_rows")]

    def old(argv: Sequence[str], stdin: str) -> Result:
        if argv[1].startswith("--query-remapped-rows"):
            rows = [f"GPU-0{number:x}000000-0000-4000-8000-000000000000, 0, No, No" for number in range(10, 18)]
            return Result(DONE, 0, "\n".join(rows))
        unknown = [field for field in argv[1].partition("=")[2].split(",") if field not in known]
        if unknown:
            return Result(DONE, 2, f'Field "{unknown[0]}" is not a valid field to query.\n\n')
        return smi(argv, stdin)

    machine.tools["nvidia-smi"] = old
    verdicts = machines.judge(machine, machines.expectations(SIZE), names=["gpu_count", "gpu_ecc", "gpu_remap"])

    assert verdicts["gpu_count"].status == "healthy"
    assert verdicts["gpu_ecc"].status == "healthy"
    assert verdicts["gpu_remap"].status in ("healthy", "unknown")
    assert len([call for call in machine.calls if call[1].startswith("--query-gpu")]) == 2


def test_a_mount_of_a_user_hides_no_other() -> None:
    """The kernel escapes blanks and line breaks in its name, and no other character that ends lines."""
    found = storage.parse_mounts("/dev/sda1 / ext4 rw 0 0\nx /tmp/m\fx\u2028y fuse.x rw 0 0\nnfs:/a /a nfs4 rw 0 0\n")

    assert list(found) == ["/", "/tmp/m\fx\u2028y", "/a"]
