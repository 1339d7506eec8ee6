# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
The launcher: it runs a training as segments in one allocation. Each segment is a start of torchrun on healthy nodes.

A segment ends with a fault, or with the training. What ends for a reason that a new start does not change ends the job.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import threading
import time
import typing as t
from concurrent import futures

from ansible_collections.hpcai.gpucluster.plugins.module_utils._slurm import output
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.bounded_run import feeding_runner

from . import agent, judge, record, words

if t.TYPE_CHECKING:
    import argparse

_PROBE_SECONDS = 15.0
_ASK_SECONDS = 30.0
_KILL_SECONDS = 5.0
_SLURM_SECONDS = 1800.0  # how long Slurm may be away when a segment is to start
_SLURM_PAUSE = 10.0
_PROBES = 64  # at a time
_PORT, _PORTS = 20000, 20000
_GATHER = 1.5  # seconds in which the nodes may say who failed first
_GATHER_LONG = judge.SILENCE + 10  # the same, as long as all say that they lost another; torchrun ends ranks for 30 s
_STOP_SECONDS = 25.0
_STACK_SECONDS = 10.0
_TELL = 60.0  # seconds between two notes of the steps
_MISSING = 127
_MOST_FAULTS = 2  # of a node that others replace
_HEALTH = "NHC:"  # begin of the reason of a node that a health check drained


class Probe(t.NamedTuple):
    """What is known of the health of a node: why it cannot be used, and why others are better."""

    node: str
    answers: bool
    sick: str = ""
    doubt: str = ""


class Step(t.Protocol):
    """A started srun."""

    def next(self, seconds: float) -> tuple[str, t.Any] | None:
        """Return C(report) with an agent's report, C(end) with srun's status and its errors, or None in time."""

    def send(self, word: str) -> None:
        """Send a word to all agents."""

    def close(self) -> None:
        """End srun."""


class World(t.NamedTuple):
    """What the launcher needs from outside."""

    ask: t.Callable[[float, t.Sequence[str]], tuple[int, str, str]]
    start: t.Callable[[t.Sequence[str]], Step]
    now: t.Callable[[], float]
    pause: t.Callable[[float], None]
    say: t.Callable[[str], None]


def health(node: str, code: int, out: str) -> Probe:
    """
    Return what the answer of gpucluster-check says. What is not understood is no verdict about the node.

    An ordinary user remembers no earlier samples, so one bad sample is a doubt.
    """
    line = next((line for line in out.splitlines() if line.startswith("{")), "")
    try:
        found = {"unhealthy": "", "suspect": ""}
        for one in json.loads(line)["checks"]:
            if one["status"] in found:
                found[one["status"]] = found[one["status"]] or f"{one['check']}: {one['reason']}"
        return Probe(node, True, found["unhealthy"], found["suspect"])
    except (ValueError, KeyError, TypeError):
        return Probe(node, code == _MISSING)


def drained(code: int, out: str) -> dict[str, str]:
    """Return why Slurm gives no new jobs to nodes, by node; nothing if Slurm does not answer."""
    lines = [line.split("|", 2) for line in out.splitlines()] if not code else []
    return {words[0]: words[2] for words in lines if len(words) == 3 and words[1].startswith("drain")}


