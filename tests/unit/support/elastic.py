# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Slurm and a cloud that behave as documented, in one file, so that killed processes lose nothing of them."""

from __future__ import annotations

import json
import os
import signal
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._elastic.cloud import Set
from ansible_collections.hpcai.gpucluster.plugins.module_utils._elastic.command import CommandCloud
from ansible_collections.hpcai.gpucluster.plugins.module_utils._elastic.passes import Passes
from ansible_collections.hpcai.gpucluster.plugins.module_utils._elastic.slurm import Slurm
from ansible_collections.hpcai.gpucluster.plugins.module_utils._elastic.state import Store
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host

if t.TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

OFF = ["IDLE", "CLOUD", "POWERED_DOWN"]
STARTING = ["ALLOCATED", "CLOUD", "NOT_RESPONDING", "POWERING_UP"]
UP = ["ALLOCATED", "CLOUD"]
SILENT = [*UP, "NOT_RESPONDING"]
ENDING = ["IDLE", "CLOUD", "POWERING_DOWN"]
HOOK = "/site/cloud"


class World:
    """The nodes of Slurm and the machines of a cloud; machines that are being deleted go at the next tick."""

    def __init__(self, directory: Path, count: int = 4) -> None:
        self._file = directory / "world.json"
        self.directory = directory
        names = [f"c{number}" for number in range(1, count + 1)]
        if not self._file.exists():
            self.save({"nodes": {name: [OFF, ""] for name in names}, "machines": {}, "room": count, "calls": []})

    def load(self) -> dict[str, t.Any]:
        """Return everything."""
        return t.cast("dict[str, t.Any]", json.loads(self._file.read_text(encoding="utf-8")))

    def save(self, content: dict[str, t.Any]) -> None:
        """Replace everything at once."""
        fresh = self._file.with_suffix(".new")
        fresh.write_text(json.dumps(content), encoding="utf-8")
        fresh.replace(self._file)

    def set(self, state: list[str], *names: str, reason: str = "") -> None:
        """Set the state of nodes."""
        content = self.load()
        content["nodes"].update({name: [state, reason] for name in names})
        self.save(content)

    def change(self, **parts: t.Any) -> None:
        """Change parts of the content."""
        self.save({**self.load(), **parts})

    def flags(self, name: str) -> list[str]:
        """Return the state of a node."""
        return list(self.load()["nodes"][name][0])

    def calls(self, word: str) -> list[list[str]]:
        """Return the nodes of each call of the cloud with a word."""
        return [nodes for called, nodes in self.load()["calls"] if called == word]

    def machines(self) -> list[str]:
        """Return the machines that are not being deleted."""
        return sorted(name for name, gone in self.load()["machines"].items() if not gone)

    def tick(self) -> None:
        """Let time pass: machines boot and go, and Slurm does what a node asked for."""
        content = self.load()
        content["machines"] = {name: gone for name, gone in content["machines"].items() if not gone}
        for name, (state, _reason) in content["nodes"].items():
            if "POWERING_UP" in state and name in content["machines"] and not content.get("mute"):
                content["nodes"][name] = [UP, ""]
            if state == UP and name not in content["machines"]:
                content["nodes"][name] = [SILENT, ""]
            if "POWER_DOWN" in state:
                content["nodes"][name] = [ENDING, ""]
        self.save(content)

    # Runner

    def run(self, argv: Sequence[str], data: str = "", _environment: t.Any = None) -> tuple[int, str, str]:
        """Run one program of the world."""
        if argv[0] == HOOK:
            return self._cloud(argv[1], json.loads(data)["nodes"])
        content = self.load()
        if content.get("silent"):
            return 1, "", "slurm_load_node: Unable to contact slurm controller"
        if argv[1] == "update":
            return self._update(argv[2].partition("=")[2].split(","), list(argv[3:]), content)
        if argv[1] == "ping":
            return 0, f"Slurmctld(primary) at {content.get('active', 'control')} is UP\n", ""
        if argv[0] == "squeue":
            return 0, "".join(f"{name}\n" for name in content.get("jobs", [])), ""
        if argv[1:3] == ["show", "hostnames"]:
            return 0, "".join(f"{name}\n" for name in argv[3].split(",")), ""
        hosts = content.get("hosts", {})
        lines = [
            f"NodeName={name} NodeHostName={hosts.get(name, name)} CPUAlloc=0 State={'+'.join(state)} Partitions=batch"
            + (f" Reason={reason} [slurm@2026-11-22T10:00:00]" if reason else "")
            for name, (state, reason) in content["nodes"].items()
        ]
        return 0, "".join(f"{line}\n" for line in lines), ""

    def _update(self, names: list[str], words: list[str], content: dict[str, t.Any]) -> tuple[int, str, str]:
        for name in names:
            state, reason = content["nodes"][name]
            if "state=RESUME" in words and ("POWERING_DOWN" in state or "DOWN" in state):
                content["nodes"][name] = [OFF, ""]
            elif "state=POWER_DOWN_FORCE" in words:
                kept = [flag for flag in state if flag != "POWERING_UP"]
                content["nodes"][name] = [[*kept, "POWER_DOWN"], words[-1].partition("=")[2]]
                content.setdefault("requeued", []).append(name)
            elif "state=POWER_UP" in words:
                content["nodes"][name] = [["IDLE", "CLOUD", "POWERING_UP"], reason]
        self.save(content)
        return 0, "", ""

    def _cloud(self, word: str, nodes: list[str]) -> tuple[int, str, str]:
        content = self.load()
        content["calls"].append([word, nodes])
        machines, failed = content["machines"], {}
        for name in nodes if word == "start" else ():
            if name not in machines and len(machines) >= content["room"]:
                failed[name] = "AllocationFailed"
            else:
                machines[name] = False
        for name in nodes if word == "stop" else ():
            if name in machines:
                machines[name] = True
        self.save(content)
        if word == "list":
            short = content.get("short", [])
            shown = [{"node": name, "gone": gone} for name, gone in machines.items() if name not in short]
            return content.get("broken", 0), json.dumps({"machines": shown}), ""
        return content.get("broken", 0), json.dumps({"failed": failed}), ""


