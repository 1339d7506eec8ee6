# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Xid and SXid events of the NVIDIA driver since boot, by class."""

from __future__ import annotations

import re
import typing as t

from . import kernel_log
from .verdict import Finding, UnknownError, healthy, listing, unhealthy

if t.TYPE_CHECKING:
    from .case import Case

# With MIG, the instance follows the address: Xid (PCI:0000:01:00 GPU-I:05 GPU-CI:00): 95.
_ADDRESS = r"((?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?(?: GPU-C?I:[0-9a-fA-F]+)*)"
_XID = re.compile(rf"NVRM: (?:GPU at PCI:\S+: )?Xid \((?:PCI:)?{_ADDRESS}\): (\d+)(?:,(.*)|\s*$)")
_SXID = re.compile(rf"nvidia-nvswitch\d*: SXid \(PCI:{_ADDRESS}\): (\d+), (Fatal|Non-fatal)\b", re.IGNORECASE)
_MOST_KEPT = 500


class Event(t.NamedTuple):
    """One event of the driver."""

    device: str
    number: int
    kind: str  # Xid, SXid or SXid-non-fatal

    def key(self) -> str:
        """Return the event as stored in the memory."""
        return f"{self.kind} {self.number} on {self.device}"


def events(lines: t.Iterable[str], since: float = 0.0) -> list[Event]:
    """Return the events of a kernel log since a time in seconds since boot."""
    found = []
    for line in lines:
        record = kernel_log.read(line)
        event = _event(record.text)
        if event and record.seconds >= since:
            found.append(event)
    return found


def check(case: Case) -> Finding:
    """Check the kernel log; an event counts until the next boot, even if the log no longer contains it."""
    path = case.text("kernel_log")
    try:
        lines = case.machine.kernel_log(path)
    except OSError as exc:
        raise UnknownError(f"{path} cannot be read: {exc.strerror}") from exc
    if not lines:
        raise UnknownError(f"{path} is empty")
    kept = case.kept()
    since = kept.get("since", 0.0)
    before = [key for key in kept.get("seen") or [] if isinstance(key, str)]
    seen = list(dict.fromkeys([*before, *(event.key() for event in events(lines, since))]))[:_MOST_KEPT]
    classes = {name: {int(number) for number in case.items(name)} for name in ("application", "warn")}
    return judge(seen, classes, {"since": since, "seen": seen})


def judge(seen: list[str], classes: dict[str, set[int]], keep: t.Any = None) -> Finding:
    """
    Separate faults of the hardware or the driver from faults of an application.

    A number in no class is a fault, so that no event of a newer driver is missed.
    """
    harmless = classes["application"] | classes["warn"]
    faults = [key for key in seen if _is_fault(key, harmless)]
    if faults:
        return unhealthy("no fatal Xid since boot", listing(faults), keep)
    note = f"; seen without being a fault: {listing(seen)}" if seen else ""
    return healthy(f"no fatal Xid since boot{note}", keep=keep)


def _is_fault(key: str, harmless: set[int]) -> bool:
    kind, number = key.split()[:2]
    return kind == "SXid" or (kind == "Xid" and int(number) not in harmless)


def _event(text: str) -> Event | None:
    """Return the event of a message of the kernel, which begins with the words of the driver."""
    xid = _XID.match(text)
    if xid:
        return Event(xid[1], int(xid[2]), "Xid")
    sxid = _SXID.match(text)
    if sxid:
        return Event(sxid[1], int(sxid[2]), "SXid" if sxid[3].lower() == "fatal" else "SXid-non-fatal")
    return None
