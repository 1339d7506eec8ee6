# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""A clock that nobody can set, for periods that outlast a process. Its times count only within one boot."""

from __future__ import annotations

import time
from pathlib import Path

_BOOT = Path("/proc/sys/kernel/random/boot_id")


def seconds() -> float:
    """Return the seconds since the boot of this machine, including those asleep."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def boot() -> str:
    """Return what tells this boot of this machine from all others."""
    return _BOOT.read_text(encoding="ascii").strip()