class Launcher:
    """The segments of one training."""

    def __init__(
        self, options: argparse.Namespace, torchrun: t.Sequence[str], job: t.Mapping[str, str], world: World
    ) -> None:
        self.options, self.torchrun, self.job, self.world = options, list(torchrun), job, world
        self.directory, self.program, self.own = job["directory"], job["program"], job["node"]
        self.nodes = job["nodes"].split(",")
        self.wanted = len(self.nodes) - options.spares
        self.events = record.Events(f"{self.directory}/{record.NAME}", world.now)
        self.faults: dict[str, int] = {}
        self.out: dict[str, str] = {}
        self.failing = False
        self.signal = 0
        self.over = False
        self.hang = options.hang_seconds
        # A job that was requeued goes on with the numbers of its start before.
        self.segment, self.before = 0, record.Event()
        with contextlib.suppress(OSError):
            for event in record.read(self.events.path):
                self.segment = max(self.segment, event.get("segment", 0))
                self.before = event if event["event"] == "steps" and event["steps"] else self.before

    def run(self) -> int:
        """Train, and return the exit status of the job."""
        who = {"job": self.job["id"], "user": self.job["user"], "nodes": self.nodes, "spares": self.options.spares}
        self.events.add("begin", **who)
        status = self._run()
        self.events.add("end", status=status)
        with contextlib.suppress(OSError):
            for line in record.text(record.summary(record.read(self.events.path))):
                self.world.say(line)
        return status

    def _run(self) -> int:
        for restart in range(self.options.restarts + 1):
            nodes = self.choose()
            if not nodes:
                return self.requeue("too few healthy nodes")
            fault, watch = self.train(nodes)
            if fault is None:
                return 0
            if told := self.told(watch):
                # Slurm sends SIGTERM to a job that it cancels, or requeues by itself.
                again = told == signal.SIGUSR1
                return self.requeue("before its end", fault.status) if again else _status(fault)
            lost = fault.kind != "rank failed"
            what = judge.decide(fault, watch.count, lost, self.failing)
            self.failing = not watch.count and not lost
            if fault.node:
                self.faults[fault.node] = self.faults.get(fault.node, 0) + 1
            if what == "end":
                why = "made no step twice" if fault.status not in judge.FINAL else f"ended with status {fault.status}"
                self.world.say(f"the training {why}, and a new start does not change that")
            if what != "again" or restart == self.options.restarts:
                return self.requeue("", fault.status) if what == "requeue" else _status(fault)
        return 1

    def told(self, watch: judge.Watch) -> int:
        """Return the signal that the launcher or an agent got, or 0."""
        return self.signal or max((end.get("signal") or 0 for end in watch.ends.values()), default=0)

    def choose(self) -> list[str]:
        """Return the nodes of the next segment; none if too few are healthy."""
        probes = self.probe()
        reasons = drained(*self.world.ask(_ASK_SECONDS, words.states(self.nodes))[:2])
        sick = {probe.node: probe.sick for probe in probes if probe.sick}
        if sick and len(sick) == sum(probe.answers for probe in probes):
            why = next(iter(sick.values()))
            self.world.say(f"all nodes fail the health check ({why}), so it is not used: has this job whole nodes?")
            sick = {}
        doubt = {probe.node: probe.doubt for probe in probes if probe.doubt}
        for node, why in reasons.items():
            (sick if why.startswith(_HEALTH) else doubt).setdefault(node, f"drained: {why}")
        doubt = {node: f"{number} faults" for node, number in self.faults.items() if number >= _MOST_FAULTS} | doubt
        out = {probe.node: "does not answer" for probe in probes if not probe.answers} | sick
        usable = [node for node in self.nodes if node not in out]
        chosen = judge.choose(usable, self.wanted, doubt)
        out |= {node: why for node, why in doubt.items() if node in usable and node not in chosen}
        for node, why in out.items():
            if self.out.get(node) != why:
                self.world.say(f"node {node} leaves: {why}")
                self.events.add("leaves", node=node, why=why)
        self.out = out
        return chosen

    def probe(self) -> list[Probe]:
        """Ask all nodes side by side. As long as this node does not get an answer from itself, Slurm is away."""
        end = self.world.now() + _SLURM_SECONDS
        told = False
        while True:
            with futures.ThreadPoolExecutor(min(_PROBES, len(self.nodes))) as pool:
                probes = list(pool.map(self._probe, self.nodes))
            if any(probe.answers for probe in probes if probe.node == self.own) or self.own not in self.nodes:
                return probes
            if self.world.now() > end or self.signal:
                return probes
            if not told:
                told = True
                self.world.say("Slurm does not start a step on this node: waiting")
            self.world.pause(_SLURM_PAUSE)

    def _probe(self, node: str) -> Probe:
        code, out, _err = self.world.ask(_PROBE_SECONDS, words.probe(node))
        return health(node, code, out)

    def train(self, nodes: list[str]) -> tuple[judge.Fault | None, judge.Watch]:
        """Run one segment, and return why it ended."""
        self.segment += 1
        port = _PORT + (int(self.job["id"]) * 7 + self.segment * 101) % _PORTS
        task = {"nodes": nodes, "port": port, "torchrun": self.options.launcher.split(), "arguments": self.torchrun}
        self.world.say(f"start {self.segment} on {', '.join(nodes)}")
        self.events.add("segment", segment=self.segment, nodes=nodes)
        command = words.segment(self.options, nodes, self.program, self.directory, json.dumps(task))
        self.over = False
        step = self.world.start(command)
        watch = judge.Watch(nodes, self.hang, self.options.slow_seconds, self.world.now())
        try:
            fault = self._follow(step, watch)
            if fault and fault.kind == "hang":
                self._stacks(step, watch)
                # What only looks like one, such as a slow phase, is not killed again after the same time.
                self.hang *= 1 if fault.node else 2
            if fault and not self.told(watch):
                self._fault(fault, watch)
        finally:
            self._end(step, watch)
        self._note(watch)
        if watch.span["steps"]:
            self.before = watch.span
        return fault, watch

    def _follow(self, step: Step, watch: judge.Watch) -> judge.Fault | None:
        """Take reports until the segment ends; return its fault."""
        noted, sent = 0.0, 0
        while True:
            got = self._next(step, 1.0)
            now = self.world.now()
            if got and got[0] == "end":
                return self._ended(watch, *got[1])
            if got:
                self._hear(watch, got[1], now)
            if sent != self.signal:
                sent = self.signal
                step.send(f"signal {self.signal}")
            if watch.first and now - noted > _TELL:
                noted = now
                self._note(watch)
            if fault := watch.fault(now):
                return self._first(step, watch, fault)

    def _next(self, step: Step, seconds: float) -> tuple[str, t.Any] | None:
        """Return what happens next; nothing after the end of srun."""
        got = None if self.over else step.next(seconds)
        self.over = self.over or bool(got and got[0] == "end")
        return got

    def _hear(self, watch: judge.Watch, report: judge.Report, now: float) -> None:
        is_first = watch.first is None
        watch.hear(report, now)
        if is_first and watch.first:
            self._back(watch)
        for line in watch.slow(now):
            self.world.say(line)
            self.events.add("slow", text=line)

    def _ended(self, watch: judge.Watch, code: int, said: str) -> judge.Fault | None:
        """Return the fault of a segment whose srun has ended."""
        if not code and len(watch.ends) == len(watch.nodes):
            return watch.fault(self.world.now())
        silent = next((node for node in watch.nodes if node not in watch.ends), "")
        return watch.fault(self.world.now()) or judge.Fault(
            "node lost", silent, None, code or 1, output.cause(said) or "srun ended"
        )

    def _first(self, step: Step, watch: judge.Watch, fault: judge.Fault) -> judge.Fault:
        """Let the other nodes say what they saw, and return the first of their faults."""
        begun = self.world.now()
        while fault.kind == "rank failed" and len(watch.ends) < len(watch.nodes):
            is_long = watch.is_lost and not self.told(watch)
            if self.world.now() >= begun + (_GATHER_LONG if is_long else _GATHER):
                break
            got = self._next(step, 0.2)
            if self.over:
                break
            if got:
                watch.hear(got[1], self.world.now())
            fault = watch.fault(self.world.now()) or fault
        return fault

    def _stacks(self, step: Step, watch: judge.Watch) -> None:
        """Keep the stacks of all ranks."""
        step.send(agent.STACKS)
        end, parts = self.world.now() + _STACK_SECONDS, list[str]()
        while len(parts) < len(watch.nodes) and not self.over and self.world.now() < end:
            got = self._next(step, 0.5)
            if got and got[0] == "report" and got[1]["kind"] == "stacks":
                parts.append(got[1]["text"])
        path = f"{self.directory}/stacks-{self.segment}.txt"
        with contextlib.suppress(OSError), open(path, "w", encoding="utf-8") as file:  # noqa: PTH123
            file.write("\n\n".join(parts))
        self.world.say(f"the stacks of the ranks are in {path}")

    def _fault(self, fault: judge.Fault, watch: judge.Watch) -> None:
        now = self.world.now()
        after = round(now - (watch.last[0] if watch.last else watch.begun), 1)
        rank = f"rank {fault.rank} " if fault.rank is not None else ""
        where = f"on {fault.node} " if fault.node else ""
        self.world.say(f"FAULT: {fault.kind}: {rank}{where}{fault.text}"[:400])
        self.events.add("fault", **{**fault._asdict(), "text": fault.text[:400]}, after=after, segment=self.segment)

    def _back(self, watch: judge.Watch) -> None:
        """Say at which step the training goes on."""
        if not self.before:
            return
        first, last = watch.span["first"], self.before["last"]
        if first is None or last is None:
            self.world.say("the training goes on; its optimizer does not count steps, so it is not known at which step")
        elif first <= 1:
            self.world.say(f"THE TRAINING BEGINS AGAIN AT STEP 1: it read no checkpoint, and {last} steps are lost")
        else:
            self.world.say(f"the training goes on with step {first}: {max(0, last + 1 - first)} steps are repeated")
        self.events.add("back", segment=self.segment)

    def _note(self, watch: judge.Watch) -> None:
        self.events.add("steps", segment=self.segment, **watch.span)

    def _end(self, step: Step, watch: judge.Watch) -> None:
        """End what is left of a segment, also if a node of it does not answer."""
        if len(watch.ends) < len(watch.nodes):
            step.send(agent.STOP)
        end = self.world.now() + _STOP_SECONDS
        left = [node for node in watch.nodes if node not in watch.ends]
        silent = [node for node in left if self.world.now() - watch.heard.get(node, 0) > judge.SILENCE]
        while not self.over and not silent and self.world.now() < end:
            self._next(step, 0.5)
        step.close()
        if watch.step_id and len(watch.ends) < len(watch.nodes):
            self.world.ask(_KILL_SECONDS, ["scancel", "--quiet", "--signal=KILL", f"{self.job['id']}.{watch.step_id}"])

    def requeue(self, why: str, status: int = 1) -> int:
        """Put the job back to the queue, unless it was there too often; return the exit status of the job."""
        number = int(self.job.get("restarts", "0"))
        if number >= self.options.requeues:
            self.world.say(f"{why or 'the training ended early'}; the job was requeued {number} times: it ends")
            return status or 1
        self.world.say(f"{why or 'the training asks for it'}: job {self.job['id']} goes back to the queue")
        self.events.add("requeue", why=why)
        code, _out, err = self.world.ask(_ASK_SECONDS, ["scontrol", "requeue", self.job["id"]])
        if code:
            self.world.say(f"scontrol requeue: {output.cause(err)}")
        else:
            self.world.pause(60)
        return status or 1


