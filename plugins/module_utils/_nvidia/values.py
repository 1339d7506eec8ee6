# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Parse single values of nvidia-smi, with every spelling of "not available"."""

from __future__ import annotations

import re

_NUMBER = re.compile(r"(-?[0-9]{1,15}(?:\.[0-9]{1,15})?)\s*(?:MHz|MiB|W|C|%|x|us|KB/s|bank\(s\))?")
_VERSION = re.compile(r"\d+(?:\.\d+)+")
_BUS_ID = re.compile(r"(?:([0-9A-Fa-f]{1,8}):)?([0-9A-Fa-f]{1,2}):([0-9A-Fa-f]{1,2})\.([0-7])")

# Strings in place of a value that report a broken GPU, not a missing feature.
_FAULTS = ("requires reset", "reset required", "is lost", "fallen off", "unknown error", "err!")
# Strings in place of a value that the GPU or the driver does not have.
_ABSENT = ("", "n/a", "none", "not supported", "not available")

YES = {"enabled", "yes", "active", "on", "1"}
NO = {"disabled", "no", "not active", "off", "0"}


def number(text: str | None) -> float | None:
    """Return a number without its unit, or None for N/A, [Not Supported], deprecated and similar values."""
    match = _NUMBER.fullmatch((text or "").strip())
    return float(match.group(1)) if match else None


def integer(text: str | None) -> int | None:
    """Return an integer without its unit, or None."""
    value = number(text)
    return None if value is None else int(value)


def flag(text: str | None) -> bool | None:
    """Return whether a feature is enabled, or None if the GPU does not have it."""
    word = (text or "").strip().lower()
    if word in YES:
        return True
    return False if word in NO else None


def word(text: str | None) -> str | None:
    """Return a string without brackets, or None for N/A and similar values."""
    value = (text or "").strip()
    if is_absent(value) or fault(value):
        return None
    return None if value.strip("[]").lower() in ("not found", "unknown", "insufficient permissions") else value


def is_absent(text: str | None) -> bool:
    """Return whether the driver reports that this GPU has no such value."""
    return (text or "").strip().strip("[]").strip().lower() in _ABSENT or is_deprecated(text)


def fault(text: str | None) -> str | None:
    """Return the string, without brackets, if it reports a broken GPU."""
    value = (text or "").strip().strip("[]")
    return value if any(mark in value.lower() for mark in _FAULTS) else None


def is_deprecated(text: str | None) -> bool:
    """Return whether the driver reports that the value is deprecated."""
    return "has been deprecated" in (text or "")


def version(text: str | None) -> str | None:
    """Return the version number at the start of a string. Driver 610 adds a note in brackets."""
    match = _VERSION.match((text or "").strip())
    return match.group(0) if match else None


def major(driver: str | None) -> int:
    """Return the branch of a driver version, or 0 if it is unknown."""
    return int(driver.split(".", maxsplit=1)[0]) if driver else 0


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
