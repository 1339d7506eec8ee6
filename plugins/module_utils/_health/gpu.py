# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Checks of the GPUs from the output of nvidia-smi."""

from __future__ import annotations

import re
import typing as t

from . import readings
from .verdict import (
    ExplainedError,
    Finding,
    NotApplicableError,
    NotRunError,
    UnhealthyError,
    UnknownError,
    healthy,
    listing,
    unhealthy,
)

if t.TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .case import Case
    from .readings import Gpu

# Throttle reasons by their NVML bit. Reasons of normal operation are not faults.
THROTTLE_BITS = {
    0x1: "idle",
    0x2: "application clocks setting",
    0x4: "software power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
    0x100: "display clocks setting",
}
# GPUs that share the memory of the machine (a GB10 of a DGX Spark prints [N/A]).
_SHARED = re.compile(r"\bGB10\b")
_NONE = re.compile(r"\[?(?:N/A|Not Supported)\]?", re.IGNORECASE)


def count(case: Case) -> Finding:
    """Check that every GPU of the record answers, and that none has a fault."""
    expected = case.number("count")
    try:
        found = case.all_gpus()
    except NotRunError as exc:
        if not expected:
            raise
        raise UnhealthyError(f"expected {expected:.10g} GPUs, found none: {exc}") from exc
    whole = judge_count(expected, found.gpus, found.warnings)
    slices = case.given("slices")
    if not slices or whole.status != "healthy":
        return whole
    timeout, tool = case.number("timeout_seconds"), case.tool("nvidia-smi")
    return judge_slices(slices, readings.slices(case.machine, timeout, expected, tool))


def judge_slices(expected: dict[str, t.Any], found: dict[str, dict[str, int]]) -> Finding:
    """Compare the MIG slices by profile with those of the record; I(found) has them by profile and GPU."""
    missing = []
    for profile, count in expected.items():
        have = found.get(profile, {})
        if sum(have.values()) < count:
            where = ", ".join(f"GPU {gpu}: {number}" for gpu, number in have.items())
            missing.append(f"{sum(have.values())} of {profile}" + (f" ({where})" if where else ""))
    wanted = ", ".join(f"{count} slices {profile}" for profile, count in expected.items())
    return unhealthy(wanted, listing(missing)) if missing else healthy(wanted, sum(expected.values()))


def judge_count(expected: float, found: list[Gpu], warnings: list[str]) -> Finding:
    """Compare the number of GPUs, and report the warnings of the tool."""
    if len(found) != expected:
        return unhealthy(
            f"{expected:.10g} GPUs", f"{len(found)}: {listing([gpu.row['pci.bus_id'] for gpu in found], 8)}"
        )
    trouble = [*warnings, *(text for text in (gpu.trouble() for gpu in found) if text)]
    if trouble:
        return unhealthy("GPUs in order", listing(trouble))
    for gpu in found:
        gpu.judge_action()
    return healthy(f"{len(found)} GPUs", len(found))


def model(case: Case) -> Finding:
    """Check the model and the size of the memory."""
    return judge_model(case.text("model"), case.number("memory_mib"), case.number("tolerance_percent"), case.gpus())


def judge_model(name: str, memory_mib: float, tolerance: float, found: list[Gpu]) -> Finding:
    """
    Compare the model with the name from the driver word by word, and the memory with a tolerance.

    GPUs that share the memory of the machine have none of their own: their name alone is compared.
    """
    least = memory_mib * (1 - tolerance / 100)
    shared = bool(found) and all(
        _SHARED.search(gpu.row["name"]) and _NONE.fullmatch(gpu.row["memory.total"]) for gpu in found
    )

    def bad(gpu: Gpu) -> str:
        if not gpu.row["name"]:
            raise UnknownError(f"{gpu.name}: name is ''")
        parts = gpu.row["name"].lower().replace("-", " ").split()
        if not all(any(word in part for part in parts) for word in name.lower().replace("-", " ").split()):
            return gpu.row["name"]
        if shared:
            return ""
        size = gpu.number("memory.total")
        return "" if size >= least else f"{size:.10g} MiB"

    return each(found, bad, f"{name} without memory of its own" if shared else f"{name} with {memory_mib:.10g} MiB")


def persistence(case: Case) -> Finding:
    """Check that persistence mode is on: without it, settings are lost when the last client ends."""
    return each(case.gpus(), lambda gpu: "" if gpu.flag("persistence_mode") else "Disabled", "persistence mode Enabled")