def _status(fault: judge.Fault) -> int:
    return 128 - fault.status if fault.status < 0 else fault.status or 1


class Srun:
    """A started srun, whose output goes on to that of the job, without the reports of the agents."""

    def __init__(self, command: t.Sequence[str]) -> None:
        self.queue: queue.Queue[tuple[str, t.Any]] = queue.Queue()
        self.said: list[str] = []
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        pumps = [
            threading.Thread(target=self._reports, daemon=True),
            threading.Thread(target=self._errors, daemon=True),
        ]
        for thread in pumps:
            thread.start()
        threading.Thread(target=self._wait, args=(pumps,), daemon=True).start()

    def _reports(self) -> None:
        for line in t.cast("t.IO[bytes]", self.process.stdout):
            text, mark, report = line.partition(agent.MARK.encode())
            if text:
                _pass(1, text)
            if mark:
                with contextlib.suppress(ValueError):
                    self.queue.put(("report", json.loads(report)))

    def _errors(self) -> None:
        for line in t.cast("t.IO[bytes]", self.process.stderr):
            _pass(2, line)
            self.said = [*self.said[-100:], line.decode("utf-8", "replace")]

    def _wait(self, pumps: list[threading.Thread]) -> None:
        code = self.process.wait()
        for thread in pumps:
            thread.join(2)
        self.queue.put(("end", (code, "".join(self.said))))

    def next(self, seconds: float) -> tuple[str, t.Any] | None:
        """Return what happens next."""
        with contextlib.suppress(queue.Empty):
            return self.queue.get(timeout=seconds)
        return None

    def send(self, word: str) -> None:
        """Write a line, which srun gives to all agents."""
        with contextlib.suppress(OSError):
            pipe = t.cast("t.IO[bytes]", self.process.stdin)
            pipe.write(f"{word}\n".encode())
            pipe.flush()

    def close(self) -> None:
        """End srun: its agents end when their input does."""
        with contextlib.suppress(OSError):
            t.cast("t.IO[bytes]", self.process.stdin).close()
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(3)
                return
            self.process.send_signal(number)


def _pass(stream: int, data: bytes) -> None:
    with contextlib.suppress(OSError):
        while data:
            data = data[os.write(stream, data) :]


def real(say: t.Callable[[str], None]) -> World:
    """Return the world of a job."""
    return World(lambda seconds, command: feeding_runner(seconds)(command), Srun, time.time, time.sleep, say)
