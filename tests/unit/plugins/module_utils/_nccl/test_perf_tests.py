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
    "prefix",
    [
        *("[1,0]<stdout>:", "  [1,0]<stdout>:", "\t[1,12]<stdout>:   ", "0: ", " 7: ", "\t", ""),
        *("[prterun-n1-1234@1,0]<stdout>:", "[prterun-n1-1234@1,0][n1:77]<stdout>:", "[prterun-n1-1234@1,0]<stdout>: "),
        *("[0] ", "[default0]:", "Wed Nov 25 10:11:12 2026<stdout>:", "Wed Nov 25 10:11:12 2026[1,0]<stdout>:"),
        *("2026-11-25T10:11:12.123Z ", "[2026-11-25 10:11:12] [0] ", "10:11:12.5 0: ", "Nov  5 10:11:12 "),
        *("n1: ", "10.0.0.1: ", "rank0: ", "Nov 25 10:11:12 n1 slurmd[77]: ", "2026-11-25T10:11:12+00:00 n1 job[7]: "),
        *("1763623000 ", "1763623000.123 ", "1763623000123 ", "1763623000: ", "n1: 1763623000.5 "),
    ],
)
def test_prefixes_of_launchers_change_nothing(prefix: str) -> None:
    for path in ALL:
        text = path.read_text(encoding="utf-8")
        prefixed = "\n".join(prefix + line for line in text.splitlines())

        # Only a failure says them.
        found, wanted = (perf_tests.parse(one)._replace(errors=[], said="") for one in (prefixed, text))
        assert found == wanted, path


def rows_of(text: str) -> list[int]:
    return [number for number, line in enumerate(text.splitlines()) if re.match(r" +\d+ +\d+ +[a-z]", line)]


@pytest.mark.parametrize("path", ALL, ids=lambda path: str(path.relative_to(FIXTURES)))
def test_a_table_with_a_row_too_few_or_too_many_is_no_measurement(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    assert perf_tests.damage(perf_tests.parse(text)) is None

    for place in rows_of(text):
        twice = perf_tests.parse("\n".join([*lines[: place + 1], *lines[place:]]))
        assert "there twice" in str(perf_tests.damage(twice))
        # Of many rows of one size, one with the mean of all can be lost without a trace.
        if len({lines[row].split()[0] for row in rows_of(text)}) > 1:
            fewer = perf_tests.parse("\n".join([*lines[:place], *lines[place + 1 :]]))
            assert perf_tests.damage(fewer), lines[place]


@pytest.mark.parametrize(("old", "new"), [("347.53", "947.53"), ("347.53", "3475.3"), ("347.53", "34O.53")])
def test_a_damaged_figure_is_no_measurement(old: str, new: str) -> None:
    text = read("2.19.6/4xh200-allreduce-g4.txt").replace(old, new)

    assert "rows are lost, doubled or damaged" in str(perf_tests.problem(perf_tests.parse(text)))


def table(*sizes: int) -> str:
    """Return a table whose rows of equal sizes have other times."""
    half = "{number}.5 10.00 10.00 0"
    rows = [f"{size} {size // 4} float sum -1 {half} {half}".format(number=number) for number, size in enumerate(sizes)]
    return "\n".join([*rows, "# Out of bounds values : 0 OK", "# Avg bus bandwidth    : 10"])


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ([1 << power for power in range(20, 30)], None),
        ([1 << power for power in range(20, 30) if power != 25], "between 16777216 and 67108864 bytes"),
        ([1 << power for power in range(20, 34, 2) if power != 26], "between 16777216 and 268435456 bytes"),
        ([1000, 2000, 3000, 4000, 5000], None),  # -i
        ([1000, 2000, 4000, 5000], "between 2000 and 4000 bytes"),
        ([0, 48, 96, 240, 496, 1008], None),  # rounded to multiples of three ranks
        ([8, 16, 32, 8, 16, 32], None),  # two types
        ([8, 16, 32, 8, 32], "the same sizes in the same order"),
        ([9048576000, 2097152, 4194304, 8388608], "the same sizes in the same order"),
        ([1 << 33], None),
    ],
)
def test_sizes_grow_by_one_factor_or_step(sizes: list[int], words: str | None) -> None:
    found = perf_tests.problem(perf_tests.parse(table(*sizes)))

    assert found is None if words is None else words in str(found)


