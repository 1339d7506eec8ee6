# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Checks that measure throughput; they load the node and must run alone."""

from __future__ import annotations

import json
import math
import re
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._hardware import record
from ansible_collections.hpcai.gpucluster.plugins.module_utils._nccl import perf_tests
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.bounded_run import CommandMissing

from . import network, readings
from .process import DONE, FAILED, MISSING, Result
from .verdict import (
    Finding,
    NotApplicableError,
    NotRunError,
    UnhealthyError,
    UnknownError,
    healthy,
    listing,
    tidy,
    unhealthy,
)

if t.TYPE_CHECKING:
    from .case import Case

_NVBANDWIDTH = {"host_to_device": "host_to_device_memcpy_ce", "device_to_host": "device_to_host_memcpy_ce"}
_FIGURE = re.compile(r"\d+(?:\.\d+)?")
# Words of DCGM for the result of a test, in lower case, besides those for a failure.
_PASSED, _ASIDE = ("pass", "passed"), ("skip", "skipped", "not run", "warn", "warning")
_ERRORS = ("runtime_error", "error", "errors")
_ROUNDED = 0.01  # the most by which a figure of nvbandwidth differs from the measured one
_RATE_ROUNDED = 0.01  # of the rate of messages, as a part
_MOST = 3  # results in a message
_WRONG_RESULTS = 7  # nccl-tests: bad numbers, or a bandwidth below its own limit


def host_to_device(case: Case) -> Finding:
    """Measure the bandwidth of copies from the host to each GPU."""
    return _copies(case, "host_to_device")


def device_to_host(case: Case) -> Finding:
    """Measure the bandwidth of copies from each GPU to the host."""
    return _copies(case, "device_to_host")


def _copies(case: Case, direction: str) -> Finding:
    least = case.number("gbps_min")
    _alone(case, whole=True)
    test = _NVBANDWIDTH[direction]
    text = _output(case, "nvbandwidth", [case.tool("nvbandwidth"), "-j", "-t", test])
    try:
        gpus = len(case.gpus())
    except NotRunError:
        gpus = 0
    return judge_copies(least, copies(text, test), gpus, case.number("gbps_max"))


def figure(cell: t.Any) -> float | None:
    """Return a cell of nvbandwidth in GB/s; None for all that is no plain number, such as N/A."""
    return float(cell) if _FIGURE.fullmatch(str(cell).strip()) else None


def whole(found: list[float | None], total: t.Any) -> list[float | None]:
    """Return the figures of a test; none if their sum is not the printed one: some are lost, doubled or damaged."""
    known, printed = [value for value in found if value is not None], figure(total)
    same = printed is None or len(known) < len(found) or abs(sum(known) - printed) <= _ROUNDED * (len(found) + 1)
    return found if same else [None] * len(found)


def copies(text: str, test: str) -> list[float | None]:
    """Return the GB/s of each GPU from the JSON output of nvbandwidth; None for one that was not measured."""
    try:
        report = json.loads(text[text.index("{") :])["nvbandwidth"]
        if "error" in report:
            raise UnknownError(f"nvbandwidth: {tidy(report['error'], 120)}")
        case = next(case for case in report["testcases"] if case["name"] == test)
        if case["status"] != "Passed":
            raise UnknownError(f"nvbandwidth: {test} is {tidy(case['status'], 60)}")
        return whole([figure(cell) for row in case["bandwidth_matrix"] for cell in row], case.get("sum"))
    except (KeyError, TypeError, ValueError, StopIteration, AttributeError) as exc:
        raise UnknownError(f"nvbandwidth printed no result of {test}: {tidy(text, 120)!r}") from exc


def judge_copies(
    least: float, found: t.Sequence[float | None], gpus: int = 0, most: float = record.FASTEST_COPY
) -> Finding:
    """
    Compare the slowest GPU, which a sum or a mean would hide. I(gpus) is how many the node shows; 0: not known.

    A figure above I(most) GB/s is no measurement.
    """
    known = {index: value for index, value in enumerate(found) if value is not None}
    slow = [f"GPU {index} {value:.10g}" for index, value in known.items() if not value >= least]
    if slow:
        return unhealthy(f"at least {least:.10g} GB/s per GPU", listing(slow))
    if not known:
        raise UnknownError("nvbandwidth measured no GPU")
    _refuse_impossible(max(known.values()), most)
    if len(known) < max(gpus, len(found)):
        raise UnknownError(f"nvbandwidth measured {len(known)} of {max(gpus, len(found))} GPUs")
    return healthy(f"{min(known.values()):.10g} GB/s at the slowest of {len(known)} GPUs", list(known.values()))


