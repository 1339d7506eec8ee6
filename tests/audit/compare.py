# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""
Compare the result of the public audit with the table of docs/testing.md.

Usage: compare.py RESULT.json [--page docs/testing.md] [--print]
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import typing as t
from pathlib import Path

if t.TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Values = Mapping[str, t.Any]

CHECKOUT = Path(__file__).parents[2]
HEADING = "## The public audit"
_ROW = re.compile(r"^\| `([^`|]+)` \| ([^|]+) \| ([^|]+) \| ([^|]*) \|$", re.MULTILINE)
VERDICTS = ("pass", "fail", "not applicable")
# From the best grade to the worst; the worst check of a criterion decides.
GRADES = ("skipped", "pass", "warning", "fail")
NO_GRADE = "no grade"
HOST = "host"  # in the table: the grade depends on the hardware or the kernel of the host, so any is right
MONITORING = ("prometheus", "nodeExporter")
TOOLS = "essential-tools"  # what the audit prints as warnings, and does not call a criterion


class Row(t.NamedTuple):
    """One line of the table: what the audit says, what it means here, and why."""

    audit: str
    verdict: str
    reason: str


def _says(*path: str, wanted: tuple[t.Any, ...]) -> Callable[[Values], bool]:
    """Return a function that tells whether a value is one of the wanted ones."""

    def read(values: Values) -> bool:
        found: t.Any = values
        for name in path:
            found = found.get(name) if isinstance(found, dict) else None
        return found in wanted

    return read


def _limits(values: Values) -> bool:
    """Return whether the limits of jobs are those that the audit prints without a warning."""
    limits = values["resourceLimits"]
    free = all(not limits[name] for name in ("maxMemPerCpu", "maxMemPerNode"))
    defaults = limits["defMemPerCpu"] in (0, None) or limits["defMemPerCpu"] >= 4096
    contained = "cgroup" in limits["taskPlugin"] and limits["proctrackType"] == "proctrack/cgroup"
    return free and defaults and contained


# Criteria that the audit records without a grade, and when its text has no warning about them.
READINGS: dict[str, Callable[[Values], bool]] = {
    TOOLS: lambda values: all(values["access"]["essentialTools"].values()),
    "auto-remediation": _says("healthChecks", "autoRemediation", "configured", wanted=(True,)),
    "cpu-power-governor": lambda values: values["computeNodeCpu"]["governors"] != "unknown",
    "fabric-class": lambda values: values["networking"]["nicFabric"]["computeFabricClass"] != "unknown",
    "gpu-drivers": lambda values: values["gpus"]["driverVersion"] not in ("", "unknown"),
    "ib-tenant-isolation": _says("networking", "ibTenantIsolation", wanted=("pass",)),
    "idle-thermals": lambda values: str(values["gpus"]["thermals"]["idleTempMax"]).isdecimal(),
    "mpi-srun-pmix": _says("software", "mpi", "srunPmixAvailable", wanted=(True,)),
    "prolog-fast": _says("healthChecks", "prologFast", wanted=("true",)),
    "resource-limits": _limits,
    "security-qemu-virtio-serial": _says("security", "qemuCve20243446", "status", wanted=("not-applicable", "pass")),
    "security-vmscape": _says("security", "vmscape", "status", wanted=("not-applicable", "pass")),
    "shared-fs": lambda values: bool(values["driveConfig"]["workerNode"]["sharedMounts"]),
    "xid-monitoring": lambda values: str(values["gpus"]["dmesgErrors"]["xidsCount"]).isdecimal(),
}


def found(result: Mapping[str, t.Any]) -> dict[str, str]:
    """Return what the audit says about each criterion."""
    said = {name: _grade(result, name, keys) for name, keys in result["criteria"].items()}
    return {**said, TOOLS: _grade(result, TOOLS, [])}


def _grade(result: Mapping[str, t.Any], name: str, keys: list[str]) -> str:
    grades: list[str] = [result["checks"][key] for key in keys if key in result["checks"]]
    if grades:
        return max(grades, key=GRADES.index)
    if name in READINGS:
        return "pass" if READINGS[name](result["values"]) else "warning"
    return NO_GRADE


def table(page: str) -> dict[str, Row]:
    """Return the rows of the table, by criterion."""
    _before, _heading, part = page.partition(HEADING)
    rows = _ROW.findall(part.split("\n## ")[0])
    return {name: Row(audit.strip(), verdict.strip(), reason.strip()) for name, audit, verdict, reason in rows}


def faults(rows: Mapping[str, Row], said: Mapping[str, str]) -> list[str]:
    """Return where the table differs from the audit, or contradicts itself."""
    problems = [f"{name}: the audit has it, the table does not" for name in sorted(said.keys() - rows.keys())]
    problems += [f"{name}: the table has it, the audit does not" for name in sorted(rows.keys() - said.keys())]
    for name in sorted(said.keys() & rows.keys()):
        row = rows[name]
        if row.audit not in (said[name], HOST):
            problems.append(f"{name}: the table has {row.audit!r}, the audit says {said[name]!r}")
        problems += [f"{name}: {text}" for text in _contradictions(row)]
    return problems


def _contradictions(row: Row) -> t.Iterator[str]:
    if row.audit == HOST and row.verdict != "not applicable":
        yield f"the verdict is {row.verdict}, but the grade depends on the host"
    if row.verdict not in VERDICTS:
        yield f"the verdict is {row.verdict!r}, allowed: {', '.join(VERDICTS)}"
    if row.verdict == "pass" and row.audit != "pass":
        yield f"the verdict is pass, but the audit says {row.audit!r}"
    if row.verdict == "fail" and row.audit == "pass":
        yield "the verdict is fail, but the audit says 'pass'"
    if row.verdict != "pass" and not row.reason:
        yield "a verdict other than pass needs a reason"


def leaks(result: Mapping[str, t.Any]) -> list[str]:
    """Return what the audit learned from a server outside of the cluster, which it must not ask."""
    location = result["values"].get("serverLocation") or {}
    return [f"the audit asked for its location: {name} is {value}" for name, value in location.items() if value]


def undetected(result: Mapping[str, t.Any]) -> list[str]:
    """Return what of the monitoring, which the scenario switches on, the audit did not detect."""
    stack = result["values"]["healthChecks"]["monitoringStack"]
    return [f"the audit does not detect {name}" for name in MONITORING if not stack.get(name)]


def main() -> int:
    """Compare, or print the rows that the result wants."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("result", type=Path)
    parser.add_argument("--page", type=Path, default=CHECKOUT / "docs/testing.md")
    parser.add_argument("--print", action="store_true", help="print what the audit says, instead of comparing")
    options = parser.parse_args()
    result = json.loads(options.result.read_text(encoding="utf-8"))
    said = found(result)
    if options.print:
        print("\n".join(f"{name}: {grade}" for name, grade in said.items()))
        return 0
    rows = table(options.page.read_text(encoding="utf-8"))
    problems = faults(rows, said) + leaks(result) + undetected(result)
    print("\n".join(problems or [f"clustermax {result['version']}: {_summary(rows)}"]))
    return 1 if problems else 0


def _summary(rows: Mapping[str, Row]) -> str:
    counts = {verdict: sum(row.verdict == verdict for row in rows.values()) for verdict in VERDICTS}
    return ", ".join(f"{count} {verdict}" for verdict, count in counts.items())


if __name__ == "__main__":
    sys.exit(main())
