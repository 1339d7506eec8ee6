# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Parse single values of nvidia-smi, with every spelling of "not available"."""

from __future__ import annotations

import re

_NUMBER = re.compile(r"(-?[0-9]{1,15})(?:\.[0-9]{1,15})?")
_INTEGER = re.compile(r"(-?[0-9]{1,15})")
# The most characters before the point of a value with this unit. Only a temperature can be negative.
_LONGEST = {"MHz": 5, "W": 5, "C": 3, "%": 3, "MiB": 8, "x": 2}
# The units of fields of the CSV output, which does not print them, by the begin of their names.
_UNITS = {
    "clocks.": "MHz",
    "power.": "W",
    "enforced.power.": "W",
    "temperature.": "C",
    "utilization.": "%",
    "memory.": "MiB",
    "pcie.link.": "x",
}
_VERSION = re.compile(r"(\d+(?:\.\d+)+)(?:\s.*)?", re.DOTALL)
_UUID = re.compile(r"(?:GPU|MIG)-[0-9a-fA-F-]+")
_VBIOS = re.compile(r"[0-9a-fA-F]{2}(?:\.[0-9a-fA-F]{2}){4}")
_STATE = re.compile(r"P1?[0-9]")
_BUS_ID = re.compile(r"(?:([0-9A-Fa-f]{1,8}):)?([0-9A-Fa-f]{1,2}):([0-9A-Fa-f]{1,2})\.([0-7])")

# Strings in place of a value that report a broken GPU, not a missing feature.
_FAULTS = ("requires reset", "reset required", "is lost", "fallen off", "unknown error", "err!")
# Strings in place of a value that the GPU or the driver does not have.
_ABSENT = ("n/a", "none", "not supported", "not available")
# Strings in place of a value that the driver cannot tell.
_UNKNOWN = ("not found", "unknown", "insufficient permissions")

REPLACEMENT = "\ufffd"  # in place of a character that cannot be read
YES = {"enabled", "yes", "active", "on", "1"}
NO = {"disabled", "no", "not active", "off", "0"}


def number(text: str | None, unit: str = "", field: str = "") -> float | None:
    """
    Return a number with or without this unit, or None for N/A, [Not Supported], deprecated and all other values.

    A number that a value with this unit, or a field, cannot have is no number either.
    """
    match = _NUMBER.fullmatch(_bare(text, unit))
    return float(match.group(0)) if match and _possible(match[1], unit, field) else None


def integer(text: str | None, unit: str = "", field: str = "") -> int | None:
    """Return an integer with or without this unit, or None."""
    match = _INTEGER.fullmatch(_bare(text, unit))
    return int(match.group(0)) if match and _possible(match[1], unit, field) else None


def _possible(whole: str, unit: str, field: str) -> bool:
    """Return whether a value with this unit, or else that of the field, can have the digits before the point."""
    known = unit or next((unit for begin, unit in _UNITS.items() if field.startswith(begin)), "")
    return len(whole) <= _LONGEST.get(known, len(whole)) and (known == "C" or not whole.startswith("-"))


def _bare(text: str | None, unit: str) -> str:
    value = (text or "").strip()
    return value[: -len(unit)].rstrip() if unit and value.endswith(unit) else value


def flag(text: str | None) -> bool | None:
    """Return whether a feature is enabled, or None if the GPU does not have it."""
    word = (text or "").strip().lower()
    if word in YES:
        return True
    return False if word in NO else None


def word(text: str | None) -> str | None:
    """Return a string, or None for N/A and similar values and for one that cannot be printed."""
    value = (text or "").strip()
    return None if not value or is_missing(value) or not is_clean(value) else value


def is_missing(text: str | None) -> bool:
    """Return whether the driver says that it has no value, or reports a broken GPU in its place."""
    return is_absent(text) or bool(fault(text)) or (text or "").strip().strip("[]").lower() in _UNKNOWN


def is_clean(text: str) -> bool:
    """Return whether a string has only characters that nvidia-smi prints: no ANSI code, no byte order mark."""
    return text.isprintable() and REPLACEMENT not in text


def is_absent(text: str | None) -> bool:
    """Return whether the driver reports that this GPU has no such value. An empty text is no report."""
    return text is None or text.strip().strip("[]").strip().lower() in _ABSENT or is_deprecated(text)


def fault(text: str | None) -> str | None:
    """Return the string, without brackets, if it reports a broken GPU."""
    value = (text or "").strip().strip("[]")
    return value if any(mark in value.lower() for mark in _FAULTS) else None


def is_deprecated(text: str | None) -> bool:
    """Return whether the driver reports that the value is deprecated."""
    return "has been deprecated" in (text or "")


def version(text: str | None) -> str | None:
    """Return the version number at the start of a string. Driver 610 adds a note in brackets."""
    match = _VERSION.fullmatch((text or "").strip())
    return match.group(1) if match else None


def major(driver: str | None) -> int:
    """Return the branch of a driver version, or 0 if it is unknown."""
    return int(driver.split(".", maxsplit=1)[0]) if driver else 0


def uuid(text: str | None) -> str | None:
    """Return the UUID of a GPU or of a MIG device."""
    value = (text or "").strip()
    return value if _UUID.fullmatch(value) else None


def vbios(text: str | None) -> str | None:
    """Return the version of a VBIOS."""
    value = (text or "").strip()
    return value if _VBIOS.fullmatch(value) else None


def performance_state(text: str | None) -> str | None:
    """Return a performance state, P0 to P15."""
    value = (text or "").strip()
    return value if _STATE.fullmatch(value) else None


def bus_id(text: str | None) -> str | None:
    """Return a PCI address in the kernel's form (0000:00:06.0), from any form that nvidia-smi prints or accepts."""
    match = _BUS_ID.fullmatch((text or "").strip())
    if not match:
        return None
    domain, bus, device, function = match.groups()
    return f"{int(domain or '0', 16):04x}:{int(bus, 16):02x}:{int(device, 16):02x}.{function}"


def bus_ids(line: str) -> list[str]:
    """Return every PCI address in a line."""
    found = (bus_id(match.group(0)) for match in _BUS_ID.finditer(line))
    return [address for address in found if address]