def allreduce(case: Case) -> Finding:
    """Measure the NCCL all-reduce of all GPUs of the node without a topology file, which can break jobs on one node."""
    least, most, size = case.number("gbps_min"), case.number("gbps_max"), int(case.number("message_gib"))
    gpus = int(case.number("gpus"))
    if gpus == 1:
        raise NotApplicableError("not measured: one GPU")
    _alone(case, whole=True)
    argv = [case.tool("all_reduce_perf"), "-g", str(gpus), "-b", f"{size}G", "-e", f"{size}G", "-n", "20", "-c", "1"]
    result = case.machine.run(argv, case.number("timeout_seconds"), "", {"NCCL_TOPO_FILE": "", "NCCL_IB_DISABLE": "1"})
    if result.state == DONE and result.rc == _WRONG_RESULTS:
        return unhealthy("right results", "wrong results of all_reduce_perf")
    return judge_allreduce(least, busbw(_checked(case, "all_reduce_perf", result), size << 30), most)


def busbw(text: str, size: float = 0) -> float:
    """
    Return the bus bandwidth at the largest size, out of place or in place, whichever is higher.

    A smaller size is always slower, so a table that ends below I(size) bytes (not enough memory) proves nothing.
    """
    report = perf_tests.parse(text)
    if report.out_of_bounds_ok is None or not report.rows or (report.average is None and report.out_of_bounds_ok):
        raise UnknownError("all_reduce_perf printed no complete table")
    if not report.out_of_bounds_ok:
        raise UnhealthyError("expected right results, found wrong ones (out of bounds values)")
    fault = perf_tests.average_differs(report)
    if fault:
        raise UnknownError(f"all_reduce_perf: {fault}")
    largest = report.largest or 0
    if size and not size <= largest < 2 * size:
        raise UnknownError(f"all_reduce_perf measured {largest:.0f} bytes at most, not {size:.0f}")
    return max(max(row.out_of_place.busbw, row.in_place.busbw) for row in report.rows if row.size == largest)


def judge_allreduce(least: float, found: float, most: float = record.FASTEST_BUS) -> Finding:
    """Compare the bandwidth with its limit. A figure above I(most) GB/s is no measurement."""
    _refuse_impossible(found, most)
    words = f"a bus bandwidth of at least {least:.10g} GB/s"
    return healthy(f"{found:.10g} GB/s", found) if found >= least else unhealthy(words, f"{found:.10g} GB/s")


def _refuse_impossible(found: float, most: float) -> None:
    if not found <= most:
        raise UnknownError(f"{found:.10g} GB/s is no measurement: at most {most:.4g} GB/s is possible")


def infiniband(case: Case) -> Finding:
    """Measure the bandwidth of each adapter in loopback."""
    least = case.number("gbitps_min")
    _alone(case)
    adapters = sorted({port.name.partition("/")[0] for port in network.infiniband_ports(case.machine)})
    if not adapters:
        raise UnknownError("no InfiniBand adapter is there")
    return judge_adapters(least, {name: _loopback(case, name, 18600 + number) for number, name in enumerate(adapters)})


def judge_adapters(least: float, found: dict[str, float]) -> Finding:
    """Compare the bandwidth of each adapter with the limit."""
    slow = [f"{name} {value:.10g}" for name, value in found.items() if not value >= least]
    words = f"at least {least:.10g} Gb/s per adapter"
    return (
        unhealthy(words, listing(slow))
        if slow
        else healthy(f"{min(found.values()):.10g} Gb/s at the slowest adapter", found)
    )


def _loopback(case: Case, adapter: str, port: int) -> float:
    tool = case.tool("ib_write_bw")
    argv = [tool, "-d", adapter, "-p", str(port), "-D", "5", "-F", "--report_gbits"]
    try:
        server = case.machine.start(argv)
    except CommandMissing as exc:
        if isinstance(exc.__cause__, FileNotFoundError):
            raise NotRunError(f"{tool} is missing") from exc
        raise UnknownError(str(exc)) from exc
    try:
        client = case.machine.run(
            ["sh", "-c", 'sleep 1; exec "$@"', "sh", *argv, "127.0.0.1"], case.number("timeout_seconds")
        )
    finally:
        server.kill()
    return average(_checked(case, f"ib_write_bw on {adapter}", client))


def average(text: str) -> float:
    """Return the average Gb/s of the last row of ib_write_bw."""
    for line in reversed(text.splitlines()):
        cells = line.split()
        if len(cells) >= 5 and cells[0].isdigit() and cells[1].isdigit():
            found, rate = figure(cells[3]), figure(cells[4])
            if found is None or rate is None:
                break
            # The last cell is millions of messages per second: the same bandwidth in another unit.
            if not math.isclose(found, rate * int(cells[0]) * 8 / 1000, rel_tol=_RATE_ROUNDED):
                raise UnknownError(f"ib_write_bw contradicts itself: {tidy(line, 120)!r}")
            return found
    raise UnknownError(f"ib_write_bw printed no result: {tidy(text, 120)!r}")


