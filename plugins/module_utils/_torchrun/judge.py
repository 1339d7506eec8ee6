# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""What a segment of a training does, from the reports of its agents: pure decisions about time and numbers."""

from __future__ import annotations

import re
import statistics
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._slurm import output

Report = t.Mapping[str, t.Any]
# Exit statuses that a new start does not change, as in the job script of the trainer.
FINAL = {2, 64, 65, 70, 74, 126, 127}
AGAIN = 75
SILENCE = 30.0  # seconds without a report after which a node counts as lost
_STEPS_OF_HANG = 10
_KILLED = (-9, -11, -7, -8, -4)
# A rank that lost another one ends so: with an exception, or NCCL aborts it.
_USUAL = (1, -6)
_RANK = re.compile(r"\[rank(\d{1,7})\]: ")  # PyTorch puts it before each line of an exception
# How much more time a slow rank needs than the median. CPUs are shared with others.
_SLOW, _SLOW_CPU, _WINDOWS = 1.10, 2.0, 3
_STUCK = {"T": "stopped", "t": "stopped", "D": "waits for a device or a file system", "Z": "dead"}


class Fault(t.NamedTuple):
    """Why a segment ended."""

    kind: str
    node: str
    rank: int | None
    status: int
    text: str


class Watch:
    """The progress of one segment."""

    def __init__(self, nodes: t.Sequence[str], hang: float, window: float, now: float) -> None:
        self.nodes, self.hang, self.window = list(nodes), hang, window
        self.heard: dict[str, float] = {}
        self.ranks: dict[int, dict[str, t.Any]] = {}
        self.ends: dict[str, Report] = {}
        self.step_id = ""
        self.begun = now
        self.first: tuple[float, int] | None = None
        self.last: tuple[float, int] | None = None
        self.marks: dict[int, tuple[float, int]] = {}
        self.marked = now
        self.slow_in: dict[int, int] = {}

    def hear(self, report: Report, now: float) -> None:
        """Take a report of an agent."""
        self.heard[report["node"]] = now
        self.step_id = report.get("step") or self.step_id
        for rank in report.get("ranks", ()):
            self.ranks[rank["rank"]] = {**rank, "node": report["node"]}
        count = self.count
        if count and (self.last is None or self.last[1] != count):
            self.last = (now, count)
            self.first = self.first or self.last
        if report["kind"] == "end":
            self.ends[report["node"]] = report

    @property
    def count(self) -> int:
        """Return the steps that all ranks have done."""
        return min((rank["count"] for rank in self.ranks.values()), default=0)

    @property
    def span(self) -> dict[str, t.Any]:
        """Return the steps of this segment: how many, the numbers of the first and last if known, and the seconds."""
        steps = [rank["step"] for rank in self.ranks.values()]
        last = min(steps) if steps and None not in steps else None
        seconds = 0.0
        if self.first and self.last and self.last[1] > self.first[1]:
            seconds = (self.last[0] - self.first[0]) / (self.last[1] - self.first[1]) * self.last[1]
        first = last - self.count + 1 if last is not None else None
        return {"steps": self.count, "first": first, "last": last, "seconds": round(seconds, 3)}

    def fault(self, now: float) -> Fault | None:
        """Return what is wrong, or None."""
        exited = self._exited()
        if exited and not exited[0]:
            return exited[1]
        for node in self.nodes:
            silent = now - self.heard.get(node, now)
            if node not in self.ends and silent > SILENCE:
                return Fault("node lost", node, None, 1, f"no report for {silent:.0f} s")
        return exited[1] if exited else self._hangs()

    @property
    def is_lost(self) -> bool:
        """Return whether ranks ended, and all that is known of them is that they lost another one."""
        exited = self._exited()
        return bool(exited and exited[0])

    def _exited(self) -> tuple[bool, Fault] | None:
        """Return the fault of the rank that failed first, and whether it only lost another one, as all others."""
        found = []
        for end in self.ends.values():
            if end["status"]:
                rank, cause = self._about(end)
                may_be_lost = end["status"] in _USUAL or (end["status"] not in _KILLED and _RANK.match(cause))
                is_lost = bool(may_be_lost and output.lost_peer(cause))
                found.append((is_lost, weight(end["status"]), end["time"], rank, cause, end))
        if not found:
            return None
        is_lost, _weight, _time, rank, cause, end = min(found, key=lambda one: one[:3])
        text = ": ".join(filter(None, (f"exit status {end['status']}", cause)))
        if end["status"] in _KILLED:  # what its program wrote came before
            text = f"killed by signal {-end['status']}"
        return is_lost, Fault("rank failed", end["node"], rank, end["status"], text)

    def _about(self, end: Report) -> tuple[int | None, str]:
        """Return the rank of an end and its cause; an exception of another rank of the node is none of its own."""
        mine = {key: one["pid"] for key, one in self.ranks.items() if one["node"] == end["node"]}
        rank = next((key for key, pid in mine.items() if pid == end["pid"]), None)
        cause = str(end["cause"] or "")
        said = _RANK.match(cause)
        named = int(said[1]) if said and int(said[1]) in mine else rank
        if named == rank:
            return rank, cause
        if end["status"] not in _USUAL:
            return rank, ""
        return (rank if output.lost_peer(cause) else named), cause

    def _hangs(self) -> Fault | None:
        ranks = list(self.ranks.values())
        if self.count < 2 or not self.first or not self.last:
            return None
        span = self.span
        limit = max(self.hang, _STEPS_OF_HANG * span["seconds"] / max(span["steps"], 1))
        ahead = max(rank["count"] for rank in ranks)
        stuck = [rank for rank in ranks if rank["idle"] > limit]
        if len(stuck) < len(ranks):
            stuck = [rank for rank in stuck if ahead - rank["count"] >= _STEPS_OF_HANG]
        if not stuck:
            return None
        worst = min(stuck, key=lambda rank: (rank["state"] not in _STUCK, rank["count"], -rank["idle"]))
        state = _STUCK.get(worst["state"], "no step, no pass of the model, no input or output")
        sure = worst["state"] in _STUCK or worst["count"] < ahead
        text = f"nothing for {worst['idle']:.0f} s after step {worst['count']} of this start: {state}"
        return Fault("hang", worst["node"] if sure else "", worst["rank"] if sure else None, 1, text)

    def slow(self, now: float) -> list[str]:
        """Return a line for each rank that was slow in three windows in a row, once."""
        if now - self.marked < self.window:
            return []
        self.marked = now
        means = {}
        for key, rank in self.ranks.items():
            own, measured = self.marks.get(key, (0.0, 0))
            self.marks[key] = (rank["own"], rank["measured"])
            if rank["measured"] > measured:
                means[key] = (rank["own"] - own) / (rank["measured"] - measured)
        if len(means) < max(2, len(self.ranks)):
            return []
        usual = statistics.median_low(means.values())
        return [line for key, mean in sorted(means.items()) if (line := self._slow(key, mean, usual))]

    def _slow(self, key: int, mean: float, usual: float) -> str:
        rank = self.ranks[key]
        is_slow = mean > usual * (_SLOW if rank["gpu"] else _SLOW_CPU)
        self.slow_in[key] = self.slow_in.get(key, 0) + 1 if is_slow else 0
        if self.slow_in[key] != _WINDOWS:
            return ""
        more = f"{100 * (mean / usual - 1):.0f} % more than the median"
        return f"SLOW: rank {key} on {rank['node']} needs {mean:.2f} ms of its own for a forward pass, {more}"


def weight(status: int) -> int:
    """Return a number from 0 to 2 that is lower, the surer a rank with an exit status failed by itself."""
    return 0 if status in _KILLED else 2 if status in _USUAL else 1


def decide(fault: Fault, steps: int, lost: bool, idle_before: bool) -> str:
    """
    Return what follows a fault: again, requeue or end.

    O(idle_before) says that the start before made no step either: a program that fails at once fails for ever.
    """
    if fault.kind == "rank failed" and fault.status in FINAL:
        return "end"
    if fault.status == AGAIN:
        return "requeue"
    return "end" if not steps and not lost and idle_before else "again"


def choose(nodes: t.Sequence[str], wanted: int, doubt: t.Container[str]) -> list[str]:
    """Return the nodes of a segment, in the order of the job, those in doubt only if too few others are there."""
    kept = sorted(nodes, key=lambda node: node in doubt)[:wanted]
    return [node for node in nodes if node in kept] if len(kept) == wanted else []
