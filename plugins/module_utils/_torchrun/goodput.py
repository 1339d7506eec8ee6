# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""The program gpucluster-goodput: how much of the time of jobs went into steps that stayed."""

from __future__ import annotations

import argparse
import contextlib
import re
import sys
import time
import typing as t
from pathlib import Path

from ansible_collections.hpcai.gpucluster.plugins.module_utils._slurm import output
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.bounded_run import ASK, feeding_runner
from ansible_collections.hpcai.gpucluster.plugins.module_utils._training import trust

from . import record

_ABOUT = """Say how much of the time of jobs went into training steps that stayed.

It reads the events of gpucluster-torchrun, as far as the user may read them, and Slurm's accounting. A job that did
not run under gpucluster-torchrun has hours, and no goodput."""
_MONTH = re.compile(r"\d{4}-(0[1-9]|1[0-2])")
_FORMAT = "JobIDRaw,User,JobName,AllocNodes,ElapsedRaw,State"


Known = dict[tuple[str, str], record.Summary]  # by job and user


class Job(t.NamedTuple):
    """A job of the accounting; all its starts together."""

    number: str
    user: str
    name: str
    hours: float
    state: str


def query(what: str, today: str) -> list[str]:
    """Return the question to Slurm's accounting about a job, a month, or the last 30 days of a user."""
    ask = ["sacct", "--allocations", "--duplicates", "--noheader", "--parsable2", f"--format={_FORMAT}"]
    if what.isdigit():
        return [*ask, f"--jobs={what}"]
    if what == "month":
        what = today[:7]
    if _MONTH.fullmatch(what):
        year, month = int(what[:4]), int(what[5:])
        after = f"{year + month // 12}-{month % 12 + 1:02d}-01"
        return [*ask, "--allusers", f"--starttime={what}-01", f"--endtime={after}"]
    return [*ask, f"--user={what}", "--starttime=now-30days", "--endtime=now"]


def jobs(text: str) -> list[Job]:
    """Return the jobs of an answer; a requeued one has a line for each start. Other lines are no jobs."""
    found: dict[str, Job] = {}
    for line in text.splitlines():
        words = line.split("|")
        if len(words) != 6 or not (words[3].isdigit() and words[4].isdigit()):
            continue
        number, user, name, nodes, seconds, state = words
        hours = int(nodes) * int(seconds) / 3600 + (found[number].hours if number in found else 0)
        found[number] = Job(number, user, name, hours, state)
    return list(found.values())


def table(found: t.Sequence[Job], known: Known) -> list[str]:
    """Return a line for each job, and the sum; nodes that waited as spares count as time of the job."""
    lines = [f"{'job':>10}  {'user':12}  {'name':16}  {'node hours':>10}  {'goodput':>8}  {'faults':>6}"]
    good = hours = 0.0
    for job in found:
        summary = known.get((job.number, job.user))
        share = f"{100 * summary.goodput:.1f} %" if summary else "-"
        faults = str(len(summary.faults)) if summary else "-"
        lines.append(f"{job.number:>10}  {job.user:12}  {job.name:16.16}  {job.hours:10.2f}  {share:>8}  {faults:>6}")
        if summary:
            good, hours = good + summary.goodput * job.hours, hours + job.hours
    total = sum(job.hours for job in found)
    share = f"goodput {100 * good / hours:.1f} % of {hours:.2f} node hours" if hours else "goodput not known"
    return [*lines, f"{len(found)} jobs, {total:.2f} node hours; {share}"]


def summaries(runs: t.Iterable[Path]) -> Known:
    """
    Return what is known of each job, by its number and the owner of the file.

    Users write these files, so one says nothing about a job of another user, and any damage means nothing is known.
    """
    found = {}
    for path in runs:
        with contextlib.suppress(OSError, LookupError, TypeError, ValueError, ArithmeticError, RecursionError):
            owner, events = record.read_owned(str(path))
            summary = record.summary(events)
            record.text(summary)
            found[summary.job, trust.user_name(owner)] = summary
    return found


def printable(lines: t.Iterable[str]) -> str:
    """Return lines without what could control a terminal."""
    return "".join("".join(char if char.isprintable() else " " for char in line) + "\n" for line in lines)


def main(argv: t.Sequence[str] | None = None) -> int:
    """Print a table; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="gpucluster-goodput", description=_ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "what", metavar="JOB|USER|month", help="the number of a job, a user, month, or one like 2026-11"
    )
    parser.add_argument("--runs", action="append", default=[], help="one more directory with runs of jobs")
    options = parser.parse_args(argv)
    code, out, err = feeding_runner(ASK)(query(options.what, time.strftime("%Y-%m-%d")))
    if code:
        sys.stderr.write(f"gpucluster-goodput: {output.cause(err) or 'sacct fails'}\n")
        return 1
    found = jobs(out)
    paths = [*(Path(sys.argv[0]).absolute().parent.parent / "runs").glob(f"*/*/{record.NAME}")]
    for runs in options.runs:
        paths += [*Path(runs).glob(f"**/{record.NAME}")]
    known = summaries(paths)
    sys.stdout.write(printable(table(found, known)))
    if len(found) == 1 and (summary := known.get((found[0].number, found[0].user))):
        sys.stdout.write(printable(record.text(summary)))
    return 0
