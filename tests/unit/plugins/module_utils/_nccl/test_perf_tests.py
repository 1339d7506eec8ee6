# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re
import statistics
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.hpcai.gpucluster.plugins.module_utils._nccl import perf_tests

FIXTURES = Path(__file__).parents[3] / "fixtures/nccl_tests"
ALL = sorted(FIXTURES.rglob("*.txt"), key=str)

# rows, first redop, first root, bus bandwidth at the largest size, and whether the result was checked
FACTS = {
    "2.11.0/4xh200-a2a": (4, None, None, 254.47, True),
    "2.11.0/4xh200-allreduce": (14, "sum", None, 347.37, True),
    "2.11.0/4xh200-bcast": (4, None, 0, 312.79, True),
    "2.11.0/4xh200-sendrecv": (4, None, None, 157.22, True),
    "2.16.9/4xh200-allgather": (4, "none", -1, 265.95, False),
    "2.19.6/2xh200-srun-pmix": (13, "sum", -1, 345.36, True),
    "2.19.6/4xh200-a2a": (5, "none", -1, 305.95, True),
    "2.19.6/4xh200-allreduce-N3": (3, "sum", -1, 313.37, True),
    "2.19.6/4xh200-allreduce-g4": (14, "sum", -1, 347.53, True),
    "2.19.6/4xh200-allreduce-t4": (7, "sum", -1, 314.55, True),
    "2.19.6/4xh200-gather": (4, "none", 0, 359.85, True),
    "2.19.6/4xh200-hypercube": (4, None, -1, 193.96, True),
    "2.19.6/4xh200-mem": (3, "sum", -1, 251.57, True),
    "2.19.6/4xh200-minbw-fail-json": (3, "sum", -1, 340.51, True),
    "2.19.6/4xh200-oom": (1, "sum", -1, 345.95, True),
    "2.19.6/4xh200-rs": (5, "sum", -1, 305.15, True),
    "2.19.6/4xh200-split": (4, "sum", -1, 312.5, True),
}


def read(name: str) -> str:
    return (FIXTURES / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", sorted(FACTS))
def test_every_era_is_read(name: str) -> None:
    report = perf_tests.parse(read(f"{name}.txt"))

    assert (
        len(report.rows),
        report.rows[0].redop,
        report.rows[0].root,
        report.busbw,
        report.checked,
    ) == FACTS[name]
    assert report.complete


@pytest.mark.parametrize("path", ALL, ids=lambda path: str(path.relative_to(FIXTURES)))
def test_no_row_of_a_table_is_lost(path: Path) -> None:
    text = path.read_text(encoding="utf-8")

    assert len(perf_tests.parse(text).rows) == len(re.findall(r"^ +\d+ +\d+ +[a-z]", text, re.MULTILINE))


@pytest.mark.parametrize("path", ALL, ids=lambda path: str(path.relative_to(FIXTURES)))
def test_the_average_is_the_mean_of_all_cells(path: Path) -> None:
    report = perf_tests.parse(path.read_text(encoding="utf-8"))
    if report.rows:
        cells = [side.busbw for row in report.rows for side in (row.out_of_place, row.in_place)]

        assert report.average == pytest.approx(statistics.mean(cells), rel=1e-3)
        assert report.busbw is not None


def test_the_figure_is_the_largest_size_and_not_the_average() -> None:
    report = perf_tests.parse(read("2.19.6/4xh200-allreduce-g4.txt"))

    assert (report.largest, report.busbw, report.average) == (536870912, 347.53, 92.5986)


def test_versions_and_ranks_are_known() -> None:
    report = perf_tests.parse(read("2.19.6/2xh200-srun-pmix.txt"))

    assert (report.version, report.nccl) == ("2.19.6", "2.28.9")
    assert report.ranks[1] == {"rank": 1, "host": "vm", "device": 1, "bus": "0000:00:07", "name": "NVIDIA H200"}
    assert perf_tests.nccl_version(2804) == "2.8.4"


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("2.19.6/4xh200-hypercube", 7, "wrong results: 8 values out of bounds"),
        ("2.19.6/4xh200-minbw-fail-json", 7, "below NCCL_TESTS_MIN_BW"),
        ("2.19.6/4xh200-badnet", 3, "NCCL error: vm: Test NCCL failure common.cu:222"),
        ("2.19.6/4xh200-allreduce-g4", 124, "took too long"),
        ("2.19.6/4xh200-allreduce-g4", 0, None),
        ("2.11.0/4xh200-a2a", 0, None),
    ],
)
def test_a_failed_run_is_no_measurement(name: str, code: int, message: str | None) -> None:
    found = perf_tests.problem(perf_tests.parse(read(f"{name}.txt")), code)

    assert (message is None and found is None) or (message is not None and found is not None and message in found)


