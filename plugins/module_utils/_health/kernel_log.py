# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
One record of the kernel log: what the kernel says, and when.

Users put text into messages of the kernel: the unknown option of a mount, the name of a process (15 characters), and in
the same message the name of its file. So readers compare a message from its first character with the exact words of the
driver, and a message that begins with a process has no text.
A program that writes to /dev/kmsg cannot use the facility kern, which is 0. /dev/kmsg escapes line breaks of a message.
"""

from __future__ import annotations

import re
import typing as t

_KMSG = re.compile(r"(?P<level>\d+),\d+,(?P<time>\d+),[^;]*;(?P<text>[^\n]*)")
# The forms of dmesg and of a file of rsyslog that has only messages of the kernel.
_PRINTED = re.compile(
    r"(?:<(?P<level>\d+)>)?(?:(?:[A-Z][a-z]{2} [ \d]\d [\d:]{8}|\d{4}-\d\d-\d\dT\S+) \S+ kernel: )?(?:kernel: )?"
    r"(?:\[ *(?P<time>[^\[\]]*)\] ?(?:\[ *[TC]\d+\] ?)?)?(?P<text>.*)"
)
# How the kernel begins a message about a process: its name, of which each byte may look like \x1b, and more.
_PROCESS = re.compile(
    r"(?:traps: )?(?:\\x[0-9a-f]{2}|.){0,15}"
    r"(?:\[\d+\]:? | ?\(\d+\)[:/ ]|/\d+: | invoked oom-killer|: page allocation failure|: segfault| general protection)"
)
_NUL = "\0"  # in a log of UTF-16, and in one that was not written to its end; no message of the kernel has it
_FACILITY = 3  # bits below the facility


class Record(t.NamedTuple):
    """When in seconds since boot, and what. A record that is not the kernel's has no text."""

    seconds: float
    text: str


def is_kmsg(record: str) -> bool:
    """Return whether a record has the head that the kernel writes in /dev/kmsg."""
    return bool(_KMSG.match(record.replace(_NUL, "")))


def read(record: str) -> Record:
    """Return a record in the form of /dev/kmsg, of dmesg or of a log file of the kernel."""
    record = record.replace(_NUL, "")
    kmsg = _KMSG.match(record)
    found = kmsg or _PRINTED.match(record)
    if not found or int(found["level"] or 0) >> _FACILITY or _PROCESS.match(found["text"]):
        return Record(float("inf"), "")
    if kmsg:
        return Record(int(found["time"]) / 1e6, found["text"])
    try:
        return Record(float(found["time"] or "inf"), found["text"])
    except ValueError:  # a date, as dmesg --ctime prints it
        return Record(float("inf"), found["text"])
