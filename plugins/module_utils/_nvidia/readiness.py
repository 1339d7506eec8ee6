# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Wait until the driver is ready, for a limited time."""

from __future__ import annotations

import time
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia.smi import NvidiaSmiError

if t.TYPE_CHECKING:
    from collections.abc import Callable

    Result = t.TypeVar("Result")

# Kinds of failure while the driver is not ready. Other failures are final.
NOT_READY = ("no_driver", "no_device", "blocked", "timeout")
_PAUSE = 2.0


def when_ready(
    action: Callable[[], Result],
    seconds: float,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Result:
    """Repeat an action while the driver is not ready. After a number of seconds, raise its NvidiaSmiError."""
    begin = clock()
    while True:
        try:
            return action()
        except NvidiaSmiError as exc:
            left = begin + seconds - clock()
            if exc.kind not in NOT_READY or left <= 0:
                raise
        sleep(min(_PAUSE, left))
