# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
The program gpucluster-elastic.

Scripts that Slurm runs as ResumeProgram, SuspendProgram and ResumeFailProgram call it, and a timer with C(reconcile).
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
import syslog
import typing as t
from pathlib import Path

from ansible_collections.hpcai.gpucluster.plugins.module_utils._azure_machine.client import Client, Place
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.bounded_run import ASK, feeding_runner
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.plain_shell import forget_habits

from .azure import AzureCloud
from .cloud import Cloud, ElasticError, Set, read_config
from .command import CommandCloud
from .passes import Passes
from .slurm import Slurm, resume_request
from .state import Store

if t.TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .state import Memory

CONFIG = "/etc/gpucluster/elastic.json"
NAME = "gpucluster-elastic"
# Seconds that one call follows its request. Slurm does not wait for it, and the timer continues.
FOLLOW = 120.0
_HOOK = 120.0  # seconds for one call of the program of a site


def clouds(host: Host, store: Store) -> Callable[[Set, Memory], Cloud]:
    """Return what makes the cloud of a set."""
    run = feeding_runner(_HOOK)

    def made(one: Set, memory: Memory) -> Cloud:
        if one.provider == "command":
            return CommandCloud(run, one)
        if one.provider != "azure":
            raise ElasticError(f"{one.name}: unknown provider {one.provider!r}")
        place = Place(*(str(one.options[name]) for name in ("resource_manager", "metadata", "client_id")))
        return AzureCloud(
            Client(place), one, memory, lambda: store.save(memory), lambda assigned: publish(host, one, assigned)
        )

    return made


def publish(host: Host, one: Set, assigned: Mapping[str, str]) -> None:
    """Write the nodes of machines by host name in a file."""
    path = f"{one.options['assignments']}/{one.name}.json"
    text = json.dumps(assigned, indent=1, sort_keys=True) + "\n"
    if host.read(path) != text:
        host.write(path, text)  # No secret.


def run(word: str, name: str, passes: Passes, slurm: Slurm, say: Callable[[str], None]) -> int:
    """Do what one word asks and return the exit status; O(name) is a hostlist or a set."""
    if word == "reconcile":
        if slurm.active(socket.gethostname()):
            passes.once()
        return 0
    if word == "release":
        passes.release(name)
        say(f"{name}: released")
        return 0
    if word == "resume":
        request = resume_request(name, _resume_file(os.environ.get("SLURM_RESUME_FILE", "")))
        for line in request.jobs[:20]:
            say(line)
        name = request.nodes
    say(f"{word} {name}")
    passes.until_settled(FOLLOW)
    return 0


def _resume_file(path: str) -> str:
    try:
        # A user may choose some of its text, such as the features of a job.
        return Path(path).read_text(encoding="utf-8", errors="replace") if path else ""
    except OSError:
        return ""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=NAME, description="Start and delete the machines of elastic sets.")
    parser.add_argument("--config", default=CONFIG, help="configuration (%(default)s)")
    commands = parser.add_subparsers(dest="word", required=True)
    for word, text in (
        ("resume", "start machines: ResumeProgram"),
        ("suspend", "delete machines: SuspendProgram"),
        ("fail", "give up machines that did not come in time: ResumeFailProgram"),
    ):
        commands.add_parser(word, help=text).add_argument("name", metavar="nodes", help="hostlist expression")
    once = commands.add_parser("reconcile", help="compare Slurm with the clouds once, as the timer does")
    once.add_argument("--end-limit", type=int, help="end_limit of each set in this call")
    again = commands.add_parser("release", help="start machines again of a set that was held")
    again.add_argument("name", metavar="set", help="name of the set")
    return parser


def _refuse_other_user(directory: str) -> None:
    """Refuse to write files that Slurm's own calls could not read afterwards."""
    path = Path(directory)
    owner = (path if path.exists() else path.parent).stat().st_uid
    if os.geteuid() != owner:
        raise ElasticError(f"{directory} belongs to another user; run this command as that user: sudo -u slurm {NAME}")


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    if "JOURNAL_STREAM" not in os.environ:  # a unit of systemd logs standard error
        syslog.syslog(text)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program and return its exit status: 0, or 1 if nothing could be done."""
    options = _parser().parse_args(argv)
    forget_habits()
    syslog.openlog(NAME, syslog.LOG_PID)
    host = Host(feeding_runner(ASK))
    try:
        text = host.read(options.config)
        if not text:
            return 0  # the last elastic set was removed
        config = read_config(text, options.config)
        _refuse_other_user(config.directory)
        limit = getattr(options, "end_limit", None)
        sets = [one if limit is None else one._replace(end_limit=limit) for one in config.sets]
        slurm, store = Slurm(host.run), Store(host, config.directory)
        passes = Passes(sets, clouds(host, store), slurm, store, _say)
        return run(options.word, getattr(options, "name", ""), passes, slurm, _say)
    except (ElasticError, OSError) as exc:
        _say(str(exc))
        return 1