def clocks(case: Case) -> Finding:
    """Check that the maximum clocks, and the application clocks if readable, reach those of the record."""
    wanted = {"memory": case.number("memory_mhz"), "graphics": case.number("graphics_mhz")}
    return judge_clocks(wanted, bool(case.value("application")), case.gpus())


def judge_clocks(wanted: dict[str, float], application: bool, found: list[Gpu]) -> Finding:
    """Compare maximum clocks, and application clocks if the driver still reports them."""

    def bad(gpu: Gpu) -> str:
        low = []
        for domain, mhz in wanted.items():
            for kind in ("max", "applications"):
                field = f"clocks.{kind}.{domain}"
                if kind == "applications" and (not application or not gpu.available(field)):
                    continue
                value = gpu.number(field)
                low += [f"{field} {value:.10g}"] if value < mhz else []
        return " and ".join(low)

    return each(found, bad, f"{wanted['memory']:.10g} MHz memory and {wanted['graphics']:.10g} MHz graphics")


def ecc(case: Case) -> Finding:
    """Check that ECC is on and that the counters since the last reset are low."""
    limits = {
        name: case.number(name)
        for name in ("sram_corrected_max", "sram_uncorrected_max", "dram_corrected_max", "dram_uncorrected_max")
    }
    return judge_ecc(limits, bool(case.value("required")), case.gpus())


def judge_ecc(limits: dict[str, float], required: bool, found: list[Gpu]) -> Finding:
    """
    Compare each counter with its limit; a GPU in MIG mode shows counters only for its instances.

    A GPU may lack the counters of one memory, but not one of them: the other one would hide its errors.
    """
    uncounted = []

    def bad(gpu: Gpu) -> str:
        if not required and not gpu.available("ecc.mode.current"):
            raise NotApplicableError("has no ECC")
        if not gpu.flag("ecc.mode.current"):
            if not required:
                raise NotApplicableError("ECC is off")
            return "ECC Disabled"
        over, known, missing = _over(gpu, limits)
        odd = [f"{field} is {gpu.row.get(field)!r}" for memory, field in missing if memory in known]
        if not gpu.mig and (not known or (odd and not over)):
            raise UnknownError(f"{gpu.name}: {listing(odd) or 'no ECC counter can be read'}")
        uncounted.extend([] if known else [gpu.name])
        return " and ".join(over)

    words = ", ".join(f"{name.replace('_max', '').replace('_', ' ')} {limit:.10g}" for name, limit in limits.items())
    return each(found, bad, f"ECC Enabled and at most {words}", ("in MIG mode without counters", uncounted))


def _over(gpu: Gpu, limits: dict[str, float]) -> tuple[list[str], set[str], list[tuple[str, str]]]:
    """Return what is over its limit, the memories with a counter, and the absent counters with their memory."""
    over, known, missing = [], set(), []
    for name, limit in limits.items():
        memory, kind, _max = name.split("_")
        field = f"ecc.errors.{kind}.volatile.{memory}"
        if not gpu.available(field):
            missing.append((memory, field))
            continue
        known.add(memory)
        value = gpu.number(field)
        over += [f"{value:.10g} {kind} in {memory.upper()}"] if value > limit else []
    return over, known, missing


def remap(case: Case) -> Finding:
    """Check the row remapper (Ampere and newer) and retired pages (Volta and older)."""
    found = case.gpus()
    if not all("remapped_rows.pending" in gpu.row for gpu in found):
        rows = readings.remapped_rows(case.machine, case.number("timeout_seconds"), case.tool("nvidia-smi"))
        for gpu in found:
            gpu.row.update(rows.get(gpu.row["uuid"], {}))
    return judge_remap(
        case.number("uncorrectable_max"), case.number("retired_pages_max"), bool(case.value("required")), found
    )


def judge_remap(uncorrectable_max: float, retired_pages_max: float, required: bool, found: list[Gpu]) -> Finding:
    """Read Yes and No as booleans, and compare counts as numbers."""

    def bad(gpu: Gpu) -> str:
        if gpu.available("remapped_rows.pending"):
            return _remapped(gpu, uncorrectable_max)
        if gpu.available("retired_pages.pending"):
            return _retired(gpu, retired_pages_max)
        if gpu.mig or not required:
            raise NotApplicableError("in MIG mode" if gpu.mig else "has neither remapped rows nor retired pages")
        raise UnknownError(f"{gpu.name}: neither remapped rows nor retired pages can be read")

    rows, pages = (
        f"at most {uncorrectable_max:.10g} rows remapped",
        f"fewer than {retired_pages_max:.10g} pages retired",
    )
    return each(found, bad, f"no remap or retirement pending, none failed, {rows}, {pages}")


