# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""The program gpucluster-repair: its timer runs it on the active controller, and an administrator looks with it."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import typing as t
import urllib.request
from pathlib import Path

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import steady
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.bounded_run import feeding_runner
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.plain_shell import forget_habits
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.trusted_directory import trusted

from . import journal, ladder, plan, slurm
from .loop import Repair
from .world import Waiting, World, address

if t.TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CONFIG = "/etc/gpucluster/repair.json"
ELASTIC = "/etc/gpucluster/elastic.json"
_POST_SECONDS = 20.0
_MOST = 64 << 20  # bytes that a program prints; 10,000 nodes of scontrol are 20 MB
_PATIENCE = 60  # seconds that a command of an administrator waits for a run of the timer
_PAUSE = 3.0  # seconds between two passes of `run --wait`


def run(args: Sequence[str], seconds: float, environment: Mapping[str, str] | None = None) -> tuple[int, str, str]:
    """Run a program with limits of time and output; return exit status, standard output and standard error."""
    return feeding_runner(seconds, _MOST)(args, None, environment)


def post(url: str, ticket: Mapping[str, t.Any]) -> str:
    """Send a ticket as JSON; return an error or an empty string."""
    request = urllib.request.Request(  # noqa: S310 - the site sets the address
        url, json.dumps(ticket).encode(), {"Content-Type": "application/json"}, method="POST"
    )
    try:
        with urllib.request.build_opener().open(request, timeout=_POST_SECONDS) as answer:
            return "" if answer.status < 300 else f"{url} answered {answer.status}"
    except (OSError, ValueError) as exc:
        return f"{url}: {exc}"


def read_settings(text: str, mode: str = "") -> plan.Settings:
    """Return the configuration; raise SettingsError if it is not usable."""
    try:
        found = json.loads(text)
        settings = plan.Settings(**{**found, "mode": mode or found["mode"]})
        ladder.check_rules(settings.rules)
    except (ValueError, KeyError, TypeError, ladder.LadderError) as exc:
        raise plan.SettingsError(f"the configuration is not usable: {exc}") from None
    if settings.mode not in plan.MODES:
        raise plan.SettingsError(f"the mode is {settings.mode!r}, allowed: {', '.join(plan.MODES)}")
    plan.limit(settings.max_nodes, 1)
    return settings


def elastic_nodes(path: str) -> tuple[str, ...]:
    """Return the nodes of the configuration of gpucluster-elastic; none without one."""
    try:
        return tuple(json.loads(Path(path).read_text(encoding="utf-8"))["nodes"])
    except FileNotFoundError:
        return ()
    except (ValueError, KeyError, TypeError) as exc:
        raise plan.SettingsError(f"{path} is not usable: {exc}") from None


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program; return 0, 1 after a fault, or 3 if the node of `run --wait` is not in service."""
    options = _parser().parse_args(argv)
    forget_habits()
    try:
        text = Path(options.config).read_text(encoding="utf-8")
        settings = read_settings(text, "observe" if options.command == "stop" else getattr(options, "mode", "") or "")
        settings = settings._replace(elastic=elastic_nodes(ELASTIC), directory=str(trusted(settings.directory)))
        cluster = slurm.Slurm(run)
        repair = Repair(
            settings,
            cluster,
            World(run, time.time, steady.seconds, steady.boot, time.sleep, post, address),
            _say,
        )
        if options.command in ("status", "history"):
            return _show(options, settings, repair)
        if options.command == "stop" and not any(case.open for case in repair.cases().values()):
            return 0  # also without Slurm
        host = os.uname().nodename.partition(".")[0]
        if cluster.active().partition(".")[0] != host:
            _say(f"{host} is not the active controller")
            return 0
        return _change(options, settings, repair)
    except Waiting as exc:
        sys.stderr.write(f"gpucluster-repair: waits for {exc}\n")
        return 1
    except (plan.SettingsError, slurm.SlurmError, journal.Busy, OSError) as exc:
        sys.stderr.write(f"gpucluster-repair: {exc}\n")
        return 1


def _change(options: argparse.Namespace, settings: plan.Settings, repair: Repair) -> int:
    if options.command == "retry":
        with journal.alone(settings.directory, _PATIENCE):
            _say(repair.retry(options.node))
        return 0
    if options.command == "stop":
        with journal.alone(settings.directory, _PATIENCE):
            repair.stop()
        return 0
    until = time.monotonic() + options.wait
    while True:
        with journal.alone(settings.directory):
            repair.run(options.node)
        case = repair.cases().get(options.node)
        if not options.wait or (case and not case.open):
            return 3 if options.wait and case and case.state != journal.RETURNED else 0
        if time.monotonic() > until:
            _say(f"{options.node or 'the cluster'}: no end in {options.wait:g} s")
            return 3
        time.sleep(_PAUSE)


def _show(options: argparse.Namespace, settings: plan.Settings, repair: Repair) -> int:
    if options.command == "history":
        events = journal.Journal(settings.directory, time.time).events()
        for event in events:
            if options.node in ("", event["node"]):
                _say(json.dumps(event))
        return 0
    cases = repair.cases().values()
    if options.json:
        _say(json.dumps({"mode": settings.mode, "cases": [_described(case, settings) for case in cases]}))
        return 0
    _say(f"mode: {settings.mode}; {sum(case.open for case in cases)} in repair")
    for case in cases:
        state = f"in repair, step {case.begun or 'none'}" if case.open else case.state
        _say(f"{case.node}: {state} since {_time(case.since)}, tried {plan.tried(case)}: {case.reason}")
    return 0


def _described(case: journal.Case, settings: plan.Settings) -> dict[str, t.Any]:
    found = case._asdict()
    found.pop("begun_with")
    steps = ladder.plan(case.reason, settings.rules).steps
    return {**found, "tried": [one._asdict() for one in case.tried], "steps": list(steps)}


def _time(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="gpucluster-repair", description="Repair nodes that health checks drained.")
    parser.add_argument("--config", default=CONFIG, help="configuration (%(default)s)")
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("run", help="do what can be done now, as the timer does")
    one.add_argument("--node", default="", help="only this node")
    one.add_argument("--mode", choices=plan.MODES, help="another mode for this run")
    one.add_argument("--wait", type=float, default=0.0, metavar="SECONDS", help="go on until the node is done")
    status = commands.add_parser("status", help="show the nodes in repair and the last case of each node")
    status.add_argument("--json", action="store_true", help="print JSON")
    history = commands.add_parser("history", help="show what happened, one JSON object a line")
    history.add_argument("node", nargs="?", default="", help="only this node")
    retry = commands.add_parser("retry", help="let a node that was given up begin again")
    retry.add_argument("node")
    commands.add_parser("stop", help="end all repairs, before the program is removed; the nodes stay drained")
    return parser


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
