# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
Parse the output of the programs of nccl-tests, in the format since 2.13 (August 2022).

The average that the programs print depends on the range of sizes. The relevant value is the bus bandwidth at the
largest size.
"""

from __future__ import annotations

import collections
import json
import math
import re
import statistics
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._slurm import output

# What launchers write before a line, in any order and number: time stamps; [1,0], [prterun-n1-1234@1,0], [n1:77] and
# <stdout>: of mpirun and prterun; [0] of mpich; [default0]: of torchrun; 0: of srun --label; n1: and rank0: of others;
# "n1 slurmd[77]:" of syslog; seconds or milliseconds since the epoch.
_PREFIX = re.compile(
    r"""^\s*(?:(?:
      \[[^\]]{1,100}\]:? | <std(?:out|err)>:? | \d+:(?=\s)
      | [A-Z][a-z]{2}\s+[A-Z][a-z]{2}\s+\d+\s+\d\d:\d\d:\d\d\s+\d{4} | [A-Z][a-z]{2}\s+\d+\s+\d\d:\d\d:\d\d
      | \d{10}\.\d{1,9}:?(?=\s) | \d{10}(?:\d{3})?:?(?=\s+(?:\#|\d+\s+\d+\s+[a-z]))
      | [\w.-]+:(?=\s+(?:\d{10}\S*\s+)?(?:\#|\d+\s+\d+\s+[a-z])) | [\w.-]+\s+[\w./-]+\[\d+\]:(?=\s)
      | (?:\d{4}-\d\d-\d\d[ T])?\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?:?
    )\s*)*""",
    re.VERBOSE,
)
_BYTES = re.compile(r"^(\d+(?:\.\d+)?)([KMG]?)B?$", re.IGNORECASE)
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
# A reduction is missing where the program has none.
_ROW = re.compile(r"^(\d+)\s+(\d+)\s+([a-z]\w*)\s+(?:([a-z]\w*)\s+)?(-?\d{1,9})\s+(.*)$")
_STAMP = re.compile(r"\s+\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d\S*\s*$")
_NUMBER = re.compile(r"^-?\d+(?:\.\d+)?(?:e[+-]?\d+)?$")
_FIGURE = re.compile(r"^\d+(?:\.\d+)?(?:e[+-]?\d+)?$")
_TOUCHING = re.compile(r"\d+\.\d\d(?=\d)")
_BOUNDS = re.compile(r"#\s*Out of bounds values\s*:\s*(\S+)\s*(OK|FAILED)?")
_AVERAGE = re.compile(r"#\s*Avg bus bandwidth\s*:\s*(\S+)\s*(OK|FAILED)?")
_RANK = re.compile(
    r"#\s*Rank\s+(?P<rank>\d+)\s+(?:Group\s+\d+\s+)?Pid\s+(?P<pid>\d+)\s+on\s+(?P<host>\S+)"
    r"\s+device\s+(?P<device>\d+)\s+\[(?P<bus>\S+)\]\s+(?P<name>.*)$"
)
_VERSION = re.compile(r"#\s*(?:nccl-tests|gpucluster-mpi) version\s+([\w.]+)(?:.*nccl-library=(\d{4,6})\b)?")
_RANKS = re.compile(r"#\s*Rank\b")
# A line like a row: a type of NCCL, and this many cells, most of which are numbers or which begin as those of a row.
_TYPE = re.compile(r"(?P<begin>\d\s+\d+)?\s(?:u?int\d+|half|float|double|bfloat16|fp8\w*|f8\w*)\s")
_FEWEST_CELLS = 10
# Each program prints it once; with MPI, only its first rank does.
_HEAD = re.compile(r"#\s*nThread\s+(\d+)(?:\s+nGpus\s+(\d+))?")
_REDUCED = re.compile(r"#\s*Reducing maxBytes to (\d+)")
_ERROR = re.compile(r"(?:Test (?:NCCL|CUDA|MPI) failure|: Test failure|srun: error:|slurmstepd: error:|NCCL WARN)")

# The most by which the mean of figures with two decimals, and an average with six digits, differ from the true one.
_ROUNDED = 0.01
_SIXTH_DIGIT = 1e-5
_MOST = 1e15  # above each size, time and bandwidth
_FEWEST = 2  # steps between sizes that show how they grow

_EXIT = {
    0: "no error",
    1: "internal error",
    3: "NCCL error",
    4: "timeout",
    5: "not implemented, or more GPUs asked for than there are",
    6: "invalid usage",
    7: "wrong results, or the bandwidth below NCCL_TESTS_MIN_BW",
    124: "stopped because it took too long",
    127: "command or library not found",
}


class Side(t.NamedTuple):
    """One of the two measurements of a row, with time in microseconds and bandwidths in GB/s."""

    time: float
    algbw: float
    busbw: float
    wrong: float | None


class Row(t.NamedTuple):
    """One line of the table, with the size in bytes."""

    size: int
    elements: int
    type: str
    redop: str | None
    root: int
    out_of_place: Side
    in_place: Side


class Report(t.NamedTuple):
    """The output of one run of a program."""

    version: str | None
    nccl: str | None
    ranks: list[dict[str, t.Any]]
    rows: list[Row]
    checked: bool
    out_of_bounds: float | None
    out_of_bounds_ok: bool | None
    average: float | None
    average_ok: bool | None
    reduced_to: int | None
    errors: list[str]
    complete: bool
    said: str = ""  # the line that says why it failed, if it did
    programs: int = 1  # that have the same ranks, so that each ran alone
    each: int = 1  # ranks of a process
    odd: str = ""  # the first line that is like a row or a rank, and cannot be read

    @property
    def largest(self) -> int | None:
        """Return the largest measured size in bytes."""
        return max((row.size for row in self.rows), default=None)

    @property
    def busbw(self) -> float | None:
        """Return the out-of-place bus bandwidth at the largest size in GB/s, as the median of all rows of that size."""
        values = [row.out_of_place.busbw for row in self.rows if row.size == self.largest]
        return statistics.median(values) if values else None


def exit_meaning(code: int) -> str:
    """Return a description of an exit status of a program."""
    return _EXIT.get(code, f"exit status {code}")


def parse(text: str) -> Report:
    """Return the report of an output. Never raise: missing values are None, and an incomplete run is not complete."""
    lines = [_PREFIX.sub("", line, count=1).rstrip() for line in text.splitlines()]
    bounds, bounds_ok = _summary(lines, _BOUNDS)
    average, average_ok = _summary(lines, _AVERAGE)
    rows = [row for row in map(_row, lines) if row]
    ranks = [match for match in map(_RANK.search, lines) if match]
    version = next(filter(None, map(_VERSION.search, lines)), None)
    heads = list(filter(None, map(_HEAD.match, lines)))
    reduced = next(filter(None, map(_REDUCED.search, lines)), None)
    return Report(
        version=version and version.group(1),
        nccl=version and version.group(2) and nccl_version(int(version.group(2))),
        ranks=[_rank(match) for match in ranks],
        rows=rows,
        checked=any(side.wrong is not None for row in rows for side in (row.out_of_place, row.in_place)),
        out_of_bounds=bounds,
        out_of_bounds_ok=bounds_ok,
        average=average,
        average_ok=average_ok,
        reduced_to=reduced and int(reduced.group(1)),
        errors=[line.strip() for line in lines if _ERROR.search(line)],
        complete=bool(rows) and bounds is not None and average is not None,
        said=output.cause("\n".join(lines)),
        programs=max(_programs(ranks), len(heads)),
        each=max(1, int(heads[0][1]) * int(heads[0][2] or 1)) if heads else 1,
        odd=next(filter(_odd, lines), ""),
    )


def parse_json(text: str) -> Report:
    """Return the report of a file written with C(-J). Never read its environment, which may contain secrets."""
    try:
        return _json_report(json.loads(text))
    except (ValueError, LookupError, TypeError, AttributeError):
        return parse("")._replace(errors=["the JSON file is cut or damaged"])


def _json_report(data: dict[str, t.Any]) -> Report:
    bounds = data.get("out_of_bounds") or {}
    average = data.get("average_bus_bandwidth") or {}
    rows = [_json_row(item) for item in data.get("results") or []]
    number = data.get("nccl_version")
    return Report(
        version=None,
        nccl=nccl_version(number) if number else None,
        ranks=[
            {"rank": item["rank"], "host": item["hostname"], "device": item["device"], "name": item["device_info"]}
            for item in data.get("config", {}).get("devices", [])
        ],
        rows=rows,
        checked=bool(data.get("config", {}).get("validation")) and bool(rows),
        out_of_bounds=_known(bounds.get("count")),
        out_of_bounds_ok=_word(bounds.get("okay")),
        average=_known(average.get("bandwidth")),
        average_ok=_word(average.get("okay")),
        reduced_to=None,
        errors=[line for line in data.get("errors") or [] if line],
        complete=bool(rows) and "end_time" in data and "results" in data,
    )


def problem(report: Report, code: int = 0) -> str | None:
    """Return why a run is not a valid measurement, or None if it is."""
    if report.out_of_bounds_ok is False or report.out_of_bounds:
        return f"wrong results: {report.out_of_bounds or 0:g} values out of bounds"
    if report.average_ok is False:
        return "the program itself found the average below NCCL_TESTS_MIN_BW"
    if report.programs > 1:
        return (
            f"{report.programs} programs ran, each alone: every one has a rank 0. The program was built without MPI "
            "(nccl-tests: make MPI=1), or started without it (mpi of srun)"
        )
    if code != 0 or not report.complete:
        return _failure(report, code)
    return damage(report)


def damage(report: Report) -> str | None:
    """
    Return why a complete table is not the one that the program printed, or None if it is.

    The printed average is the mean of all cells, the sizes grow by one factor or step, and no two rows are equal.
    """
    twice = [row.size for row, count in collections.Counter(report.rows).items() if count > 1]
    if twice:
        return f"the row of {twice[0]} bytes is there twice"
    numbers = sorted(rank["rank"] for rank in report.ranks)
    whole = numbers == list(range(len(numbers))) and len(numbers) % report.each == 0
    lost = "" if whole else f"the ranks {numbers[:20]} are listed, not each from 0 on"
    return average_differs(report) or lost or _gap([row.size for row in report.rows if row.size])


def average_differs(report: Report) -> str | None:
    """Return a message if a row cannot be read, or the printed average is not the mean of the rows, or None."""
    if report.odd:
        return f"rows are lost, doubled or damaged: {report.odd.strip()[:120]!r} is not understood"
    cells = [side.busbw for row in report.rows for side in (row.out_of_place, row.in_place)]
    mean = statistics.mean(cells) if cells else 0.0
    if report.average is None or abs(report.average - mean) <= _ROUNDED + _SIXTH_DIGIT * report.average:
        return None
    return (
        f"the printed average is {report.average:g} GB/s, but the mean of the {len(report.rows)} rows is {mean:.6g}: "
        "rows are lost, doubled or damaged"
    )


def _gap(sizes: list[int]) -> str | None:
    """
    Return a message if sizes are missing, or None.

    Sizes grow by one factor or by one step, and begin again for each type and repetition. Some programs round small
    sizes down, so a factor is another only from its power of 1.5 on.
    """
    runs: list[list[int]] = []
    for size in sizes:
        if runs and size > runs[-1][-1]:
            runs[-1].append(size)
        else:
            runs.append([size])
    if any(run != runs[0] for run in runs):
        return "the rows are not the same sizes in the same order for each type and repetition"
    pairs = list(zip(sizes, sizes[1 : len(runs[0])])) if runs else []
    if len(pairs) < _FEWEST:
        return None
    steps, factors = [other - one for one, other in pairs], [math.log(other / one) for one, other in pairs]
    # With a factor, no step is there twice.
    growth = steps if max(collections.Counter(steps).values()) * 2 > len(steps) else factors
    far = [pair for pair, grown in zip(pairs, growth) if grown > 1.5 * statistics.median_low(growth)]
    return f"rows are missing between {far[0][0]} and {far[0][1]} bytes" if far else None


def too_small(report: Report, smallest: str, largest: str, factor: float) -> str | None:
    """Return a message if the largest measured size is below the requested one, because smaller sizes are slower."""
    start, end = _bytes(smallest), _bytes(largest)
    if not start or not end or start > end:
        return None  # the program itself refuses this
    last = start
    while factor > 1 and last * factor <= end:
        last *= factor
    if report.reduced_to and report.reduced_to < last:
        return (
            f"measured up to {report.largest} bytes only, not {int(last)}: the memory is enough for {report.reduced_to}"
        )
    # Some operations round a size down to a multiple of the ranks. The next smaller step is below any rounded size.
    if factor <= 1 or report.largest is None or report.largest * factor > last:
        return None
    return f"measured up to {report.largest} bytes only, not {int(last)}"


def _bytes(text: str) -> float:
    """Return a size as the programs read it, or 0 for an invalid size."""
    match = _BYTES.match(text)
    return float(match.group(1)) * _UNITS[match.group(2).upper()] if match else 0.0


def _failure(report: Report, code: int) -> str:
    """Return why a run ended early."""
    if report.errors or (code and report.said):
        return f"{exit_meaning(code)}: {report.said or report.errors[0]}"
    if not report.rows:
        return f"no measurement in the output ({exit_meaning(code)})"
    if not report.complete:
        return f"the output is cut after {report.largest} bytes: the summary lines are missing ({exit_meaning(code)})"
    return exit_meaning(code)


def nccl_version(number: int) -> str:
    """Return C(2.28.9) for 22809 and C(2.8.4) for 2804."""
    if number < 10000:
        return f"{number // 1000}.{number % 1000 // 100}.{number % 100}"
    return f"{number // 10000}.{number % 10000 // 100}.{number % 100}"


def _summary(lines: list[str], pattern: re.Pattern[str]) -> tuple[float | None, bool | None]:
    """Return the number and the word of a summary line."""
    match = next(filter(None, map(pattern.search, lines)), None)
    if not match or not _NUMBER.match(match.group(1)):
        return None, None
    return float(match.group(1)), None if match.group(2) is None else match.group(2) == "OK"


def _rank(match: re.Match[str]) -> dict[str, t.Any]:
    """Return one line of the device list."""
    return {
        "rank": int(match["rank"]),
        "host": match["host"],
        "device": int(match["device"]),
        "bus": match["bus"],
        "name": match["name"].strip(),
    }


def _programs(ranks: list[re.Match[str]]) -> int:
    """Return how many processes have the same rank."""
    places = {(match["rank"], match["host"], match["pid"]) for match in ranks}
    return max(collections.Counter(rank for rank, _host, _pid in places).values(), default=1)


def _row(line: str) -> Row | None:
    """Return a line of the table, or None for any other line and for an incomplete row."""
    match = _ROW.match(_STAMP.sub("", line))
    tokens = [part for token in match[6].split() for part in _split(token)] if match else []
    if not match or len(tokens) not in (8, 16):  # with -I 1 each side has four more columns
        return None
    out, inside = _side(tokens[:4]), _side(tokens[len(tokens) // 2 :][:4])
    return Row(int(match[1]), int(match[2]), match[3], match[4], int(match[5]), out, inside) if out and inside else None


def _odd(line: str) -> bool:
    """Return whether a line is like a row of the table or a rank, but cannot be read."""
    if _RANKS.search(line):
        return not _RANK.search(line)
    found, cells = _TYPE.search(line), line.split()
    if not found or len(cells) < _FEWEST_CELLS or "#" in line:
        return False
    # In prose, such as that of MPI, half and double are words.
    numbers = sum(cell.lstrip("-")[:1].isdigit() for cell in cells)
    return (bool(found["begin"]) or 2 * numbers > len(cells)) and not _row(line)


def _split(token: str) -> list[str]:
    """Split two numbers with two decimals that have no space between them."""
    if token.count(".") < 2:
        return [token]
    return [part for part in _TOUCHING.sub(lambda match: match.group(0) + " ", token).split(" ") if part]


def _side(tokens: list[str]) -> Side | None:
    """Return one half of a row."""
    if not all(_FIGURE.match(token) for token in tokens[:3]) or not (_FIGURE.match(tokens[3]) or tokens[3] == "N/A"):
        return None
    time, algbw, busbw = (float(token) for token in tokens[:3])
    return Side(time, algbw, busbw, None if tokens[3] == "N/A" else float(tokens[3]))


def _json_row(item: dict[str, t.Any]) -> Row:
    """Return one result of the JSON file; raise ValueError for a figure that is none."""
    sides = [
        Side(_figure(side["time"]), _figure(side["alg_bw"]), _figure(side["bus_bw"]), _known(side.get("nwrong")))
        for side in (item["out_of_place"], item["in_place"])
    ]
    size, count = int(_figure(item["size"])), int(_figure(item["count"]))
    return Row(size, count, str(item["type"]), str(item["redop"]), int(item["root"]), sides[0], sides[1])


def _figure(value: t.Any) -> float:
    """Return a figure of the JSON file; raise ValueError for another value."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < _MOST:
        raise ValueError(f"{value!r} is no figure")
    return float(value)


def _known(value: t.Any) -> float | None:
    """Return a figure of the JSON file, or None for one that is not there."""
    return None if value is None else _figure(value)


def _word(word: str | None) -> bool | None:
    """Return the meaning of the words of the JSON file."""
    return {"true": True, "false": False}.get(word or "")
