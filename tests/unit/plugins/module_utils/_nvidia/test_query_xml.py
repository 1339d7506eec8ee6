# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""nvidia-smi -q -x: captured from H200 with driver 580.159.04, and simulated for the other generations."""

from __future__ import annotations

import contextlib
import typing as t
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia import query_xml
from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia.report import ParseError, Report
from ansible_collections.hpcai.gpucluster.tests.simulation.nvidia_simulation import cli
from ansible_collections.hpcai.gpucluster.tests.unit.support.nvidia_reports import only

FIXTURES = Path(__file__).parents[3] / "fixtures/nvidia_smi/580.159.04"
REAL = (FIXTURES / "h200-x4-q.xml").read_text(encoding="utf-8")
GENERATIONS = [
    "450.248.02",
    "470.256.02",
    "525.147.05",
    "535.216.03",
    "550.163.01",
    "580.159.04",
    "590.48.01",
    "595.80",
    "610.57.04",
]


def simulated(**config: t.Any) -> Report:
    _code, text = cli.run(["-q", "-x"], config, {})
    return query_xml.parse(text)


def test_four_h200_as_captured() -> None:
    report = query_xml.parse(REAL)
    gpu = report.gpus[0]

    assert (report.driver_version, report.cuda_version, report.attached) == ("580.159.04", "13.0", 4)
    assert (report.lost, report.notes) == ([], [])
    assert [gpu["index"] for gpu in report.gpus] == [0, 1, 2, 3]
    assert [gpu["pci_bus_id"] for gpu in report.gpus] == [f"0000:00:0{number}.0" for number in (6, 7, 8, 9)]
    assert (gpu["name"], gpu["architecture"], gpu["persistence"]) == ("NVIDIA H200", "Hopper", True)
    assert gpu["memory_mib"] == {"total": 143771, "used": 0, "free": 143156, "reserved": 616}
    assert gpu["clocks_mhz"] == {
        "current": {"memory": 3201, "graphics": 345, "sm": 345},
        "application": {"memory": 3201, "graphics": 1980},
        "default_application": {"memory": 3201, "graphics": 1980},
        "max": {"memory": 3201, "graphics": 1980, "sm": 1980},
    }
    assert gpu["best_clocks_mhz"] == {"memory": 3201, "graphics": 1980}
    assert {memory: (len(steps), steps[0], steps[-1]) for memory, steps in gpu["supported_clocks_mhz"].items()} == {
        3201: (110, 1980, 345),
        2201: (110, 1980, 345),
    }
    assert {name: gpu["power_w"][name] for name in ("limit", "enforced_limit", "min_limit", "max_limit")} == {
        "limit": 700.0,
        "enforced_limit": 700.0,
        "min_limit": 200.0,
        "max_limit": 700.0,
    }
    assert gpu["mig"] == {"current": False, "pending": False, "devices": []}
    assert gpu["ecc"]["volatile_uncorrected"] == 0
    assert gpu["remapped_rows"] == {"correctable": 0, "uncorrectable": 0, "pending": False, "failure": False}
    assert gpu["retired_pages"] == {"single_bit": None, "double_bit": None, "pending": None}
    assert gpu["throttle_reasons"] == ["gpu_idle"]
    assert gpu["fabric"] == {"state": "Completed", "status": "Success"}
    assert gpu["pcie"] == {"generation": 5, "generation_max": 5, "width": 16, "width_max": 16}
    assert gpu["faults"] == []


