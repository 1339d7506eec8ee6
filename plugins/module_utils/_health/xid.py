# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Xid and SXid events of the NVIDIA driver since boot, by class."""

from __future__ import annotations

import re
import typing as t

from . import kernel_log
from .verdict import Finding, UnknownError, healthy, listing, tidy, unhealthy, unknown

if t.TYPE_CHECKING:
    from .case import Case

# With MIG, the instance follows the address: Xid (PCI:0000:01:00 GPU-I:05 GPU-CI:00): 95.
# The driver writes [N/A] where it does not know the device any more.
_ADDRESS = r"((?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?(?: GPU-C?I:[0-9a-fA-F]+)*|\[N/A\])"
_XID = re.compile(rf"NVRM: (?:GPU at PCI:\S+: )?Xid \((?:PCI:)?{_ADDRESS}\): (\d+)(?:,(.*)|\s*$)")
_SXID = re.compile(rf"nvidia-nvswitch\d*: SXid \(PCI:{_ADDRESS}\): (\d+), (Fatal|Non-fatal)\b", re.IGNORECASE)
_MOST_KEPT = 500
# NVLink 5 of B200 and newer says for each event whether it is fatal. A user can put no word but the name of a process
# into a line, so a line with both words is fatal.
_NVLINK5 = range(144, 151)
_FATAL = re.compile(r"\bFatal\b")
_NONFATAL = re.compile(r"\bNon-?fatal\b", re.IGNORECASE)
# The driver demands something, and takes it back with the action None.
RECOVERY = 154
_ACTION = re.compile(r"GPU recovery action changed from .* to 0x[0-9a-fA-F]+ \(([A-Za-z0-9 ]+)\)\s*$")
_NO_ACTION = "none"
_NO_DEMAND = (_NO_ACTION, "drain p2p")
# Demands without an Xid, and a GPU that is lost without one, each in the exact form of the driver. What comes before
# the first gap is longer than the name of a process.
_DEMANDS = tuple(
    re.compile(form)
    for form in (
        rf"NVRM: (?:GPU {_ADDRESS}: )?(RmInitAdapter failed)! \(0x[0-9a-fA-F]+:0x[0-9a-fA-F]+:\d+\)",
        r"NVRM: (?:GPU\d+ )?()nv\w{5,60}: (?:Assertion|Check) failed: .{0,300}?\[(NV_ERR_RESET_REQUIRED)\] \(0x",
        r"(?:NVRM|nvidia-uvm): ()\w{1,60}: uvm encountered global fatal error 0x\w{1,8}, (requiring \w{1,20} reboot)",
        rf"NVRM: GPU {_ADDRESS}: GPU has (fallen off the bus)\.",
        rf"NVRM: The NVIDIA GPU {_ADDRESS}(?: |\\x0a|$).{{0,200}}?(fallen off the bus) and is not responding",
        r"NVRM: ()(fallen off the bus) and is not responding to commands\.",
    )
)
DEMAND = "driver:"
# The begin of an event, longer than the name of a process, in a line that is not understood. NVSwitch writes more lines
# about an event.
_EVENT = re.compile(
    r"NVRM: (?:GPU at PCI:\S+: )?Xid \((?:PCI:[0-9a-fA-F]|[0-9a-fA-F]{4,8}:[0-9a-fA-F])|nvidia-nvswitch\d*: SXid\b"
)
_MORE = re.compile(rf"nvidia-nvswitch\d*: SXid \(PCI:{_ADDRESS}\): \d+, (?:Severity|Data)\b", re.IGNORECASE)
_CHANGED = re.compile(r"GPU re|recovery|action changed|changed from")
_HEAD = re.compile(r"[^\s;]{1,60};")
UNREADABLE = "unreadable:"
_LONGEST = 120


class Event(t.NamedTuple):
    """One event of the driver."""

    device: str
    number: int
    kind: str  # Xid, Xid-non-fatal, SXid, SXid-non-fatal, driver: or unreadable:
    says: str = ""  # the demanded action, or the words of a line without a number

    def key(self) -> str:
        """Return the event as stored in the memory."""
        on = f" on {self.device}" if self.device else ""
        return f"{self.kind} {self.number if self.numbered else self.says}{on}"

    @property
    def numbered(self) -> bool:
        """Return whether the event has a number."""
        return self.kind not in (DEMAND, UNREADABLE)

    @property
    def demands(self) -> bool:
        """Return whether the driver demands a reset or a reboot."""
        if not self.numbered:
            return self.kind == DEMAND
        return bool(self.says and not self.says.lower().startswith(_NO_DEMAND))


