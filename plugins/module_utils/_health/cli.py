# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""The command line: select checks, run them, print the verdicts and mark the node."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import time
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.plain_shell import forget_habits

from . import __version__, supervisor
from .machine import Machine
from .memory import Memory
from .table import CHECKS
from .verdict import EXIT_STATUS, NOT_APPLICABLE, NOT_RUN, SUSPECT, UNKNOWN, Verdict, worst

if t.TYPE_CHECKING:
    from collections.abc import Sequence

CONFIG = "/etc/gpucluster/check.json"
USAGE_ERROR = 2
_BOOT_ID = "/proc/sys/kernel/random/boot_id"


class UsageError(Exception):
    """The command line or the configuration is wrong; the message states what to change."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program and return its exit status."""
    options = _parser().parse_args(argv)
    forget_habits()
    try:
        config = read_config(options.config)
        if options.list:
            return _list(config)
        if options.epilog:
            return _epilog(config)
        return _check(options, config)
    except UsageError as exc:
        _say(f"gpucluster-check: {exc}", sys.stderr)
        return USAGE_ERROR


def _say(text: str, stream: t.TextIO | None = None) -> None:
    """Write a line. The sanity tests of Ansible refuse print in module_utils."""
    (stream or sys.stdout).write(f"{text}\n")


def read_config(path: str) -> dict[str, t.Any]:
    """Return the configuration, or raise UsageError."""
    try:
        with open(path, encoding="utf-8") as stream:  # noqa: PTH123 (a Path costs start time)
            config = json.load(stream)
        if not isinstance(config, dict) or not isinstance(config.get("checks"), dict):
            raise UsageError(f"{path}: expected a mapping with checks")
    except OSError as exc:
        raise UsageError(f"{path}: {exc.strerror}") from exc
    except ValueError as exc:
        raise UsageError(f"{path}: not JSON: {exc}") from exc
    return t.cast("dict[str, t.Any]", config)