def _remapped(gpu: Gpu, uncorrectable_max: float) -> str:
    for field in ("remapped_rows.failure", "remapped_rows.pending"):
        if not (gpu.mig and not gpu.available(field)) and gpu.flag(field):
            return f"{field} {gpu.row[field]}"
    if gpu.mig and not gpu.available("remapped_rows.uncorrectable"):
        return ""
    rows = gpu.number("remapped_rows.uncorrectable")
    return f"{rows:.10g} rows remapped" if rows > uncorrectable_max else ""


def _retired(gpu: Gpu, retired_pages_max: float) -> str:
    if gpu.flag("retired_pages.pending"):
        return f"retired_pages.pending {gpu.row['retired_pages.pending']}"
    pages = gpu.number("retired_pages.single_bit_ecc.count") + gpu.number("retired_pages.double_bit.count")
    return f"{pages:.10g} pages retired" if pages >= retired_pages_max else ""


def throttle(case: Case) -> Finding:
    """Check that neither heat nor the power supply slows a GPU down."""
    return judge_throttle(int(case.number("mask")), case.gpus())


def judge_throttle(mask: int, found: list[Gpu]) -> Finding:
    """Name the active throttle reasons that are in the mask."""

    def bad(gpu: Gpu) -> str:
        active = gpu.bits("clocks_throttle_reasons.active") & mask
        return " and ".join(THROTTLE_BITS.get(1 << bit, hex(1 << bit)) for bit in range(64) if active >> bit & 1)

    return each(found, bad, f"no throttle reason of {mask:#x}")


def temperature(case: Case) -> Finding:
    """Check that no GPU is too hot."""
    limit = case.number("max_celsius")

    def bad(gpu: Gpu) -> str:
        value = gpu.number("temperature.gpu")
        return f"{value:.10g} C" if value > limit else ""

    return each(case.gpus(), bad, f"at most {limit:.10g} C")


def pcie(case: Case) -> Finding:
    """Check that each GPU has its full PCIe link."""
    return judge_pcie(case.number("generation"), case.number("width"), case.gpus())


def judge_pcie(generation: float, width: float, found: list[Gpu]) -> Finding:
    """Compare generation and width as numbers; ignore the generation of an idle GPU."""
    asleep = []

    def bad(gpu: Gpu) -> str:
        gen, lanes = gpu.number("pcie.link.gen.current"), gpu.number("pcie.link.width.current")
        if gen < generation and lanes >= width and gpu.asleep:
            asleep.append(gpu.name)
            return ""
        return f"generation {gen:.10g} x{lanes:.10g}" if gen < generation or lanes < width else ""

    return each(found, bad, f"PCIe generation {generation:.10g} x{width:.10g}", ("idle, only the width judged", asleep))


def each(
    found: Iterable[Gpu], bad: Callable[[Gpu], str], expected: str, partly: tuple[str, list[str]] = ("", [])
) -> Finding:
    """Judge each GPU; a GPU that cannot be judged does not hide a fault of another."""
    faults, doubts, without, number, explained = [], [], [], 0, True
    for gpu in found:
        number += 1
        try:
            fault = bad(gpu)
        except NotApplicableError as exc:
            without.append(f"{gpu.name} {exc}")
            continue
        except UnknownError as exc:
            doubts.append(str(exc))
            explained = explained and bool(gpu.trouble())
            continue
        faults += [f"{gpu.name}: {fault}"] if fault else []
    if faults:
        return unhealthy(expected, listing(faults))
    if doubts:
        raise (ExplainedError if explained else UnknownError)(listing(doubts))
    if not number:
        raise UnknownError("nvidia-smi lists no GPU")
    if len(without) == number:
        raise NotApplicableError(listing(without))
    notes = [f"not judged: {listing(without)}"] if without else []
    notes += [f"{partly[0]}: {listing(partly[1])}"] if partly[1] else []
    return healthy("; ".join([f"{expected} on {number - len(without)} GPUs", *notes]))