def events(lines: t.Iterable[str], since: float = 0.0) -> list[Event]:
    """Return the events of a kernel log since a time in seconds since boot."""
    found = []
    for line in lines:
        record = kernel_log.read(line)
        event = _event(record.text) or _headless(line)
        if event and record.seconds >= since:
            found.append(event)
    return found


def standing(found: t.Iterable[Event]) -> list[Event]:
    """Return the events without the demands that the driver has replaced or taken back."""
    last: dict[str, Event] = {}
    rest = []
    for event in found:
        if event.says and event.numbered:
            last[event.device] = event
        else:
            rest.append(event)
    return [*rest, *(event for event in last.values() if event.says.lower() != _NO_ACTION)]


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
    earlier = kept.get("recovery")
    earlier = earlier if isinstance(earlier, dict) else {}
    found = [*(Event(device, RECOVERY, "Xid", str(says)) for device, says in earlier.items()), *events(lines, since)]
    recovery = {event.device: event.says for event in found if event.number == RECOVERY and event.says}
    keys = [event.key() for event in found if not (event.number == RECOVERY and event.says)]
    seen = list(dict.fromkeys([*before, *keys]))[:_MOST_KEPT]
    classes = {name: {int(number) for number in case.items(name)} for name in ("application", "warn")}
    return judge(seen, classes, {"since": since, "seen": seen, "recovery": recovery}, recovery)


def judge(
    seen: list[str],
    classes: dict[str, set[int]],
    keep: t.Any = None,
    recovery: t.Mapping[str, str] | None = None,
) -> Finding:
    """
    Separate faults of the hardware or the driver from faults of an application.

    A number in no class is a fault, so that no event of a newer driver is missed. I(recovery) has the last action for
    each device; one that the driver demands is a fault, although the class of its number is C(warn).
    """
    harmless = classes["application"] | classes["warn"]
    actions = standing(Event(device, RECOVERY, "Xid", says) for device, says in (recovery or {}).items())
    demanded = [event for event in actions if event.demands and RECOVERY not in classes["application"]]
    faults = [key for key in seen if _is_fault(key, harmless)]
    faults += [f"{event.key()} ({event.says})" for event in demanded]
    seen = [*seen, *(f"{event.key()} ({event.says})" for event in actions if event not in demanded)]
    if faults:
        return unhealthy("no fatal Xid since boot", listing(faults), keep)
    unclear = [key for key in seen if key.startswith(UNREADABLE)]
    if unclear:
        return unknown(f"the kernel log has events that are not understood: {listing(unclear)}", keep)
    note = f"; seen without being a fault: {listing(seen)}" if seen else ""
    return healthy(f"no fatal Xid since boot{note}", keep=keep)


def _is_fault(key: str, harmless: set[int]) -> bool:
    kind, number = key.split()[:2]
    return kind in ("SXid", DEMAND) or (kind == "Xid" and int(number) not in harmless)


def _event(text: str) -> Event | None:
    """Return the event of a message of the kernel, which begins with the words of the driver."""
    xid = _XID.match(text)
    if xid:
        return _xid(xid[1], int(xid[2]), xid[3] or "") or _unreadable(text)
    sxid = _SXID.match(text)
    if sxid:
        return Event(sxid[1], int(sxid[2]), "SXid" if sxid[3].lower() == "fatal" else "SXid-non-fatal")
    if _EVENT.match(text) and not _MORE.match(text):
        return _unreadable(text)
    demand = next(filter(None, (form.match(text) for form in _DEMANDS)), None)
    return Event(demand[1] or "", 0, DEMAND, demand[2]) if demand else None


def _unreadable(text: str) -> Event:
    return Event("", 0, UNREADABLE, tidy(text, _LONGEST))


def _headless(line: str) -> Event | None:
    """Return an event whose record has not the head that the kernel writes in /dev/kmsg, but one of its form."""
    head = None if kernel_log.is_kmsg(line) else _HEAD.match(line)
    return _unreadable(line) if head and _EVENT.match(line, head.end()) else None


def _xid(device: str, number: int, rest: str) -> Event | None:
    """Return an Xid with what its text decides, or None for a recovery action that is not understood."""
    if number == RECOVERY:
        action = _ACTION.search(rest)
        if not action and _CHANGED.search(rest):
            return None
        return Event(device, number, "Xid", action[1].strip() if action else "")
    if number in _NVLINK5 and _NONFATAL.search(rest) and not _FATAL.search(rest):
        return Event(device, number, "Xid-non-fatal")
    return Event(device, number, "Xid")