@pytest.mark.parametrize(
    ("old", "new", "said", "keys"),
    [
        ("<gpu_temp>", "<gpu_temp>x", "temperature/gpu_temp is 'x", ("temperature_c", "gpu")),
        (" MiB</total>", " MHz</total>", "fb_memory_usage/total is '143771 MHz'", ("memory_mib", "total")),
        ("<serial>165", "<serial>\x1b[1m165", "serial is '\ufffd[1m165", ("serial",)),
        ("<current_ecc>Enabled", "<current_ecc>Enab1ed", "ecc_mode/current_ecc is 'Enab1ed'", ("ecc", "current")),
        ("<max_link_width>16x", "<max_link_width>1Gx", "max_link_width is '1Gx'", ("pcie", "width_max")),
        ("1980 MHz</supported", "19B0 MHz</supported", "supported_clocks is '19B0 MHz'", ("best_clocks_mhz",)),
        ("<gpu_temp>38 C<", "<gpu_temp>38 C</gpu_temp><gpu_temp>39 C<", "'38 C\ufffd39 C'", ("temperature_c", "gpu")),
        ("<serial>", "<serial>1</serial><serial>", "serial is '1\ufffd165", ("serial",)),
        ("<value>3201 MHz</value>", "", "supported_clocks is ''", ("best_clocks_mhz",)),
        ("<gpu_temp>38 C<", "<gpu_temp><", "temperature/gpu_temp is ''", ("temperature_c", "gpu")),
        ("<dram_correctable>0<", "<dram_correctable><", "dram_correctable is ''", ("ecc", "volatile_corrected")),
        ("1980 MHz</supported", "</supported", "supported_clocks is ''", ("best_clocks_mhz",)),
        ("<pending_blacklist>N/A<", "<pending_blacklist><", "pending_blacklist is ''", ("retired_pages", "pending")),
        (
            "<max_power_limit>700.00 W<",
            "<max_power_limit><",
            "max_power_limit is ''",
            ("power_w", "max_limit"),
        ),
        ("<sram_correctable>0", "<sram_correctable>O", "sram_correctable is 'O'", ("ecc", "volatile_corrected")),
        (
            "<max_power_limit>700.00",
            "<max_power_limit>7OO.00",
            "max_power_limit is '7OO.00 W'",
            ("power_w", "max_limit"),
        ),
    ],
)
def test_a_value_that_cannot_be_read_is_unknown_and_said(old: str, new: str, said: str, keys: tuple[str, ...]) -> None:
    assert old in REAL
    report = query_xml.parse(REAL.replace(old, new, 1))
    found: t.Any = report.gpus[0]
    for key in keys:
        found = found[key]

    assert found is None
    assert len(report.notes) == 1
    assert said in report.notes[0]


def test_a_version_that_cannot_be_read_is_unknown_and_said() -> None:
    report = query_xml.parse(REAL.replace("580.159.04", "580.159.O4"))

    assert report.driver_version is None
    assert report.notes == ["driver_version is '580.159.O4', not understood"]


@pytest.mark.parametrize("other", ["", "00000000:00:06.0"])
def test_a_gpu_that_is_there_twice_is_refused(other: str) -> None:
    block = REAL[REAL.index("<gpu id") : REAL.index("</gpu>") + len("</gpu>")]
    copy = block.replace(other, "00000000:00:05.0") if other else block.replace("GPU-0a", "GPU-0b")
    copies = REAL.replace(block, f"{block}{copy}").replace("<attached_gpus>4", "<attached_gpus>5")

    with pytest.raises(ParseError, match="has one GPU twice"):
        query_xml.parse(copies)


def test_a_counter_that_is_there_twice_is_no_sum() -> None:
    line = next(line for line in REAL.splitlines() if "<sram_correctable>" in line)
    report = query_xml.parse(REAL.replace(line, f"{line}\n{line}", 1))

    assert report.gpus[0]["ecc"]["volatile_corrected"] is None
    assert "a counter of volatile is there twice" in report.notes[0]


def test_a_position_is_no_index_where_gpus_are_missing() -> None:
    report = query_xml.parse(only(REAL, 1))

    assert (report.attached, len(report.gpus)) == (4, 1)
    assert report.gpus[0]["index"] is None
    assert report.gpus[0]["minor_number"] == 1


@pytest.mark.parametrize("driver", GENERATIONS)
def test_every_generation_tells_limits_and_versions(driver: str) -> None:
    report = simulated(driver=driver, gpus={"model": "A100", "count": 2, "memory_mib": 40960})
    gpu = report.gpus[1]

    assert report.driver_version == driver
    assert gpu["power_w"] == {
        "draw": 81.11,
        "limit": 400.0,
        "enforced_limit": 400.0,
        "default_limit": 400.0,
        "min_limit": 100.0,
        "max_limit": 400.0,
    }
    assert gpu["throttle_reasons"] == ["gpu_idle"]
    assert gpu["best_clocks_mhz"] == {"memory": 1215, "graphics": 1410}
    assert gpu["ecc"]["volatile_uncorrected"] == 0
    assert gpu["architecture"] == (None if int(driver[:3]) < 510 else "Ampere")


@pytest.mark.parametrize("driver", GENERATIONS)
def test_application_clocks_end_with_driver_590(driver: str) -> None:
    gpu = simulated(driver=driver, gpus={"model": "H100", "count": 1}).gpus[0]
    deprecated = int(driver[:3]) >= 590

    assert gpu["application_clocks"] == ("deprecated" if deprecated else "available")
    assert gpu["clocks_mhz"]["application"]["graphics"] == (None if deprecated else 1980)
    assert gpu["clocks_mhz"]["max"]["graphics"] == 1980


