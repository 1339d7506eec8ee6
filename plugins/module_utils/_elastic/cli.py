# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
The program gpucluster-elastic: start and deallocate machines whose names are known. It deletes nothing.

Slurm runs it as ResumeProgram, SuspendProgram and ResumeFailProgram with a hostlist. Names that are not in its
configuration are refused. Deallocations have a limit: min(10, a quarter of the nodes) in ten minutes. Starts have none:
a job asks for each, and the machines are given.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import syslog
import typing as t
from pathlib import Path

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import words
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.bounded_run import ASK, feeding_runner
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.plain_shell import forget_habits

from .azure import Client, ElasticError
from .slurm import OURS, Slurm
from .state import Memory, Store

if t.TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

CONFIG = "/etc/gpucluster/elastic.json"
FOLLOW = 900.0  # seconds in which a request may fail later; Slurm does not wait for this program


class Config(t.NamedTuple):
    """What the program reads: the Azure resource ID of each node, its state directory, and how to sign in."""

    nodes: Mapping[str, str]
    directory: str
    resource_manager: str
    metadata: str
    client_id: str


class Elastic:
    """The words of the program. All access to Azure, Slurm, files and the log is injected."""

    def __init__(self, config: Config, azure: Client, slurm: Slurm, store: Store, say: Callable[[str], None]) -> None:
        self._config, self._azure, self._slurm, self._store, self._say = config, azure, slurm, store, say
        self._failed = False

    def run(self, word: str, hostlist: str) -> int:
        """Do what a word asks, and return 1 if a part of it was not possible."""
        if word == "allow":
            self._follow(self._stopped(allowed=True))
            return int(self._failed)
        names = self._known(hostlist)
        self._say(f"{word} {words.listed(names, 10)}")
        if word == "resume":
            self._resume(names)
        elif word == "fail":
            self._given_back(dict.fromkeys(names, "the machine did not register within ResumeTimeout"))
        else:
            self._follow(self._stopped(names))
        return int(self._failed)

    def _known(self, hostlist: str) -> list[str]:
        found = list(dict.fromkeys(self._slurm.expand(hostlist)))
        strange = [name for name in found if name not in self._config.nodes]
        if strange:
            self._fault(f"not in {CONFIG}, so nothing is done with them: {words.listed(strange, 10)}")
        return [name for name in found if name in self._config.nodes]

    def _resume(self, names: Sequence[str]) -> None:
        """Start machines, and give nodes back whose machine Azure refuses."""
        operations, failed = {}, {}
        with self._store.locked() as memory:
            for name in names:
                try:
                    operations[name] = self._begun(name, memory)
                except ElasticError as exc:
                    failed[name] = str(exc)
            memory.held = [name for name in memory.held if name not in names]
            _alarm(memory)
        self._given_back({**failed, **self._azure.follow(_real(operations), FOLLOW)})

    def _begun(self, name: str, memory: Memory) -> str:
        """Start a machine. Slurm takes none that booted before its request, so one that still runs is deallocated."""
        machine = self._config.nodes[name]
        if not self._azure.runs(machine):
            return self._azure.act("start", machine)
        now = self._slurm.nodes([name]).get(name)
        if not now or not now.comes or self._slurm.busy([name]):
            raise ElasticError("the machine runs, and Slurm does not wait for it")
        self._store.note(memory)
        self._azure.act("deallocate", machine)
        raise ElasticError("the machine still ran, and Slurm takes none that booted earlier; it is deallocated now")

    def _given_back(self, failed: Mapping[str, str]) -> None:
        """Bring nodes to idle~ with the reason, unless they answer at a second look or a person has changed them."""
        if not failed:
            return
        self._failed = True
        now = self._slurm.nodes(failed)
        for reason in dict.fromkeys(failed.values()):
            names = [name for name, why in failed.items() if why == reason]
            lost = [name for name in names if name in now and now[name].comes]
            self._say(
                f"{words.listed(names, 10)}: {reason}" + ("" if lost else "; Slurm has them, or somebody changed them")
            )
            if lost:
                self._slurm.give_back(lost, reason)

    def _stopped(self, names: Sequence[str] = (), allowed: bool = False) -> dict[str, str]:
        """Deallocate machines that Slurm does not want any more, and return the operations. What is left waits."""
        operations: dict[str, str] = {}
        with self._store.locked() as memory:
            known = [name for name in memory.held if name in self._config.nodes]
            waiting = [] if allowed else list(known)
            for name in self._free(known if allowed else names, waiting):
                try:
                    if self._azure.runs(self._config.nodes[name]) is False:
                        continue  # a start that failed, or a second call
                    if not allowed and (waiting or not memory.room(len(self._config.nodes))):
                        waiting.append(name)
                        continue
                    operations[name] = self._deallocated(name, memory)
                except ElasticError as exc:
                    self._fault(f"{name}: {exc}")
                    waiting.append(name)
            self._held(memory, sorted(set(waiting)))
        return _real(operations)

    def _free(self, names: Sequence[str], waiting: list[str]) -> list[str]:
        """Return the nodes that Slurm powers down and that have no job; if Slurm does not say so, all of them wait."""
        try:
            found = self._slurm.nodes(names)
            leaving = [name for name in names if name in found and found[name].leaves]
            busy = self._slurm.busy(leaving)
        except ElasticError as exc:
            self._fault(f"nothing is deallocated: {exc}")
            waiting.extend(names)
            return []
        kept = [name for name in names if name not in leaving or name in busy]
        if kept:
            self._fault(
                f"not deallocated, because they have a job or Slurm does not power them down: {words.listed(kept)}"
            )
        return [name for name in leaving if name not in busy]

    def _deallocated(self, name: str, memory: Memory) -> str:
        """Deallocate one machine if Slurm wants that right now: minutes may have passed. Return the operation."""
        now = self._slurm.nodes([name]).get(name)
        if not now or not now.leaves or self._slurm.busy([name]):
            self._fault(f"{name}: in use again, not deallocated")
            return ""
        self._store.note(memory)
        return self._azure.act("deallocate", self._config.nodes[name])

    def _held(self, memory: Memory, names: list[str]) -> None:
        """Note what waits for a person, for the monitoring; say it once, in the log and in Slurm."""
        new = [name for name in names if name not in memory.held]
        memory.held = names
        _alarm(memory)
        if new:
            self._fault(f"ALERT: {memory.alarms['held']}")
            with contextlib.suppress(ElasticError):
                self._slurm.remark(new, f"the machine runs on and waits for '{OURS} allow'")

    def _follow(self, operations: Mapping[str, str]) -> None:
        """Wait for deallocations. A machine whose deallocation failed runs on, so it waits for a person, too."""
        failed = self._azure.follow(operations, FOLLOW)
        for name, why in failed.items():
            self._fault(f"{name}: not deallocated: {why}")
        if failed:
            with self._store.locked() as memory:
                self._held(memory, sorted({*memory.held, *failed}))

    def _fault(self, text: str) -> None:
        self._failed = True
        self._say(text)