def chosen(names: Sequence[str], sets: Sequence[str], config: dict[str, t.Any]) -> list[str]:
    """Return the checks to run: the named ones and those of the named sets; without any name, the set fast."""
    known = config.get("sets") or {}
    wanted = list(names)
    for name in sets or ([] if names else ["fast"]):
        if name == "all":
            wanted += CHECKS
        elif name in known:
            wanted += known[name]
        else:
            raise UsageError(f"unknown set {name!r}; known: all, {', '.join(known)}")
    for name in wanted:
        if name not in CHECKS:
            raise UsageError(f"unknown check {name!r}; known: {', '.join(CHECKS)}")
    return list(dict.fromkeys(wanted))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gpucluster-check",
        description="Compare this node with its hardware record.",
        formatter_class=lambda prog: argparse.HelpFormatter(prog, width=100),  # detecting the width costs start time
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="checks to run; --list shows them (default: the set fast)"
    )
    parser.add_argument(
        "--set", action="append", default=[], dest="sets", metavar="SET", help="fast, prolog, throughput or all"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--quiet", action="store_true", help="print only what is not healthy")
    parser.add_argument(
        "--strict", action="store_true", help="exit 1 also when a check could not find out (for a prolog)"
    )
    parser.add_argument("--mark", action="store_true", help="drain the node in Slurm when it is unhealthy")
    parser.add_argument(
        "--resume-if-healthy", action="store_true", help="with --mark: bring back a node that health drained"
    )
    parser.add_argument(
        "--forget", action="append", default=[], metavar="NAME", help="first forget what this check remembers"
    )
    parser.add_argument("--epilog", action="store_true", help="clean up after the job of the environment")
    parser.add_argument("--list", action="store_true", help="show the checks and their parameters")
    parser.add_argument("--deadline", type=float, metavar="SECONDS", help="time for everything together")
    parser.add_argument("--config", default=CONFIG, help=f"configuration (default: {CONFIG})")
    parser.add_argument("--version", action="version", version=__version__)
    return parser


def _check(options: argparse.Namespace, config: dict[str, t.Any]) -> int:
    start = time.monotonic()
    names = chosen(options.names, options.sets, config)
    limits = config.get("deadline_seconds") or {}
    deadline = (
        options.deadline or max((limits.get(name, 0) for name in options.sets), default=0) or limits.get("fast", 30)
    )
    machine = Machine(deadline)
    memory = Memory(config.get("state_dir") or "/run/gpucluster-check", _boot_id())
    memory.load()
    _forget(memory, options.forget, machine.now())
    verdicts = supervisor.run(names, config, machine, memory.checks, deadline)
    memory.verdicts.update({verdict.check: verdict.status for verdict in verdicts})
    marked = _mark(options, config, verdicts, memory) if options.mark else ""
    memory.save()
    memory.close()
    verdicts += [Verdict("remembering", UNKNOWN, memory.trouble)] if memory.trouble and options.mark else []
    seconds = time.monotonic() - start
    _print(options, verdicts, marked, seconds, config)
    return _status(verdicts, options.strict)


def _status(verdicts: list[Verdict], strict: bool) -> int:
    status = worst(verdict.status for verdict in verdicts)
    if strict:  # a prolog fails on unknown, but not on a missing tool or a suspect sample
        return (
            0
            if worst(v.status for v in verdicts if v.status not in (NOT_RUN, SUSPECT)) not in (UNKNOWN, "unhealthy")
            else 1
        )
    return EXIT_STATUS[status]


def _forget(memory: Memory, names: Sequence[str], now: float) -> None:
    """Delete stored state; a check that reads a log then ignores older entries."""
    for name in names:
        if name not in CHECKS:
            raise UsageError(f"unknown check {name!r}; known: {', '.join(CHECKS)}")
        memory.checks[name] = {"keep": {"since": now}} if name == "gpu_xid" else {}


def _mark(options: argparse.Namespace, config: dict[str, t.Any], verdicts: list[Verdict], memory: Memory) -> str:
    from . import marker  # here because it costs start time

    scontrol = (config.get("tools") or {}).get("scontrol") or "scontrol"
    slurm = marker.Slurm(Machine(15), str(config.get("node") or os.uname().nodename.partition(".")[0]), scontrol)
    try:
        action = marker.mark(slurm, verdicts, options.resume_if_healthy, memory.mark)
    except marker.MarkError as exc:
        memory.mark = {}
        return _log(memory, f"could not mark the node: {exc}")
    return _log(memory, f"{action.kind}: {action.text}")


def _log(memory: Memory, text: str) -> str:
    """Write a message to the system log if it differs from the last one."""
    if memory.mark.get("said") != text:
        memory.mark["said"] = text
        with contextlib.suppress(OSError):
            import syslog  # here because it costs start time

            syslog.openlog("gpucluster-check", syslog.LOG_PID, syslog.LOG_DAEMON)
            syslog.syslog(syslog.LOG_NOTICE, text)
    return text


def _print(
    options: argparse.Namespace, verdicts: list[Verdict], marked: str, seconds: float, config: dict[str, t.Any]
) -> None:
    status = worst(verdict.status for verdict in verdicts)
    if options.json:
        report = {"node": config.get("node"), "status": status, "seconds": round(seconds, 3), "mark": marked or None}
        _say(json.dumps({**report, "checks": [verdict._asdict() for verdict in verdicts]}))
        return
    for verdict in verdicts:
        if not options.quiet or verdict.status not in ("healthy", NOT_APPLICABLE):
            _say(verdict.line())
    if marked:
        _say(f"mark: {marked}")
    if not options.quiet:
        _say(f"{len(verdicts)} checks in {seconds:.3f} s: {status}")


def _list(config: dict[str, t.Any]) -> int:
    for name in CHECKS:
        sets = [label for label, members in (config.get("sets") or {}).items() if name in members]
        _say(f"{name} [{', '.join(sets)}]: {json.dumps(config['checks'].get(name))}")
    return 0


def _epilog(config: dict[str, t.Any]) -> int:
    from . import epilog  # here because it costs start time

    faults = epilog.clean(Machine(45), config, os.environ)
    for fault in faults:
        _say(f"gpucluster-check epilog: {fault}", sys.stderr)
    return 1 if faults else 0


def _boot_id() -> str:
    try:
        with open(_BOOT_ID, encoding="ascii") as stream:  # noqa: PTH123
            return stream.read().strip()
    except OSError:
        return ""
