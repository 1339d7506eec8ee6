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

from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia import query_csv
from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia.report import ParseError
from ansible_collections.hpcai.gpucluster.tests.simulation.nvidia_simulation import cli

FIXTURES = Path(__file__).parents[3] / "fixtures/nvidia_smi/580.159.04"
ROW = "0, GPU-0a, 00000000:00:06.0, 34"
ASKED = ("index", "uuid", "pci.bus_id", "temperature.gpu")


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


def test_lost_gpus_and_warnings_between_the_rows() -> None:
    config = {
        "driver": "580.159.04",
        "gpus": {"count": 3},
        "faults": {"lost_gpus": [0], "warnings": ["infoROM is corrupted"]},
    }

    query = [f"--query-gpu={','.join(ASKED)}", "--format=csv,noheader,nounits"]
    table = query_csv.table(cli.run(query, config, {})[1], ASKED)

    assert [row["index"] for row in table.rows] == ["1", "2"]
    assert table.lost == [{"pci_bus_id": "0000:00:06.0", "reason": "Unknown Error"}]
    assert table.warnings == ["WARNING: infoROM is corrupted"]


@settings(deadline=None)
@given(st.text())
def test_no_text_makes_a_parser_fail_otherwise(text: str) -> None:
    with contextlib.suppress(ParseError):
        query_csv.table(text, ASKED)
    with contextlib.suppress(ParseError):
        query_csv.parse_processes(text)


@settings(deadline=None)
@given(
    st.lists(
        st.text(alphabet=st.characters(blacklist_characters=",\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"), min_size=1),
        min_size=4,
        max_size=4,
    )
)
def test_no_row_makes_the_parser_fail_otherwise(cells: list[str]) -> None:
    with contextlib.suppress(ParseError):
        query_csv.table(", ".join(cells), ASKED)


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


def test_a_blank_of_another_alphabet_is_no_blank() -> None:
    for blank in "\xa0\u2003\u3000":
        with pytest.raises(ParseError, match="found temperature"):
            query_csv.table(f"{ROW}{blank}2\n", ASKED)


@pytest.mark.parametrize(
    "row",
    ["GPU-\ufffda, 12, python, 100", "GPU-a, 18446744073709551615, x, 1", "GPU-a, -12, x, 1", "GPU-a, 3201, 1980"],
)
def test_a_process_that_cannot_be_read_is_refused(row: str) -> None:
    with pytest.raises(ParseError, match="expected a process"):
        query_csv.parse_processes(row)