def test_a_geforce_has_none_and_its_maximum_is_not_settable() -> None:
    gpu = simulated(driver="580.159.04", gpus={"model": "RTX 2080", "count": 1}).gpus[0]

    assert gpu["application_clocks"] == "unsupported"
    assert gpu["clocks_mhz"]["max"]["graphics"] == 3060
    assert gpu["best_clocks_mhz"] == {"memory": 7751, "graphics": 2220}


def test_mig_devices_are_listed_under_their_gpu() -> None:
    gpu = simulated(gpus={"count": 2}, faults={"mig": [1]}).gpus[1]

    assert gpu["mig"]["current"] is True
    assert [(device["index"], device["gpu_instance"]) for device in gpu["mig"]["devices"]] == [(0, 1), (1, 2)]


def test_lost_gpus_are_named_and_the_rest_is_read() -> None:
    report = simulated(driver="610.57.04", gpus={"count": 4}, faults={"lost_gpus": [1]})

    assert report.lost == [{"pci_bus_id": "0000:00:07.0", "reason": "Unknown Error"}]
    assert [gpu["pci_bus_id"] for gpu in report.gpus] == ["0000:00:06.0", "0000:00:08.0", "0000:00:09.0"]


def test_a_gpu_that_requires_a_reset_has_a_fault_and_no_values() -> None:
    gpu = simulated(gpus={"count": 2}, faults={"requires_reset": [0]}).gpus[0]

    assert gpu["faults"] == ["GPU requires reset"]
    assert gpu["persistence"] is None
    assert gpu["clocks_mhz"]["current"] == {"memory": None, "graphics": None, "sm": None}


def test_warnings_around_the_document_are_notes() -> None:
    line = "WARNING: infoROM is corrupted at gpu 0000:00:06.0"

    assert query_xml.parse(f"some banner\n{REAL}\n{line}\n").notes == ["some banner", line]


def test_counters_of_gpus_before_volta() -> None:
    old = REAL.replace("<volatile>", "<volatile><double_bit><total>3</total></double_bit>")

    assert query_xml.parse(old).gpus[0]["ecc"]["volatile_uncorrected"] == 3


def test_the_external_dtd_and_entities_are_never_used() -> None:
    document = '<?xml version="1.0"?><!DOCTYPE nvidia_smi_log [<!ENTITY x SYSTEM "file:///etc/hostname">]><nvidia_smi_log>&x;</nvidia_smi_log>'

    with pytest.raises(ParseError, match="malformed"):
        query_xml.parse(document)


@pytest.mark.parametrize(
    "text",
    ["", "No devices were found\n", "<nvidia_smi_log>", "</nvidia_smi_log><nvidia_smi_log>", REAL[: len(REAL) // 2]],
)
def test_what_is_no_document_is_refused(text: str) -> None:
    with pytest.raises(ParseError):
        query_xml.parse(text)


@settings(deadline=None)
@given(st.text())
def test_no_text_makes_the_parser_fail_otherwise(text: str) -> None:
    for document in (
        text,
        f"<nvidia_smi_log>{text}</nvidia_smi_log>",
        f"<nvidia_smi_log><gpu>{text}</gpu></nvidia_smi_log>",
    ):
        with contextlib.suppress(ParseError):
            query_xml.parse(document)


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.integers(0, len(REAL)), st.integers(0, 300), st.text(max_size=20))
def test_no_damage_to_a_real_document_makes_the_parser_fail_otherwise(start: int, length: int, junk: str) -> None:
    with contextlib.suppress(ParseError):
        query_xml.parse(REAL[:start] + junk + REAL[start + length :])


CELLS = st.sampled_from(
    ["N/A", "[N/A]", "", "1980 MHz", "-1", "1e9", "None", "9" * 400, "½", "GPU is lost", "Enabled", "<x/>"]
)


@settings(max_examples=40, deadline=None)
@given(st.lists(CELLS, min_size=8, max_size=8))
def test_no_value_makes_the_parser_fail(cells: list[str]) -> None:
    tags = ["persistence_mode", "uuid", "minor_number", "product_name", "performance_state"]
    body = "".join(f"<{tag}>{cell}</{tag}>" for tag, cell in zip(tags, cells))
    body += f"<pci><pci_bus_id>{cells[5]}</pci_bus_id></pci><clocks><sm_clock>{cells[6]}</sm_clock></clocks>"
    body += f"<supported_clocks><supported_mem_clock><value>{cells[7]}</value></supported_mem_clock></supported_clocks>"

    report = query_xml.parse(f"<nvidia_smi_log><gpu>{body}</gpu></nvidia_smi_log>")

    assert len(report.gpus) == 1
