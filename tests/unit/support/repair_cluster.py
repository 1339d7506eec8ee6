# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Slurm that is made up, for the tests of the repair. It refuses what must never happen."""

from __future__ import annotations

import base64
import io
import json
import tarfile
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._repair import journal, loop, node, plan, slurm, world

if t.TYPE_CHECKING:
    from pathlib import Path

FAULT = "NHC: gpu_count: expected 8 GPUs, found 7: 00000001:00:00.0"
RULES = [
    {"check": "gpu_persistence", "steps": ["service nvidia-persistenced", "reboot"], "category": "G", "source": "s"},
    {"check": "gpu_count", "steps": ["gpu_reset", "reboot"], "category": "M", "source": "s"},
    {"check": "nhc", "steps": [], "category": "G", "source": "s"},
]
WEEK = 7 * 86400


class Killed(BaseException):
    """The program was killed: nothing catches this."""


class Machine:
    """One node."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.flags = {"IDLE"}
        self.reason = ""
        self.boot = 1
        self.answers = True
        self.cured_by = ""  # the step that repairs the fault; empty is a healthy node, "nothing" is beyond repair
        self.partition = "gpu"

    @property
    def sick(self) -> bool:
        return bool(self.cured_by)

    def show(self, busy: bool) -> str:
        flags = self.flags - {"IDLE"} | {"ALLOCATED"} if busy else self.flags
        state = "+".join(sorted(flags, key=lambda flag: flag not in ("IDLE", "ALLOCATED")))
        state += "" if self.answers else "*"
        reason = f"   Reason={self.reason} [root@2026-11-22T18:00:00]\n" if self.reason else ""
        return (
            f"NodeName={self.name} Arch=x86_64 CoresPerSocket=4\n   Gres=gpu:h100:8(S:0-1)\n"
            f"   NodeAddr={self.name} NodeHostName={self.name}\n   State={state} ThreadsPerCore=1\n"
            f"   Partitions={self.partition},all\n   BootTime={self.boot} SlurmdStartTime=x\n"
            f"   CurrentWatts=0 AveWatts=0\n   \n{reason}\n"
        )


class FakeSlurm:
    """Answers the programs of Slurm and those that a step runs on a node."""

    def __init__(self, directory: Path, names: t.Iterable[str] = ("gpu1", "gpu2")) -> None:
        self.directory = directory
        directory.mkdir(exist_ok=True)
        self.machines = {name: Machine(name) for name in names}
        self.reserved: dict[str, str] = {}
        self.jobs: dict[str, tuple[str, list[str]]] = {}
        self.inside: dict[str, str] = {}  # reservation of each job of root
        self.secrets: list[t.Mapping[str, str]] = []  # environment of each test over two nodes
        self.now = 1_790_000_000.0
        self.booted = self.now - WEEK  # the controller
        self.ahead = 0.0  # seconds by which the controller's time of day is wrong
        self.log: list[str] = []
        self.posts: list[t.Mapping[str, t.Any]] = []
        self.returned: list[str] = []
        self.calls = 0
        self.kill_at = 0  # the call that kills the program, counted from 1
        self.kill_after = False  # killed before or after the call has its effect
        self.dead = False
        self.pair_works = True
        self.capture_works = True
        self.short: set[str] = set()  # nodes that the list of all nodes lacks
        self.stale: set[str] = set()  # nodes whose state does not show their jobs
        self.blind = False  # whether the list of jobs is empty

    def sicken(self, name: str, cured_by: str, reason: str = FAULT) -> None:
        machine = self.machines[name]
        machine.cured_by, machine.reason = cured_by, reason
        machine.flags = {"IDLE", "DRAIN"}

    def run(
        self, args: t.Sequence[str], seconds: float, environment: t.Mapping[str, str] | None = None
    ) -> tuple[int, str, str]:
        assert 0 < seconds <= 7200
        self.calls += 1
        if self.dead or (self.calls == self.kill_at and not self.kill_after):
            self.dead = True  # what is killed does not clean up
            raise Killed
        if environment and node.PAIR_TOKEN in environment:
            assert environment[node.PAIR_TOKEN] not in " ".join(args)
            # Nodes need not know the names of others.
            assert all(word.startswith("ip-") for word in args[-3:-1]), args[-3:]
            self.secrets.append(environment)
        answer = self._answer(list(args))
        if self.calls == self.kill_at:
            self.dead = True
            raise Killed
        return answer

    def _answer(self, args: list[str]) -> tuple[int, str, str]:
        known = {
            "scontrol show node": self._show_node,
            "scontrol create reservation": self._reserve,
            "scontrol show reservation": self._show_reservation,
            "scontrol reboot": self._reboot,
            "scontrol update": self._update,
            "scontrol delete": self._delete,
            "squeue": self._squeue,
            "salloc": self._salloc,
            "srun": self._srun,
            "scancel": self._scancel,
        }
        return next(answer(args) for name, answer in known.items() if args[: len(name.split())] == name.split())

    def _show_node(self, args: list[str]) -> tuple[int, str, str]:
        if len(args) > 3 and args[3] not in self.machines:
            return 1, f"Node {args[3]} not found\n", ""
        whole = [machine for machine in self.machines.values() if machine.name not in self.short]
        chosen = [self.machines[args[3]]] if len(args) > 3 else whole
        busy = [machine.name for machine in chosen if machine.name not in self.stale and self._jobs_of(machine.name)]
        return 0, "\n".join(machine.show(machine.name in busy) for machine in chosen), ""

    def _reserve(self, args: list[str]) -> tuple[int, str, str]:
        given = dict(word.split("=", 1) for word in args[3:])
        assert given["Users"] == "root"
        if given["Nodes"] in self.reserved:
            return 1, "", "Error creating the reservation: Duplicate reservation"
        self.reserved[given["Nodes"]] = given["Comment"]
        return 0, "", ""

    def _show_reservation(self, args: list[str]) -> tuple[int, str, str]:
        node = args[3].removeprefix("gpucluster_repair_")
        if node not in self.reserved:
            return 1, "", f"Reservation {args[3]} not found"
        return 0, f"ReservationName={args[3]} StartTime=x\n   Nodes={node}\n   Comment={self.reserved[node]}\n\n", ""

    def _delete(self, args: list[str]) -> tuple[int, str, str]:
        node = args[2].partition("=")[2].removeprefix("gpucluster_repair_")
        machine = self.machines[node]
        assert "DRAIN" in machine.flags or not machine.sick, "a sick node in service lost its reservation"
        self.reserved.pop(node)
        return 0, "", ""

    def _update(self, args: list[str]) -> tuple[int, str, str]:
        given = dict(word.split("=", 1) for word in args[2:])
        machine = self.machines[given["NodeName"]]
        if given["State"] == "DRAIN":
            machine.flags.add("DRAIN")
            machine.reason = given["Reason"]
            return 0, "", ""
        if given["State"] == "POWER_UP":
            assert "POWERED_DOWN" in machine.flags
            self.log.append(f"make {machine.name}")
            machine.flags = {"IDLE", "CLOUD"}
            return 0, "", ""
        assert given["State"] == "RESUME"
        assert machine.name in self.reserved, "a node was changed without a reservation"
        machine.flags, machine.reason = machine.flags & {"IDLE", "CLOUD"}, ""
        return 0, "", ""

    def _reboot(self, args: list[str]) -> tuple[int, str, str]:
        machine = self.machines[args[3]]
        assert not self._jobs_of(machine.name), "a node with a job was rebooted"
        assert "DRAIN" in machine.flags
        self._captured(machine)
        self.log.append(f"reboot {machine.name}")
        machine.flags.add("REBOOT_ISSUED")
        machine.answers = False
        return 0, "", ""

    def boot(self, name: str) -> None:
        """End the reboot of a node."""
        machine = self.machines[name]
        machine.boot += 1
        machine.answers = True
        machine.flags.discard("REBOOT_ISSUED")
        self._cure(machine, "reboot")

    def _captured(self, machine: Machine) -> None:
        case = self.reserved[machine.name]
        assert (self.directory / "captures" / f"{case}.tar.gz").exists(), "a repair came before the capture"

    @staticmethod
    def _cure(machine: Machine, step: str) -> None:
        if machine.cured_by == step:
            machine.cured_by = ""

    def _jobs_of(self, name: str) -> dict[str, str]:
        return {job: title for job, (title, nodes) in self.jobs.items() if name in nodes}

    def _squeue(self, args: list[str]) -> tuple[int, str, str]:
        (nodes,) = (word for word in args if word.startswith("--nodelist="))
        found = {} if self.blind else self._jobs_of(nodes.partition("=")[2])
        assert args[-1] == "--format=%A %T %U %v"
        owners = {job: f"0 {self.inside[job]}" if job in self.inside else "2001 (null)" for job in found}
        return 0, "".join(f"{job} RUNNING {owners[job]}\n" for job in found), ""

    def _salloc(self, args: list[str]) -> tuple[int, str, str]:
        given = dict(word[2:].split("=", 1) for word in args if word.startswith("--") and "=" in word)
        names = given["nodelist"].split(",")
        assert given["reservation"].endswith(names[0])
        assert "--exclusive" in args
        if any("DRAIN" in self.machines[name].flags or self._jobs_of(name) for name in names):
            return 1, "", "salloc: error: Unable to allocate resources: Requested nodes are busy"
        job = str(100 + self.calls)
        self.jobs[job] = (given["job-name"], names)
        self.inside[job] = given["reservation"]
        return 0, "", f"salloc: Granted job allocation {job}"

    def _scancel(self, args: list[str]) -> tuple[int, str, str]:
        assert args[1] in self.inside, "the job of a user was cancelled"
        self.jobs.pop(args[1])
        return 0, "", ""

    def _srun(self, args: list[str]) -> tuple[int, str, str]:
        given = dict(word[2:].split("=", 1) for word in args if word.startswith("--") and "=" in word)
        nodes = self.jobs[given["jobid"]][1]
        assert given["jobid"] in self.inside, "a step began in the job of a user"
        machine = self.machines[nodes[0]]
        if not machine.answers:
            return 1, "", "srun: error: the node does not answer"
        command = next(index for index, word in enumerate(args) if index and not word.startswith("--"))
        return self._on_node(machine, args[command:], given["nodelist"].split(","))

    def _on_node(self, machine: Machine, command: list[str], nodes: list[str]) -> tuple[int, str, str]:
        text = " ".join(command)
        if "nvidia-smi-q.txt" in text:
            self.log.append(f"capture {machine.name}")
            return (0, packed({"dmesg.txt": "NVRM: Xid"}), "") if self.capture_works else (1, "", "no space left")
        if "--gpu-reset" in text or "systemctl restart" in text:
            self._captured(machine)
            step = "gpu_reset" if "--gpu-reset" in text else f"service {command[-1]}"
            self.log.append(f"{step} {machine.name}")
            self._cure(machine, step)
            return 0, "done", ""
        if command[0] == "gpucluster-check":
            self.log.append(f"check {nodes[0]}")
            return self._check(self.machines[nodes[0]], command)
        self.log.append(f"pair {' '.join(nodes)}")
        return (0, "exchanged", "") if self.pair_works else (1, "", "the data that arrived is not the data")

    @staticmethod
    def _check(machine: Machine, command: list[str]) -> tuple[int, str, str]:
        if "--json" not in command:
            return (1 if machine.sick else 0), "", ""
        said = "unhealthy" if machine.sick else "healthy"
        names = ("gpu_count", "gpu_persistence", "nhc", "munge")
        found = [{"check": name, "status": "healthy" if name == "munge" else said} for name in names]
        return (1 if machine.sick else 0), json.dumps({"status": said, "checks": found}), ""

    def pause(self, seconds: float) -> None:
        self.now += seconds

    def post(self, url: str, ticket: t.Mapping[str, t.Any]) -> str:
        self.posts.append(ticket)
        return ""

    def settings(self, **more: t.Any) -> plan.Settings:
        base = plan.Settings("act", "5%", str(self.directory), RULES)
        return base._replace(**more)

    def repair(self, **more: t.Any) -> loop.Repair:
        """Return a program that was just started."""
        self.dead = False
        access = world.World(
            self.run,
            lambda: self.now + self.ahead,
            lambda: self.now - self.booted,
            lambda: f"boot at {self.booted}",
            self.pause,
            self.post,
            lambda name: f"ip-{name}",
        )
        return loop.Repair(self.settings(**more), slurm.Slurm(self.run), access, self.log.append)

    def go_on(self, passes: int = 12, **more: t.Any) -> None:
        """Start the program again and again, as the timer does; nodes boot in between."""
        for _pass in range(passes):
            self.now += 30
            try:
                self.repair(**more).run()
            except Killed:
                self.kill_at = 0
            for machine in self.machines.values():
                if "REBOOT_ISSUED" in machine.flags:
                    self.boot(machine.name)

    def end(self, passes: int = 30, **more: t.Any) -> list[str]:
        """
        Go on until the case of gpu1 is over, and once more; a kill that is armed comes first.

        Return what had begun when the program was killed.
        """
        begun = []
        for _pass in range(passes):
            armed = self.kill_at
            self.go_on(1, **more)
            case = self.repair().cases().get("gpu1")
            if armed and not self.kill_at:
                begun.append(case.begun if case else "")
            if not self.kill_at and case and not case.open:
                break
        self.go_on(1, **more)
        return begun

    def state(self, name: str) -> str:
        """Return the state of the last case of a node."""
        events = journal.Journal(str(self.directory), lambda: 0.0).events()
        return journal.cases(events)[name].state


def packed(files: t.Mapping[str, str]) -> str:
    """Return what the capture prints on a node."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(f"./{name}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return base64.b64encode(stream.getvalue()).decode()