def _alarm(memory: Memory) -> None:
    held = (
        f"{len(memory.held)} machines run on that Slurm powers down: the limit of ten minutes was reached, or Slurm or"
    )
    held += f" Azure refused (journalctl -t {OURS}). Look at {words.listed(memory.held)}; if they may stop, run"
    held += f" 'sudo -u slurm {OURS} allow'"
    memory.alarms = {"held": held} if memory.held else {}


def _real(operations: Mapping[str, str]) -> dict[str, str]:
    return {name: address for name, address in operations.items() if address}


def read_config(path: str) -> Config | None:
    """Return the configuration, or C(None) if the last elastic node was removed."""
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
        nodes = {str(name): str(machine) for name, machine in found["nodes"].items()}
        rest = [str(found[key]) for key in Config._fields[1:]]
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        raise ElasticError(f"{path} is not a valid configuration: {exc!r}") from None
    return Config(nodes, *rest)


def _refuse_other_user(directory: str) -> None:
    """Refuse to write files that Slurm's own calls could not read afterwards."""
    path = Path(directory)
    if os.geteuid() != (path if path.exists() else path.parent).stat().st_uid:
        raise ElasticError(f"{directory} belongs to another user; run this command as that user: sudo -u slurm {OURS}")


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    syslog.syslog(text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=OURS, description="Start and deallocate the machines of elastic nodes.")
    parser.add_argument("--config", default=CONFIG, help="configuration (%(default)s)")
    commands = parser.add_subparsers(dest="word", required=True)
    for word, text in (
        ("resume", "start machines: ResumeProgram"),
        ("suspend", "deallocate machines: SuspendProgram"),
        ("fail", "give nodes back whose machine did not come in time: ResumeFailProgram"),
    ):
        commands.add_parser(word, help=text).add_argument("nodes", help="hostlist expression")
    commands.add_parser("allow", help="deallocate the machines that wait for a person")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program and return its exit status: 0, or 1 if something was not possible."""
    options = _parser().parse_args(argv)
    forget_habits()
    syslog.openlog(OURS, syslog.LOG_PID)
    try:
        config = read_config(options.config)
        if not config:
            # Without elastic nodes, nobody has to be allowed anything; but Slurm takes 0 for a machine that is off.
            return int(bool(getattr(options, "nodes", "")))
        _refuse_other_user(config.directory)
        azure = Client(config.resource_manager, config.metadata, config.client_id)
        elastic = Elastic(config, azure, Slurm(feeding_runner(ASK)), Store(config.directory), _say)
        return elastic.run(options.word, getattr(options, "nodes", ""))
    except (ElasticError, OSError) as exc:
        _say(str(exc))
        return 1
