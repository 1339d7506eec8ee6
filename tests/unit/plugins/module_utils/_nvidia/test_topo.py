# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""nvidia-smi topo -m of several ages, as captured and as pasted."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia import topo
from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia.report import ParseError

REAL = (Path(__file__).parents[3] / "fixtures/nvidia_smi/580.159.04/h200-x4-topo-m.txt").read_text(encoding="utf-8")


def test_four_h200_as_captured_with_ansi_codes() -> None:
    topology = topo.parse(REAL)

    assert topology["nics"] == []
    assert topology["gpus"][1] == {
        "index": 1,
        "name": "GPU1",
        "links": {"GPU0": "NV18", "GPU2": "NV18", "GPU3": "NV18"},
        "cpus": "0-63",
        "numa_nodes": "0",
        "gpu_numa_node": None,
    }


def test_a_pasted_copy_with_blanks_reads_the_same() -> None:
    assert topo.parse(REAL.expandtabs(8).replace("\x1b[4m", "").replace("\x1b[0m", "")) == topo.parse(REAL)


NEW = (
    "\t\x1b[4mGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
    "GPU0\t X \tNV12\tPXB\tSYS\t0-47,96-143\t0-3\t\tN/A\n"
    "GPU1\tNV12\t X \tNODE\tPIX\t0,2,4\t0,8,252-255\t\t1\n"
    "NIC0\tPXB\tNODE\t X \tSYS\t\t\t\t\n"
    "NIC1\tSYS\tPIX\tSYS\t X \n"
    "\nLegend:\n\n  X    = Self\n  NV#  = Connection traversing a bonded set of # NVLinks\n"
    "\nNIC Legend:\n\n  NIC0: mlx5_10\n  NIC1: mlx5_2\n"
)


def test_adapters_of_new_drivers_have_a_legend() -> None:
    topology = topo.parse(NEW)

    assert [(gpu["cpus"], gpu["numa_nodes"], gpu["gpu_numa_node"]) for gpu in topology["gpus"]] == [
        ("0-47,96-143", "0-3", None),
        ("0,2,4", "0,8,252-255", "1"),
    ]
    assert topology["nics"] == [
        {"name": "NIC0", "device": "mlx5_10", "links": {"GPU0": "PXB", "GPU1": "NODE", "NIC1": "SYS"}},
        {"name": "NIC1", "device": "mlx5_2", "links": {"GPU0": "SYS", "GPU1": "PIX", "NIC0": "SYS"}},
    ]


def test_adapters_of_old_drivers_go_by_their_device() -> None:
    old = (
        "\tGPU0\tGPU1\tmlx5_0\tCPU Affinity\nGPU0\t X \tSOC\tPHB\t0-9\nGPU1\tSOC\t X \tSOC\t\nmlx5_0\tPHB\tSOC\t X \t\n"
    )
    topology = topo.parse(old)

    assert [(gpu["cpus"], gpu["numa_nodes"]) for gpu in topology["gpus"]] == [("0-9", None), (None, None)]
    assert topology["nics"] == [{"name": "mlx5_0", "device": "mlx5_0", "links": {"GPU0": "PHB", "GPU1": "SOC"}}]


def test_a_lost_tab_between_two_links_does_no_harm() -> None:
    assert topo.parse(NEW.replace("NODE\tPIX", "NODEPIX")) == topo.parse(NEW)
    assert topo.parse(NEW.replace(" X \tNODE", "X NODE")) == topo.parse(NEW)


def test_the_affinity_seen_from_inside_a_job_may_be_empty() -> None:
    (gpu, *_rest) = topo.parse(NEW.replace("0-47,96-143", ""))["gpus"]

    assert (gpu["cpus"], gpu["numa_nodes"]) == (None, "0-3")


@pytest.mark.parametrize(
    "text", ["", "ERROR: Option -m is missing its value.  Please run 'nvidia-smi -h'.\n", "No devices were found\n"]
)
def test_what_is_no_table_is_refused(text: str) -> None:
    with pytest.raises(ParseError, match="no table"):
        topo.parse(text)


@settings(deadline=None)
@given(st.text(), st.integers(0, len(NEW)), st.integers(0, 40))
def test_no_damage_makes_the_parser_fail_otherwise(junk: str, start: int, length: int) -> None:
    for text in (junk, NEW[:start] + junk + NEW[start + length :]):
        with contextlib.suppress(ParseError):
            topo.parse(text)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("GPU1\tNV12", "GPU1\tNW12", "no readable row of GPU1"),
        ("GPU1\tNV12\t X \tNODE\tPIX\t0,2,4\t0,8,252-255\t\t1\n", "", "no readable row of GPU1"),
        ("GPU1\tNV12", "GPU0\tNV12", "no readable row of GPU1"),
        ("\tGPU1\tNIC0", "\tNIC0", "no column of GPU1"),
        ("\tNIC1\tCPU", "\tCPU", "no column of NIC1"),
        ("NIC1\tSYS", "NIC0\tSYS", "no readable row of NIC1"),
        ("\nLegend", "GPU0\t X \tNV12\tPXB\tSYS\t0-47\n\nLegend", "two rows of GPU0"),
    ],
)
def test_a_gpu_that_cannot_be_read_is_no_gpu_less(old: str, new: str, words: str) -> None:
    assert old in NEW
    with pytest.raises(ParseError, match=words):
        topo.parse(NEW.replace(old, new, 1))


@pytest.mark.parametrize("numbers", ["0,0", "0-3,1", "3-0", "4294967295000", "0x", "0-47.0"])
def test_what_is_no_list_of_cpus_is_refused(numbers: str) -> None:
    with pytest.raises(ParseError, match="in place of CPUs or a NUMA node"):
        topo.parse(NEW.replace("0-47,96-143", numbers, 1))


@pytest.mark.parametrize("text", [NEW, REAL], ids=["new", "captured"])
def test_no_cut_and_no_lost_piece_loses_a_gpu_silently(text: str) -> None:
    whole = [gpu["name"] for gpu in topo.parse(text)["gpus"]]
    lost = []
    for start in range(len(text)):
        for length in (1, 2, 7, 40, len(text)):
            with contextlib.suppress(ParseError):
                damaged = text[:start] + text[start + length :]
                if [gpu["name"] for gpu in topo.parse(damaged)["gpus"]] != whole:
                    lost.append(damaged)

    assert lost == []
