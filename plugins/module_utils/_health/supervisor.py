# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Run the checks in a child process, so that the program answers even if a check hangs in the kernel."""

from __future__ import annotations

import json
import os
import select
import signal
import time
import typing as t

from . import checks
from .memory import settle
from .verdict import Verdict, unknown

if t.TYPE_CHECKING:
    from collections.abc import Sequence

    from .machine import Machine

_GRACE = 1.5  # seconds for the child to end after its time limit


def run(
    names: Sequence[str],
    config: dict[str, t.Any],
    machine: Machine,
    remembered: dict[str, dict[str, t.Any]],
    deadline: float,
) -> list[Verdict]:
    """Return a verdict for every name, in order, and update the mapping with the state to store."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        _child(writer, names, config, machine, remembered)
    os.close(writer)
    verdicts: dict[str, Verdict] = {}
    try:
        for line in _lines(reader, time.monotonic() + deadline + _GRACE):
            report = json.loads(line)
            verdict = Verdict(*report["verdict"])
            verdicts[verdict.check] = verdict
            remembered[verdict.check] = report["after"]
    finally:
        os.close(reader)
        _end(child)
    for name in names:
        if name not in verdicts:
            late = unknown(f"no answer within {deadline:.10g} s")
            params = config["checks"].get(name) or {}
            status, reason, remembered[name] = settle(late, remembered.get(name) or {}, params, machine.now())
            verdicts[name] = Verdict(name, status, reason)
    return [verdicts[name] for name in names]


def _child(
    writer: int,
    names: Sequence[str],
    config: dict[str, t.Any],
    machine: Machine,
    remembered: dict[str, dict[str, t.Any]],
) -> t.NoReturn:
    try:
        for verdict, after in checks.run(names, config, machine, remembered):
            data = (json.dumps({"verdict": verdict, "after": after}) + "\n").encode()
            while data:
                data = data[os.write(writer, data) :]
    finally:
        os._exit(0)


def _lines(reader: int, end: float) -> t.Iterator[bytes]:
    rest = b""
    while True:
        ready, _write, _error = select.select([reader], [], [], max(0.0, end - time.monotonic()))
        chunk = os.read(reader, 1 << 20) if ready else b""
        if not chunk:
            return
        *lines, rest = (rest + chunk).split(b"\n")
        yield from lines


def _end(child: int) -> None:
    """End the child; do not wait for a child that hangs in the kernel."""
    for number in (0, signal.SIGKILL):
        for _attempt in range(50):
            if os.waitpid(child, os.WNOHANG)[0]:
                return
            time.sleep(0.001)
        if not number:
            os.kill(child, signal.SIGKILL)