def dcgm(case: Case) -> Finding:
    """Run the diagnostics of DCGM at the configured level."""
    level = int(case.number("level"))
    _alone(case)
    return judge_dcgm(
        level, _output(case, "dcgmi", [case.tool("dcgmi"), "diag", "-r", str(level), "-j"], any_status=True)
    )


def judge_dcgm(level: int, text: str) -> Finding:
    """
    Find failed tests anywhere in the report.

    At least one test must have passed. A result with another word, such as that of an ended program, is no verdict.
    """
    try:
        report = json.loads(text[text.index("{") :])
    except ValueError as exc:
        raise UnknownError(f"dcgmi printed no report: {tidy(text, 120)!r}") from exc
    found = list(diagnosis(report))
    failed, warned = _texts(found, "fail", "failed"), _texts(found, "warn", "warning")
    if failed:
        return unhealthy(f"DCGM level {level} passed", f"failed: {listing(sorted(set(failed)), _MOST)}")
    others = list(dict.fromkeys(f"{one.text} ({one.status})" for one in found if one.status not in _PASSED))
    if not all(one.status in (*_PASSED, *_ASIDE) for one in found):
        raise UnknownError(f"dcgmi reports {listing(others, _MOST)}")
    if not _texts(found, *_PASSED):
        raise UnknownError(f"dcgmi reports no test that passed: {listing(others, _MOST) or 'it names none'}")
    return healthy(f"DCGM level {level} passed" + (f"; warns: {listing(warned, _MOST)}" if warned else ""))


def _texts(found: t.Iterable[Tested], *statuses: str) -> list[str]:
    return [one.text for one in found if one.status in statuses]


class Tested(t.NamedTuple):
    """One result of the diagnostics of DCGM: the status in lower case, and the test with its device and reason."""

    status: str
    text: str


def diagnosis(node: t.Any, name: str = "diag") -> t.Iterator[Tested]:
    """Yield every result in a report of C(dcgmi diag), at any depth. An error of the whole report is a result, too."""
    if isinstance(node, dict):
        name = str(node.get("name") or node.get("category") or name)
        faulty = "error" if any(node.get(key) for key in _ERRORS) else None
        status = node.get("status") or ("missing" if "status" in node else faulty)
        if isinstance(status, str):
            yield Tested(status.lower(), ": ".join(filter(None, [name, _device(node), _why(node)])))
        results = node.get("results")
        if isinstance(results, list) and not all(isinstance(one, dict) and "status" in one for one in results):
            yield Tested("missing", name)
    children = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    for child in children:
        yield from diagnosis(child, name)


def _device(node: t.Mapping[str, t.Any]) -> str:
    number = next((node[key] for key in ("gpu_id", "entity_id", "gpu_ids") if node.get(key) is not None), None)
    return "" if number is None else f"{node.get('entity_group') or 'GPU'} {tidy(str(number), 40)}"


def _why(node: t.Mapping[str, t.Any]) -> str:
    """Return the first reason: a text, or a list of texts or of mappings with a text (DCGM 2 to 4)."""
    for key in (*_ERRORS, "warnings", "info"):
        told = node.get(key)
        first = (told[0] if told else "") if isinstance(told, list) else told
        if isinstance(first, dict):
            first = first.get("warning") or first.get("message") or first.get("info")
        if first and isinstance(first, str):
            return tidy(first, 80)
    return ""


def _alone(case: Case, whole: bool = False) -> None:
    """Refuse a node whose GPUs are in use and, if I(whole), GPUs in MIG mode."""
    try:
        busy = readings.processes(case.machine, 10, case.tool("nvidia-smi"))
        divided = [gpu.name for gpu in case.gpus() if gpu.mig] if whole else []
    except NotRunError:
        return
    if divided:
        raise NotApplicableError(f"in MIG mode: {listing(divided)}")
    if busy:
        raise NotRunError(f"the GPUs are in use by {listing([process['pid'] for process in busy])}")


def _output(case: Case, name: str, argv: list[str], any_status: bool = False) -> str:
    result = case.machine.run(argv, case.number("timeout_seconds"))
    return _checked(case, name, result._replace(rc=0) if any_status and result.state == DONE else result)


def _checked(case: Case, name: str, result: Result) -> str:
    if result.state == MISSING:
        raise NotRunError(f"{name.split()[0]} is missing")
    if result.state == FAILED:
        raise UnknownError(result.err)
    if result.state != DONE:
        raise UnknownError(f"{name} gave no answer within {case.number('timeout_seconds'):.10g} s")
    if result.rc:
        raise UnknownError(f"{name} exited {result.rc}: {tidy(result.text, 120)}")
    return result.out
