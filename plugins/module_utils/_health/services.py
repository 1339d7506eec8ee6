# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Checks of the clock, of munge and of slurmd."""

from __future__ import annotations

import contextlib
import os
import typing as t

from .process import DONE, MISSING, Result
from .verdict import Finding, NotRunError, UnknownError, healthy, tidy, unhealthy

if t.TYPE_CHECKING:
    from .case import Case
    from .machine import Machine

_CHRONY_FIELDS = 14
# slurmd runs the health check before it registers, and answers nothing until the check ends. Slurm ends it after 60 s.
_STARTING = 60


def clock(case: Case) -> Finding:
    """Check that chrony, or else systemd, synchronises the clock."""
    timeout = case.number("timeout_seconds")
    chrony = case.machine.run([case.tool("chronyc"), "-n", "-c", "tracking"], timeout)
    if chrony.state == DONE and chrony.rc == 0:
        return judge_chrony(case.number("offset_max_seconds"), chrony.out)
    systemd = case.machine.run([case.tool("timedatectl"), "show", "--property=NTPSynchronized", "--value"], timeout)
    if systemd.state == MISSING:
        if chrony.state == MISSING:
            raise NotRunError("chronyc and timedatectl are missing")
        raise UnknownError(f"chronyc: {tidy(chrony.text, 120) or chrony.state}")
    return judge_systemd(systemd)


def judge_chrony(offset_max: float, text: str) -> Finding:
    """Compare the offset with its limit."""
    fields = text.strip().split(",")
    if len(fields) != _CHRONY_FIELDS:
        raise UnknownError(f"chronyc says {tidy(text, 120)!r}")
    if fields[13] == "Not synchronised":
        return unhealthy("a synchronised clock", fields[13])
    try:
        offset = abs(float(fields[4]))
    except ValueError:
        raise UnknownError(f"chronyc says the offset is {tidy(fields[4], 40)!r}") from None
    expected = f"an offset of at most {offset_max:.10g} s"
    return (
        healthy(f"offset {offset:.6f} s", offset) if offset <= offset_max else unhealthy(expected, f"{offset:.10g} s")
    )


def judge_systemd(result: Result) -> Finding:
    """Read the yes or no of systemd."""
    word = result.out.strip()
    if result.state != DONE or result.rc or word not in ("yes", "no"):
        raise UnknownError(f"timedatectl: {tidy(result.text, 120) or result.state}")
    return healthy("synchronised") if word == "yes" else unhealthy("a synchronised clock", "NTPSynchronized=no")


def munge(case: Case) -> Finding:
    """Check that munge can create and decode a credential."""
    timeout = case.number("timeout_seconds")
    credential = case.machine.run([case.tool("munge"), "--no-input"], timeout)
    problem = _problem("munge", credential, timeout)
    if problem:
        return unhealthy("a credential from munge", problem)
    decoded = case.machine.run([case.tool("unmunge")], timeout, credential.out)
    problem = _problem("unmunge", decoded, timeout)
    if problem:
        return unhealthy("a credential that unmunge accepts", problem)
    return (
        healthy("makes and reads credentials")
        if "Success (0)" in decoded.out
        else unhealthy("Success (0)", tidy(decoded.text, 120))
    )


def slurmd(case: Case) -> Finding:
    """Check that the slurmd of this node answers, without a query to the controller."""
    timeout = case.number("timeout_seconds")
    if starting(case.machine):
        return healthy("slurmd has just started this check")
    result = case.machine.run([case.tool("scontrol"), "show", "slurmd"], timeout)
    problem = _problem("scontrol show slurmd", result, timeout)
    if problem:
        return unhealthy("an answer from slurmd", problem)
    return (
        healthy("answers")
        if "Slurmd PID" in result.out
        else unhealthy("Slurmd PID", tidy(result.text, 120) or "nothing")
    )


def starting(machine: Machine) -> bool:
    """Return whether a slurmd that has just started waits for this program."""
    pid = "self"
    with contextlib.suppress(OSError, ValueError, IndexError):
        while pid not in ("0", "1"):
            head, _bracket, rest = machine.read(f"/proc/{pid}/stat").rpartition(")")
            fields = rest.split()
            if head.endswith("(slurmd"):
                return machine.now() - int(fields[19]) / os.sysconf("SC_CLK_TCK") < _STARTING
            pid = fields[1]
    return False


def _problem(name: str, result: Result, timeout: float) -> str:
    if result.state == MISSING:
        raise NotRunError(f"{name.split()[0]} is missing")
    if result.state != DONE:
        raise UnknownError(f"{name} gave no answer within {timeout:.10g} s")
    return f"{name} exited {result.rc}: {tidy(result.text, 120)}" if result.rc else ""