class KilledHost(Host):
    """A host that kills its process at one of its accesses: before or after a program, before or after a write."""

    def __init__(self, run: Callable[..., tuple[int, str, str]], at: int) -> None:
        super().__init__(self._guarded(run))
        self._left = at

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        """Write a file, and die before or afterwards."""
        self._step()
        super().write(path, text, mode)
        self._step()

    def _guarded(self, run: Callable[..., tuple[int, str, str]]) -> Callable[..., tuple[int, str, str]]:
        def guarded(*arguments: t.Any) -> tuple[int, str, str]:
            self._step()
            result = run(*arguments)
            self._step()
            return result

        return guarded

    def _step(self) -> None:
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


class Clock:
    """A clock that only tests move; a sleep is one tick of the world."""

    def __init__(self, world: World) -> None:
        self.now = 1_000_000.0
        self.slept = 0.0
        self._world = world

    def sleep(self, seconds: float) -> None:
        """Let the world go on."""
        self.now += seconds
        self.slept += seconds
        self._world.tick()


def passes(world: World, clock: Clock, host: Host | None = None, **options: t.Any) -> tuple[Passes, list[str]]:
    """Return passes over the nodes of a world as one set, and the list of what they log."""
    host = host or Host(world.run)
    names = tuple(options.pop("nodes", world.load()["nodes"]))
    one = Set(
        "cloud",
        names,
        "command",
        options.pop("min_count", 0),
        {"program": HOOK},
        options.pop("end_limit", 10),
        options.pop("start_limit", 3),
    )
    said: list[str] = []
    made = Passes(
        [one],
        lambda wanted, _memory: CommandCloud(host.run, wanted),
        Slurm(host.run),
        Store(host, str(world.directory)),
        said.append,
        clock=lambda: clock.now,
        sleep=clock.sleep,
    )
    return made, said
