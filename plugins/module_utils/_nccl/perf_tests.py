# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
Parse the output of the programs of nccl-tests, in every format since 2.0.

The columns between type and time depend on the program and its version, so the numbers are read from the right. The
average that the programs print depends on the range of sizes. The relevant value is the bus bandwidth at the largest
size.
"""

from __future__ import annotations

import json
import re
import statistics
import typing as t

# mpirun --tag-output, srun --label and plain indentation
_PREFIX = re.compile(r"^\s*(?:\[\d+,\d+\]<std(?:out|err)>:|\d+:\s)?\s*")
_BYTES = re.compile(r"^(\d+(?:\.\d+)?)([KMG]?)B?$", re.IGNORECASE)
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_ROW = re.compile(r"^(\d+)\s+(\d+)\s+([a-z]\w*)\s+(.*)$")
_STAMP = re.compile(r"\s+\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d\S*\s*$")
_NUMBER = re.compile(r"^-?\d+(?:\.\d+)?(?:e[+-]?\d+)?$")
_TOUCHING = re.compile(r"\d+\.\d\d(?=\d)")
_BOUNDS = re.compile(r"#\s*Out of bounds values\s*:\s*(\S+)\s*(OK|FAILED)?")
_AVERAGE = re.compile(r"#\s*Avg bus bandwidth\s*:\s*(\S+)\s*(OK|FAILED)?")
_RANK = re.compile(r"#\s*Rank\s+(\d+)\s+(?:Group\s+\d+\s+)?Pid\s+\d+\s+on\s+(\S+)\s+device\s+(\d+)\s+\[(\S+)\]\s+(.*)$")
_VERSION = re.compile(r"#\s*(?:nccl-tests|gpucluster-mpi) version\s+([\w.]+)(?:.*nccl-library=(\d+))?")
_REDUCED = re.compile(r"#\s*Reducing maxBytes to (\d+)")
_ERROR = re.compile(r"(?:Test (?:NCCL|CUDA|MPI) failure|: Test failure|srun: error:|slurmstepd: error:|NCCL WARN)")

_EXIT = {
    0: "no error",
    1: "internal error",
    2: "CUDA error (or wrong arguments)",
    3: "NCCL error",
    4: "timeout",
    5: "not implemented, or more GPUs asked for than there are",
    6: "invalid usage",
    7: "wrong results, or the bandwidth below NCCL_TESTS_MIN_BW",
    124: "stopped because it took too long",
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
    root: int | None
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
    version = next(filter(None, map(_VERSION.search, lines)), None)
    reduced = next(filter(None, map(_REDUCED.search, lines)), None)
    return Report(
        version=version and version.group(1),
        nccl=version and version.group(2) and nccl_version(int(version.group(2))),
        ranks=[_rank(match) for match in map(_RANK.search, lines) if match],
        rows=rows,
        checked=any(side.wrong is not None for row in rows for side in (row.out_of_place, row.in_place)),
        out_of_bounds=bounds,
        out_of_bounds_ok=bounds_ok,
        average=average,
        average_ok=average_ok,
        reduced_to=reduced and int(reduced.group(1)),
        errors=[line.strip() for line in lines if _ERROR.search(line)],
        complete=bool(rows) and bounds is not None and average is not None,
    )


def parse_json(text: str) -> Report:
    """Return the report of a file written with C(-J). Never read its environment, which may contain secrets."""
    try:
        data = json.loads(text)
    except ValueError:
        return parse("")._replace(errors=["the JSON file is cut or damaged"])
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
        out_of_bounds=bounds.get("count"),
        out_of_bounds_ok=_word(bounds.get("okay")),
        average=average.get("bandwidth"),
        average_ok=_word(average.get("okay")),
        reduced_to=None,
        errors=[line for line in data.get("errors") or [] if line],
        complete=bool(rows) and "end_time" in data and "results" in data,
    )


def problem(report: Report, code: int = 0) -> str | None:
    """Return why a run is not a valid measurement, or None if it is."""
    if report.out_of_bounds_ok is False:
        return f"wrong results: {report.out_of_bounds:g} values out of bounds"
    if report.average_ok is False:
        return "the program itself found the average below NCCL_TESTS_MIN_BW"
    if code != 0 or not report.complete:
        return _failure(report, code)
    return None


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
    if report.errors:
        return f"{exit_meaning(code)}: {report.errors[0]}"
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
        "rank": int(match.group(1)),
        "host": match.group(2),
        "device": int(match.group(3)),
        "bus": match.group(4),
        "name": match.group(5).strip(),
    }


def _row(line: str) -> Row | None:
    """Return a line of the table, or None for any other line and for an incomplete row."""
    match = _ROW.match(_STAMP.sub("", line))
    if not match:
        return None
    tokens = [part for token in match.group(4).split() for part in _split(token)]
    for each in (8, 4):  # with -I 1 each side has four more columns
        if len(tokens) >= 2 * each:
            out = _side(tokens[-2 * each : -2 * each + 4])
            inside = _side(tokens[-each:][:4])
            redop, root = _between(tokens[: -2 * each])
            if out and inside and (each == 4 or len(tokens) <= 2 * each + 2):
                return Row(int(match.group(1)), int(match.group(2)), match.group(3), redop, root, out, inside)
    return None


def _split(token: str) -> list[str]:
    """Split two numbers with two decimals that have no space between them."""
    if token.count(".") < 2:
        return [token]
    return [part for part in _TOUCHING.sub(lambda match: match.group(0) + " ", token).split(" ") if part]


def _side(tokens: list[str]) -> Side | None:
    """Return one half of a row."""
    if not all(_NUMBER.match(token) for token in tokens[:3]) or not (_NUMBER.match(tokens[3]) or tokens[3] == "N/A"):
        return None
    time, algbw, busbw = (float(token) for token in tokens[:3])
    return Side(time, algbw, busbw, None if tokens[3] == "N/A" else float(tokens[3]))


def _between(tokens: list[str]) -> tuple[str | None, int | None]:
    """Return reduction and root from the columns that only some programs have."""
    words = [token for token in tokens if not _NUMBER.match(token)]
    numbers = [token for token in tokens if _NUMBER.match(token)]
    return (words[0] if words else None), (int(float(numbers[0])) if numbers else None)


def _json_row(item: dict[str, t.Any]) -> Row:
    """Return one result of the JSON file."""
    sides = [
        Side(side["time"], side["alg_bw"], side["bus_bw"], side.get("nwrong"))
        for side in (item["out_of_place"], item["in_place"])
    ]
    return Row(item["size"], item["count"], item["type"], item["redop"], int(item["root"]), sides[0], sides[1])


def _word(word: str | None) -> bool | None:
    """Return the meaning of the words of the JSON file."""
    return {"true": True, "false": False}.get(word or "")
