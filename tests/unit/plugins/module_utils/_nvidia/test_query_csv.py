# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CSV answers of nvidia-smi."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia import query_csv, query_xml
from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia.report import ParseError
from ansible_collections.hpcai.gpucluster.tests.simulation.nvidia_simulation import cli

FIXTURES = Path(__file__).parents[3] / "fixtures/nvidia_smi/580.159.04"
QUERY = [f"--query-gpu={','.join(query_csv.FIELDS)}", "--format=csv,noheader,nounits"]
SUPPORTED = [f"--query-supported-clocks={','.join(query_csv.SUPPORTED_FIELDS)}", "--format=csv,noheader,nounits"]


def test_cells_are_matched_by_position_since_the_header_prints_other_names() -> None:
    text = (FIXTURES / "h200-query-alias.csv").read_text(encoding="utf-8")
    data, other = query_csv.rows(text, 14)

    assert [len(row) for row in data] == [14, 14]
    assert data[0][0] == "name"  # asked for as gpu_name
    assert data[1][2] == "GPU-0a000000-0000-4000-8000-000000000000"
    assert other == []


def test_captured_rows_have_as_many_cells_as_fields() -> None:
    data, other = query_csv.rows((FIXTURES / "h200-x4-query-nounits.csv").read_text(encoding="utf-8"), 33)

    assert [row[1] for row in data] == ["0", "1", "2", "3"]
    assert other == []


@pytest.mark.parametrize("driver", ["450.248.02", "535.216.03", "580.159.04", "610.57.04"])
@pytest.mark.parametrize("model", ["A100", "H200", "RTX 2080", "V100"])
def test_both_ways_of_reading_agree(driver: str, model: str) -> None:
    config = {"driver": driver, "gpus": {"model": model, "count": 3}, "persistence": True, "faults": {"mig": [2]}}
    by_xml = query_xml.parse(cli.run(["-q", "-x"], config, {})[1])
    by_csv = query_csv.parse_gpus(
        cli.run(QUERY, config, {})[1], query_csv.parse_supported(cli.run(SUPPORTED, config, {})[1])
    )
    same = ("index", "uuid", "pci_bus_id", "name", "persistence", "clocks_mhz", "application_clocks", "power_w",
            "best_clocks_mhz", "supported_clocks_mhz", "performance_state", "faults")  # fmt: skip

    assert by_xml.driver_version == by_csv.driver_version
    for left, right in zip(by_xml.gpus, by_csv.gpus):
        assert set(left) == set(right)
        assert {key: left[key] for key in same} == {key: right[key] for key in same}


def test_lost_gpus_and_warnings_between_the_rows() -> None:
    config = {
        "driver": "580.159.04",
        "gpus": {"count": 3},
        "faults": {"lost_gpus": [0], "warnings": ["infoROM is corrupted"]},
    }

    report = query_csv.parse_gpus(cli.run(QUERY, config, {})[1], {})

    assert [gpu["index"] for gpu in report.gpus] == [1, 2]
    assert report.lost == [{"pci_bus_id": "0000:00:06.0", "reason": "Unknown Error"}]
    assert report.notes == ["WARNING: infoROM is corrupted"]


@settings(deadline=None)
@given(st.text())
def test_no_text_makes_a_parser_fail_otherwise(text: str) -> None:
    with contextlib.suppress(ParseError):
        query_csv.parse_gpus(text, {})
    with contextlib.suppress(ParseError):
        query_csv.parse_supported(text)


@settings(deadline=None)
@given(
    st.lists(
        st.text(alphabet=st.characters(blacklist_characters=",\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"), min_size=1),
        min_size=35,
        max_size=35,
    )
)
def test_no_row_makes_the_parser_fail_otherwise(cells: list[str]) -> None:
    with contextlib.suppress(ParseError):
        query_csv.parse_gpus(", ".join(cells), {})


def test_half_of_a_pair_of_clocks_is_no_pair() -> None:
    rows = "GPU-a, 2619, 1980\nGPU-a, [N/A], 1965\nGPU-a, 2619, [N/A]\nGPU-a, 2619, 1965\n"

    assert query_csv.parse_supported(rows) == {"GPU-a": {2619: [1980, 1965]}}


@pytest.mark.parametrize(
    "row", ["GPU-a, 2619, 19B0", "GPU-a, 2619", "GPU-a, 2619 MHz, 1980", "\ufeffGPU-a, 2619, 1980", "G"]
)
def test_a_clock_that_cannot_be_read_leaves_no_best_clock(row: str) -> None:
    with pytest.raises(ParseError):
        query_csv.parse_supported(f"{row}\nGPU-a, 2619, 1965\n")


ROW = "0, GPU-0a, 00000000:00:06.0, 34"
ASKED = ("index", "uuid", "pci.bus_id", "temperature.gpu")


@pytest.mark.parametrize(
    "text",
    [
        f"\ufeff{ROW}",
        f"\x1b[1m{ROW}",
        f"{ROW}\n{ROW}",
        f"{ROW}\n0, GPU-0b, 00000000:00:07.0, 34",
        f"{ROW}\n1, GPU-0a, 00000000:00:07.0, 34",
        f"{ROW}\n1, GPU-0b, 00000000:00:06.0, 34",
        f"{ROW}\n2, GPU-0b, 00000000:00:08.0, 34",
        "O, GPU-0a, 00000000:00:06.0, 34",
        "0, GPU_0a, 00000000:00:06.0, 34",
        "0, GPU-0a, 00000000:00:O6.0, 34",
        "0, GPU-0a, 00000000:00:06.0, 3\u200b4",
    ],
)
def test_a_damaged_or_doubled_row_is_refused(text: str) -> None:
    with pytest.raises(ParseError):
        query_csv.table(text, ASKED)


def test_a_lost_gpu_explains_a_gap() -> None:
    lost = "Unable to determine the device handle for GPU1: 0000:00:07.0: Unknown Error"

    assert len(query_csv.table(f"{lost}\n{ROW}\n2, GPU-0b, 00000000:00:08.0, 34", ASKED).rows) == 2


def test_a_sick_gpu_keeps_its_row() -> None:
    row = "[GPU requires reset], [GPU requires reset], 00000000:00:06.0, ERR!"

    assert len(query_csv.table(f"{row}\n{row.replace('06.0', '07.0')}", ASKED).rows) == 2


def test_a_value_that_cannot_be_read_is_unknown_and_said() -> None:
    config = {"gpus": {"count": 2}, "values": {"1": {"temperature.gpu": "3x", "driver_version": "580.159.O4"}}}
    report = query_csv.parse_gpus(cli.run(QUERY, config, {})[1], {})

    assert report.driver_version is None
    assert report.gpus[1]["temperature_c"]["gpu"] is None
    assert len(report.notes) == 1
    assert "GPU 0000:00:07.0: " in report.notes[0]
    assert "temperature.gpu is '3x', not understood" in report.notes[0]
    assert "driver_version is '580.159.O4', not understood" in report.notes[0]


def test_a_blank_of_another_alphabet_is_no_blank() -> None:
    for blank in "\xa0\u2003\u3000":
        with pytest.raises(ParseError, match="found memory"):
            query_csv.parse_supported(f"GPU-a, 320{blank}, 1980\n")


@pytest.mark.parametrize(
    "row",
    ["GPU-\ufffda, 12, python, 100", "GPU-a, 18446744073709551615, x, 1", "GPU-a, -12, x, 1", "GPU-a, 3201, 1980"],
)
def test_a_process_that_cannot_be_read_is_refused(row: str) -> None:
    with pytest.raises(ParseError, match="expected a process"):
        query_csv.parse_processes(row)