def test_programs_that_ran_alone_are_named_as_that() -> None:
    """Eight programs on one node, built without MPI: each has the rank 0 of one, and a bus bandwidth of 0."""
    one = """\
#  Rank  0 Group  0 Pid {pid} on  n1 device  {device} [0000:00:0{device}] NVIDIA H100 80GB HBM3
  8589934592  2147483648  float  sum  -1  500{device}.6  1715.44  0.00  0  0.78  43046.10  0.00  N/A
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 0
"""
    report = perf_tests.parse("".join(one.format(pid=70 + device, device=device) for device in range(8)))

    words = "8 programs ran, each alone: every one has a rank 0. The program was built without MPI"
    assert str(perf_tests.problem(report)).startswith(words)
    assert perf_tests.problem(perf_tests.parse(one.format(pid=70, device=0))) is None


def test_lines_of_nccl_inside_the_table_are_passed_over() -> None:
    noise = "gpu1:746:760 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM"
    text = read("2.19.6/4xh200-allreduce-g4.txt")

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


@pytest.mark.parametrize(
    ("code", "printed", "message"),
    [
        pytest.param(
            127,
            "srun: error: gpu1: task 0: Exited\nx: error while loading shared libraries: libnccl.so.2",
            "command or library not found: x: error while loading shared libraries: libnccl.so.2",
            id="library",
        ),
        pytest.param(
            2,
            "slurmstepd: error: execve(): x: No such file or directory\nsrun: error: a: task 0: Exited",
            "exit status 2: slurmstepd: error: execve(): x: No such file or directory",
            id="no-program",
        ),
        pytest.param(2, "x: unknown option -q", "exit status 2: x: unknown option -q", id="argument"),
    ],
)
def test_a_failure_says_what_the_program_wrote(code: int, printed: str, message: str) -> None:
    assert perf_tests.problem(perf_tests.parse(printed), code) == message


def test_programs_that_ran_alone_are_named_without_ranks_and_with_equal_pids() -> None:
    """In containers, all programs may have the same PID; and not every build prints its ranks."""
    text = (FIXTURES / "2.19.6/4xh200-allreduce-g4.txt").read_text(encoding="utf-8")
    unranked = "".join(line for line in text.splitlines(keepends=True) if "Rank" not in line)

    for one in (text, unranked):
        assert perf_tests.problem(perf_tests.parse(one)) is None
        assert "2 programs ran, each alone" in str(perf_tests.problem(perf_tests.parse(one + one)))


@pytest.mark.parametrize(
    "line",
    [
        "By default, the number of ranks of each node is half of its cores; use --map-by",
        "gpu1:1:2 [0] NCCL INFO Using 24 channels, double binary trees were chosen for 8 nodes",
    ],
)
def test_prose_among_the_rows_is_no_damage(line: str) -> None:
    text = (FIXTURES / "2.19.6/2xh200-srun-pmix.txt").read_text(encoding="utf-8")

    assert perf_tests.damage(perf_tests.parse(f"{line}\n{text}")) is None


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        # The average is the same without a small figure.
        ("    24.64    0.00    0.00 ", "    24.64    0,00    0.00 ", "is not understood"),
        ("    24.64    0.00    0.00 ", "    24.64    0.00   -0.00 ", "is not understood"),
        ("     sum      -1    24.64", "     sum    24.64", "is not understood"),  # as before 2.13
        ("     sum      -1    24.64", "     sum   1e999    24.64", "is not understood"),
        ("           8             2     float", "          -8             2     float", "is not understood"),
        ("#  Rank  2 Group", "#  Rank  0x Group", "'#  Rank  0x Group  0 Pid"),
        ("#  Rank  2 Group", "#  Rank  7 Group", "the ranks [0, 1, 3, 7] are listed"),
        ("#  Rank  2 Group", "#  Lost  2 Group", "the ranks [0, 1, 3] are listed"),
        ("#  Rank  3 Group", "#  Lost  3 Group", "the ranks [0, 1, 2] are listed"),
    ],
)
def test_a_row_or_a_rank_that_is_not_understood_is_said(old: str, new: str, words: str) -> None:
    text = read("2.19.6/4xh200-allreduce-g4.txt")
    assert old in text

    assert words in str(perf_tests.problem(perf_tests.parse(text.replace(old, new))))


def test_wrong_results_are_wrong_without_their_word() -> None:
    text = read("2.19.6/4xh200-hypercube.txt").replace("FAILED", "")

    assert str(perf_tests.problem(perf_tests.parse(text))).startswith("wrong results: ")


@pytest.mark.parametrize("value", ['"N/A"', "null", "-1", "1e999", "[]", "true"])
def test_json_with_a_value_that_is_no_figure_is_damaged(value: str) -> None:
    text = read("2.19.6/4xh200-allreduce.json").replace('"bus_bw": 0.057516', f'"bus_bw": {value}')

    assert perf_tests.problem(perf_tests.parse_json(text)) == "no error: the JSON file is cut or damaged"
