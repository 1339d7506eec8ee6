# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Checks that measure throughput; they load the node and must run alone."""

from __future__ import annotations

import json
import re
import typing as t

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
_BOUNDS = re.compile(r"^# Out of bounds values : \d+ (OK|FAILED)", re.MULTILINE)
_COLUMNS = 11
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
    return judge_copies(least, copies(text, test))


def copies(text: str, test: str) -> list[float]:
    """Return the GB/s of each GPU from the JSON output of nvbandwidth."""
    try:
        report = json.loads(text[text.index("{") :])["nvbandwidth"]
        if "error" in report:
            raise UnknownError(f"nvbandwidth: {tidy(report['error'], 120)}")
        case = next(case for case in report["testcases"] if case["name"] == test)
        if case["status"] != "Passed":
            raise UnknownError(f"nvbandwidth: {test} is {tidy(case['status'], 60)}")
        cells = [cell for row in case["bandwidth_matrix"] for cell in row]
        return [float(cell) for cell in cells if cell != "N/A"]
    except (KeyError, TypeError, ValueError, StopIteration, AttributeError) as exc:
        raise UnknownError(f"nvbandwidth printed no result of {test}: {tidy(text, 120)!r}") from exc


def judge_copies(least: float, found: list[float]) -> Finding:
    """Compare the slowest GPU, which a sum or a mean would hide."""
    if not found:
        raise UnknownError("nvbandwidth measured no GPU")
    slow = [f"GPU {index} {value:.10g}" for index, value in enumerate(found) if not value >= least]
    words = f"at least {least:.10g} GB/s per GPU"
    return (
        unhealthy(words, listing(slow))
        if slow
        else healthy(f"{min(found):.10g} GB/s at the slowest of {len(found)} GPUs", found)
    )


def allreduce(case: Case) -> Finding:
    """Measure the NCCL all-reduce of all GPUs of the node without a topology file, which can break jobs on one node."""
    least, size = case.number("gbps_min"), int(case.number("message_gib"))
    gpus = int(case.number("gpus"))
    _alone(case, whole=True)
    argv = [case.tool("all_reduce_perf"), "-g", str(gpus), "-b", f"{size}G", "-e", f"{size}G", "-n", "20", "-c", "1"]
    result = case.machine.run(argv, case.number("timeout_seconds"), "", {"NCCL_TOPO_FILE": "", "NCCL_IB_DISABLE": "1"})
    if result.state == DONE and result.rc == _WRONG_RESULTS:
        return unhealthy("right results", "wrong results of all_reduce_perf")
    return judge_allreduce(least, busbw(_checked(case, "all_reduce_perf", result), size << 30))


def busbw(text: str, size: float = 0) -> float:
    """
    Return the bus bandwidth at the largest size, out of place or in place, whichever is higher.

    A smaller size is always slower, so a table that ends below I(size) bytes (not enough memory) proves nothing.
    """
    verdict = _BOUNDS.search(text)
    rows = [row for row in map(_row, text.splitlines()) if row]
    if not verdict or not rows:
        raise UnknownError("all_reduce_perf printed no complete table")
    if verdict[1] != "OK":
        raise UnhealthyError("expected right results, found wrong ones (out of bounds values)")
    largest, value = max(rows)
    if largest < size:
        raise UnknownError(f"all_reduce_perf measured {largest:.0f} bytes at most, not {size:.0f}")
    return value


def _row(line: str) -> tuple[float, float] | None:
    cells = line.split()
    if len(cells) < _COLUMNS or not cells[0].isdigit():
        return None
    try:  # indexes count from the right, because the left columns differ between versions
        return float(cells[0]), max(float(cells[-6]), float(cells[-2]))
    except ValueError:
        return None


def judge_allreduce(least: float, found: float) -> Finding:
    """Compare the bandwidth with its limit."""
    words = f"a bus bandwidth of at least {least:.10g} GB/s"
    return healthy(f"{found:.10g} GB/s", found) if found >= least else unhealthy(words, f"{found:.10g} GB/s")


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
            try:
                return float(cells[3])
            except ValueError:
                break
    raise UnknownError(f"ib_write_bw printed no result: {tidy(text, 120)!r}")


def dcgm(case: Case) -> Finding:
    """Run the diagnostics of DCGM at the configured level."""
    level = int(case.number("level"))
    _alone(case)
    return judge_dcgm(
        level, _output(case, "dcgmi", [case.tool("dcgmi"), "diag", "-r", str(level), "-j"], any_status=True)
    )


def judge_dcgm(level: int, text: str) -> Finding:
    """Find failed tests anywhere in the report; at least one test must have passed."""
    try:
        report = json.loads(text[text.index("{") :])
    except ValueError as exc:
        raise UnknownError(f"dcgmi printed no report: {tidy(text, 120)!r}") from exc
    found = list(_results(report, "diag"))
    failed = [name for name, status in found if status.lower() in ("fail", "failed")]
    if failed:
        return unhealthy(f"DCGM level {level} passed", f"failed: {listing(sorted(set(failed)))}")
    if not any(status.lower() in ("pass", "passed") for _name, status in found):
        raise UnknownError("dcgmi reports no test that passed")
    return healthy(f"DCGM level {level} passed")


def _results(node: t.Any, name: str) -> t.Iterator[tuple[str, str]]:
    if isinstance(node, dict):
        name = str(node.get("name") or node.get("category") or name)
        if isinstance(node.get("status"), str):
            yield name, node["status"]
    children = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    for child in children:
        yield from _results(child, name)


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