def test_usage_text_with_exit_status_0_is_no_pass() -> None:
    assert "no measurement" in str(perf_tests.problem(perf_tests.parse("USAGE: all_reduce_perf \n\t[-t]\n"), 0))


@settings(max_examples=60, deadline=None)
@given(cut=st.integers(0, len(read("2.19.6/4xh200-allreduce-g4.txt")) - 140))
def test_a_cut_output_is_never_a_pass(cut: int) -> None:
    report = perf_tests.parse(read("2.19.6/4xh200-allreduce-g4.txt")[:cut])

    assert not report.complete
    assert perf_tests.problem(report, 0) is not None


@pytest.mark.parametrize(
    "prefix", ["[1,0]<stdout>:", "  [1,0]<stdout>:", "\t[1,12]<stdout>:   ", "0: ", " 7: ", "\t", ""]
)
@pytest.mark.parametrize("path", ALL, ids=lambda path: str(path.relative_to(FIXTURES)))
def test_prefixes_of_launchers_change_nothing(prefix: str, path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    prefixed = "\n".join(prefix + line for line in text.splitlines())

    assert perf_tests.parse(prefixed)._replace(errors=[]) == perf_tests.parse(text)._replace(errors=[])


def test_lines_of_nccl_inside_the_table_are_passed_over() -> None:
    noise = "gpu1:746:760 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM"
    text = read("2.11.0/4xh200-allreduce.txt")

    assert perf_tests.parse(f"\n{noise}\n".join(text.splitlines())) == perf_tests.parse(text)


def test_columns_that_touch_are_taken_apart() -> None:
    row = "  1048576  262144  float  sum  -1  1234567.891234.561234.56  0  12436.0  345.36  345.36  0"

    assert perf_tests.parse(row).rows[0].out_of_place == (1234567.89, 1234.56, 1234.56, 0)


def test_extra_columns_and_the_time_stamp_of_newer_programs_are_known() -> None:
    row = (
        "  8388608  2097152  float  sum  -1  62.28 134.68 202.03 0 60.1 64.2 64.0 1.20"
        "  61.39 136.65 204.97 0 60.0 63.1 63.0 1.10 2026-11-20 07:54:25"
    )
    found = perf_tests.parse(row).rows[0]

    assert (found.redop, found.root, found.out_of_place.busbw, found.in_place.busbw) == ("sum", -1, 202.03, 204.97)


def test_json_is_read_without_the_environment() -> None:
    text = read("2.19.6/4xh200-allreduce.json").replace('"env": []', '"env": ["TOKEN=hunter2"]')
    report = perf_tests.parse_json(text)

    assert (len(report.rows), report.nccl, report.complete) == (7, "2.28.9", True)
    assert report.busbw == pytest.approx(339.164848)
    assert "hunter2" not in str(report)
    assert not perf_tests.parse_json(text[:900]).complete
    assert not perf_tests.parse_json('{"version": 3, "end_time": "2026"}').complete


@pytest.mark.parametrize(
    ("path", "smallest", "largest", "words"),
    [
        ("2.19.6/2xh200-srun-pmix", "1M", "4G", None),
        ("2.19.6/2xh200-srun-pmix", "1M", "6G", None),  # the next step is 8 GiB
        ("2.19.6/2xh200-srun-pmix", "1048576", "4294967296", None),
        ("2.19.6/2xh200-srun-pmix", "1M", "8g", "measured up to 4294967296 bytes only, not 8589934592"),
        ("2.19.6/2xh200-srun-pmix", "16G", "16G", "measured up to 4294967296 bytes only, not 17179869184"),
        ("2.19.6/2xh200-srun-pmix", "1M", "a lot", None),  # the program refuses that
        ("2.19.6/2xh200-srun-pmix", "8G", "4G", None),
        (
            "2.19.6/4xh200-oom",
            "64G",
            "64G",
            "measured up to 48247057064 bytes only, not 68719476736: the memory is enough",
        ),
        ("2.19.6/4xh200-oom", "44G", "44G", None),
    ],
)
def test_a_run_that_did_not_reach_the_size_that_was_asked_for_is_told(
    path: str, smallest: str, largest: str, words: str | None
) -> None:
    found = perf_tests.too_small(perf_tests.parse(read(f"{path}.txt")), smallest, largest, 2)

    assert found is None if words is None else words in str(found)


def test_a_size_that_ranks_round_down_is_the_one_that_was_asked_for() -> None:
    row = "  1048560  262140  float  none  -1  12.3  1.0  1.0  0  12.3  1.0  1.0  0"

    assert perf_tests.too_small(perf_tests.parse(row), "1M", "1M", 2) is None
