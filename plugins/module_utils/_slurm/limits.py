# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
Define the limits of Slurm's accounting: their names, their values, and a comparable form of the values.

Names and forms are those of sacctmgr(1). A limit is compared as an integer (counts; minutes; seconds), as a mapping of
TRES to integers (memory in MiB), or as a decimal number. No limit is None, or an empty mapping for TRES.
sacctmgr reads B(cpu=12x) and B(mem=1.5T) as 12 and as 1 MiB with exit status 0, so this code checks the values.
"""

from __future__ import annotations

import re
import typing as t

if t.TYPE_CHECKING:
    from collections.abc import Mapping

    Amount = t.Union[int, float, dict[str, int], None]


class LimitError(ValueError):
    """Slurm does not know a limit, or would misread its value."""


class Limit(t.NamedTuple):
    """One limit: its name for sacctmgr, the column that shows it, and what it counts."""

    name: str
    column: str
    kind: str


def _table(**limits: str) -> dict[str, Limit]:
    """Return limits by name and by column, both in lower case."""
    table: dict[str, Limit] = {}
    for name, entry in limits.items():
        column, _space, kind = entry.rpartition(" ")
        limit = Limit(name, column or name, kind)
        table[name.lower()] = limit
        table.setdefault(limit.column.lower(), limit)
    return table


_BOTH = {
    "GrpJobs": "count",
    "GrpJobsAccrue": "count",
    "GrpSubmitJobs": "GrpSubmit count",
    "GrpTRES": "tres",
    "GrpTRESMins": "tres",
    "GrpTRESRunMins": "tres",
    "GrpWall": "minutes",
    "MaxTRESPerJob": "MaxTRES tres",
    "MaxTRESMinsPerJob": "MaxTRESMins tres",
    "MaxTRESPerNode": "tres",
    "MaxWallDurationPerJob": "MaxWall minutes",
}
ASSOCIATION = _table(**_BOTH, MaxJobs="count", MaxJobsAccrue="count", MaxSubmitJobs="MaxSubmit count")
QOS = _table(
    **_BOTH,
    GraceTime="seconds",
    LimitFactor="factor",
    MaxJobsAccruePerAccount="MaxJobsAccruePA count",
    MaxJobsAccruePerUser="MaxJobsAccruePU count",
    MaxJobsPerAccount="MaxJobsPA count",
    MaxJobsPerUser="MaxJobsPU count",
    MaxSubmitJobsPerAccount="MaxSubmitPA count",
    MaxSubmitJobsPerUser="MaxSubmitPU count",
    MaxTRESPerAccount="MaxTRESPA tres",
    MaxTRESPerUser="MaxTRESPU tres",
    MaxTRESRunMinsPerAccount="MaxTRESRunMinsPA tres",
    MaxTRESRunMinsPerUser="MaxTRESRunMinsPU tres",
    MinTRESPerJob="MinTRES tres",
    UsageFactor="factor",
    UsageThreshold="factor",
)
# The value that sacctmgr shows for an unset limit and that unsets it.
UNSET = {"GraceTime": 0, "UsageFactor": 1.0}

_NONE = ("", "-1", "none", "unlimited", "infinite")
_UNITS = {"": 0, "M": 0, "G": 1, "T": 2, "P": 3}
_TRES = re.compile(
    r"(?:billing|cpu|energy|mem|node|pages|vmem|fs/disk|(?:gres|license|bb|ic|interconnect)/[A-Za-z0-9_.:-]+)\Z"
)
_AMOUNT = re.compile(r"(\d+)([MGTP]?)\Z", re.IGNORECASE)
_CLOCK = re.compile(r"(?:(?P<days>\d+)-)?(?P<rest>\d+(?::\d+){0,2})\Z")
_MEMORY = ("mem", "bb/", "vmem")


def limits(table: Mapping[str, Limit]) -> list[Limit]:
    """Return every limit of a table once."""
    return list(dict.fromkeys(table.values()))


def find(table: Mapping[str, Limit], name: str) -> Limit:
    """Return a limit by its name in sacctmgr or by the column that shows it."""
    try:
        return table[name.lower()]
    except KeyError:
        names = ", ".join(sorted(limit.name for limit in limits(table)))
        raise LimitError(f"unknown limit {name!r}; known limits: {names}") from None


def parse(limit: Limit, value: t.Any) -> Amount:
    """Return the value of a limit in its comparable form."""
    if limit.kind == "tres":
        return parse_tres(value, limit.name)
    text = "" if value is None else str(value).strip()
    if text.lower() in _NONE:
        return t.cast("Amount", UNSET.get(limit.name))
    if limit.kind in ("minutes", "seconds"):
        return _time(limit, text)
    if limit.kind == "factor":
        return _factor(limit, text)
    if not text.isdigit():
        raise LimitError(f"{limit.name} is {value!r}, expected a whole number, or -1 for no limit")
    return int(text)


def parse_tres(value: t.Any, name: str = "TRES") -> dict[str, int]:
    """Return the TRES that have a limit, from a mapping or from name=amount pairs."""
    if isinstance(value, dict):
        pairs = [(str(tres).strip(), amount) for tres, amount in value.items()]
    else:
        pairs = [_pair(item, name) for item in str("" if value is None else value).split(",") if item.strip()]
    result: dict[str, int] = {}
    for tres, amount in pairs:
        if not _TRES.match(tres):
            raise LimitError(
                f"{name} names the unknown TRES {tres!r}, expected cpu, mem, node, gres/gpu or another TRES"
            )
        text = "" if amount is None else str(amount).strip()
        if text.lower() not in _NONE:
            result[tres] = _amount(tres, text, name)
    return result


def settings(limit: Limit, present: Amount, wanted: Amount) -> str:
    """Return the setting for sacctmgr that changes one value to another."""
    if isinstance(wanted, dict):
        gone = {tres: -1 for tres in sorted(present) if tres not in wanted} if isinstance(present, dict) else {}
        both = {**dict(sorted(wanted.items())), **gone}
        return f"{limit.name}=" + ",".join(f"{tres}={amount}" for tres, amount in both.items())
    return f"{limit.name}={-1 if wanted is None else wanted}"


def text(limit: Limit, value: Amount) -> str:
    """Return a value as the diff shows it."""
    if isinstance(value, dict):
        return ",".join(f"{tres}={amount}{'M' if tres == 'mem' else ''}" for tres, amount in sorted(value.items()))
    if value is None or not isinstance(value, int) or limit.kind != "minutes":
        return "" if value is None else str(value)
    days, minutes = divmod(value, 24 * 60)
    return f"{days}-{minutes // 60:02}:{minutes % 60:02}:00" if days else f"{minutes // 60:02}:{minutes % 60:02}:00"


def _pair(item: str, name: str) -> tuple[str, str]:
    """Return one name=amount pair."""
    tres, equals, amount = item.partition("=")
    if not equals:
        raise LimitError(f"{name} holds {item.strip()!r}, expected pairs such as cpu=64,gres/gpu=8")
    return tres.strip(), amount.strip()


def _amount(tres: str, value: str, name: str) -> int:
    """Return an amount of one TRES. Memory is in MiB."""
    match = _AMOUNT.match(value)
    memory = tres.startswith(_MEMORY)
    if not match or (match[2] and not memory):
        unit = " of MiB, or one with G, T or P" if memory else ""
        raise LimitError(f"{name}: {tres} is {value!r}, expected a whole number{unit}, or -1 for no limit")
    return int(match[1]) << 10 * _UNITS[match[2].upper()]


def _time(limit: Limit, value: str) -> int:
    """Return a duration in the unit of the limit. A plain number is already in that unit."""
    if value.isdigit():
        return int(value)
    match = _CLOCK.match(value)
    if not match:
        raise LimitError(
            f"{limit.name} is {value!r}, expected {limit.kind}, hours:minutes:seconds, days-hours[:minutes[:seconds]], "
            "or -1 for no limit"
        )
    parts = [int(part) for part in match["rest"].split(":")]
    if match["days"] is None and len(parts) < len(("hours", "minutes", "seconds")):
        parts.insert(0, 0)
    hours, minutes, seconds = (*parts, 0, 0)[:3]
    total = ((int(match["days"] or 0) * 24 + hours) * 60 + minutes) * 60 + seconds
    return total if limit.kind == "seconds" else -(-total // 60)


def _factor(limit: Limit, value: str) -> float:
    """Return a decimal number."""
    try:
        number = float(value)
    except ValueError:
        number = -1
    if not 0 <= number < float("inf"):
        raise LimitError(f"{limit.name} is {value!r}, expected a number such as 1.5, or -1 for none")
    return round(number, 6)
