# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The segments of a training with a simulated Slurm: what starts where, what a fault says, and how a job ends."""

from __future__ import annotations

import json
import random
import typing as t
from pathlib import Path

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._torchrun import judge, launcher, record, words

HEALTHY = '{"node": "x", "status": "healthy", "checks": [{"check": "mounts", "status": "healthy", "reason": ""}]}\n'
SICK = '{"node": "x", "checks": [{"check": "gpu_count", "status": "unhealthy", "reason": "found 7 of 8"}]}\n'
# What srun of Slurm 24.11 printed for a node that was killed.
CUT = (
    1,
    "",
    "srun: error: Task launch for StepId=9.4 failed on node gpu2: Unable to contact slurmd (connect failure)\n",
)
KILL = {"status": -9, "pid": 21, "cause": "", "time": 5.0}
PEER = {"status": 1, "pid": 11, "cause": "RuntimeError: Connection closed by peer", "time": 4.9}


def rank(number: int, count: int, **more: t.Any) -> dict[str, t.Any]:
    """Return the progress of a rank, as an agent reports it."""
    base = {"rank": number, "pid": 11 + 10 * number, "count": count, "step": count, "passes": count, "idle": 0.0}
    return {**base, "own": 10.0 * count, "measured": count, "gpu": True, "state": "S", **more}


def beat(node: str, *ranks: dict[str, t.Any]) -> tuple[str, t.Any]:
    return "report", {"kind": "beat", "node": node, "step": "4", "ranks": ranks}


def end(node: str, **values: t.Any) -> tuple[str, t.Any]:
    return "report", {
        "kind": "end",
        "node": node,
        "step": "4",
        "ranks": (),
        "signal": 0,
        "cause": "",
        "time": 0,
        **values,
    }


def good(*nodes: str) -> list[t.Any]:
    """Return the events of a segment that ends well."""
    return [*(end(node, status=0) for node in nodes), ("end", (0, ""))]


class Slurm:
    """Nodes with their health, and the reports of each segment; a number lets time pass."""

    def __init__(self, tmp_path: Path, nodes: str, *segments: list[t.Any]) -> None:
        self.path, self.nodes, self.segments = tmp_path, nodes, list(segments)
        self.health: dict[str, t.Any] = {}
        self.states = ""
        self.time, self.said = 1000.0, list[str]()
        self.commands, self.sent = list[t.Sequence[str]](), list[str]()

    def ask(self, _seconds: float, command: t.Sequence[str]) -> tuple[int, str, str]:
        if command[0] == "sinfo":
            return 0, self.states, ""
        if "gpucluster-check" not in command:
            self.commands.append(command)
            return 0, "", ""
        node = next(word for word in command if word.startswith("--nodelist=")).partition("=")[2]
        answer = self.health.get(node, HEALTHY)
        if isinstance(answer, list):
            answer = answer.pop(0) if len(answer) > 1 else answer[0]
        return answer if isinstance(answer, tuple) else (0, answer, "")

    def start(self, command: t.Sequence[str]) -> Slurm:
        self.commands.append(command)
        self.events = self.segments.pop(0)
        return self

    def next(self, seconds: float) -> tuple[str, t.Any] | None:
        if self.events and not isinstance(self.events[0], (int, float)):
            return t.cast("tuple[str, t.Any]", self.events.pop(0))
        self.time += self.events.pop(0) if self.events else seconds
        return None

    def send(self, word: str) -> None:
        self.sent.append(word)

    def close(self) -> None:
        self.sent.append("close")

    def pause(self, seconds: float) -> None:
        self.time += seconds

    def train(self, *options: str, **job: str) -> int:
        found, command = words.options([*options, "--", "train.py"])
        about = {"id": "9", "user": "alice", "node": "gpu1", "nodes": self.nodes}
        about |= {"directory": str(self.path), "program": "/shared/training/bin/gpucluster-torchrun", **job}
        world = launcher.World(self.ask, self.start, lambda: self.time, self.pause, self.said.append)
        return launcher.Launcher(found, command, about, world).run()

    def started(self) -> list[list[str]]:
        """Return the nodes of each segment."""
        return [json.loads(command[-1])["nodes"] for command in self.commands if command[-2] == "agent"]


def test_a_training_without_a_fault_uses_all_but_the_spares(tmp_path: Path) -> None:
    slurm = Slurm(tmp_path, "gpu1,gpu2,gpu3", good("gpu1", "gpu2"))

    assert slurm.train("--spares=1") == 0
    assert slurm.started() == [["gpu1", "gpu2"]]
    assert slurm.said[-1].startswith("goodput")


def test_a_killed_rank_is_named_and_the_training_goes_on(tmp_path: Path) -> None:
    first = [
        beat("gpu1", rank(0, 20)),
        beat("gpu2", rank(1, 20)),
        9,
        beat("gpu1", rank(0, 57)),
        beat("gpu2", rank(1, 57)),
    ]
    first += [end("gpu1", **PEER), end("gpu2", **KILL), ("end", (0, ""))]
    second = [7, beat("gpu1", rank(0, 1, step=51)), beat("gpu2", rank(1, 1, step=51)), *good("gpu1", "gpu2")]
    slurm = Slurm(tmp_path, "gpu1,gpu2,gpu3", first, second)

    assert slurm.train("--spares=1") == 0
    assert "FAULT: rank failed: rank 1 on gpu2 killed by signal 9" in slurm.said
    assert "the training goes on with step 51: 7 steps are repeated" in slurm.said
    assert slurm.started() == [["gpu1", "gpu2"]] * 2
    fault = record.summary(record.read(f"{tmp_path}/{record.NAME}")).faults[0]
    assert (fault["node"], fault["back"] >= 7) == ("gpu2", True)


@pytest.mark.parametrize(
    "cause",
    ["[rank1]: ValueError: bad sample", "ValueError: bad sample"],
    ids=["named-by-pytorch", "known-by-its-pid"],
)
def test_a_rank_that_lost_another_is_named_last(tmp_path: Path, cause: str) -> None:
    """gpu1 ends first and names its rank 0. That of gpu2 failed before, but took longer to end."""
    beats = [beat("gpu1", rank(0, 20)), beat("gpu2", rank(1, 20), rank(2, 20)), beat("gpu1", rank(0, 57))]
    pid = 31 if cause.startswith("[") else 21  # torchrun names rank 2 only, which lost rank 1
    late = end("gpu2", status=1, pid=pid, cause=cause, time=11.0)
    slurm = Slurm(tmp_path, "gpu1,gpu2", [*beats, end("gpu1", **PEER), 6, late, ("end", (0, ""))], good("gpu1", "gpu2"))

    slurm.train()
    assert f"FAULT: rank failed: rank 1 on gpu2 exit status 1: {cause}" in slurm.said


def test_a_status_that_says_something_is_named_first(tmp_path: Path) -> None:
    """The other exception came earlier, and a training that would only fail again is not started again."""
    early, late = end("gpu1", **{**PEER, "cause": "EOFError"}), end("gpu2", status=65, pid=21, time=11.0)
    slurm = Slurm(tmp_path, "gpu1,gpu2", [beat("gpu1", rank(0, 20)), beat("gpu2", rank(1, 20)), early, 1, late])

    assert slurm.train() == 65
    assert "FAULT: rank failed: rank 1 on gpu2 exit status 65" in slurm.said


def test_a_status_of_a_rank_that_lost_another_is_no_reason_to_end(tmp_path: Path) -> None:
    early = end("gpu1", status=1, pid=11, cause="[rank0]: ValueError: x", time=9.0)
    late = end("gpu2", status=74, pid=21, cause="[rank1]: ConnectionResetError: Connection reset by peer", time=9.2)
    slurm = Slurm(
        *(tmp_path, "gpu1,gpu2", [beat("gpu1", rank(0, 20)), beat("gpu2", rank(1, 20)), late, early, ("end", (0, ""))]),
        good("gpu1", "gpu2"),
    )
    assert slurm.train() == 0
    assert "FAULT: rank failed: rank 0 on gpu1 exit status 1: [rank0]: ValueError: x" in slurm.said


@pytest.mark.parametrize(("status", "text"), [(65, "exit status 65"), (3, "exit status 3"), (-4, "killed by signal 4")])
def test_the_exception_of_another_rank_of_the_node_is_not_its_own(tmp_path: Path, status: int, text: str) -> None:
    """The rank that ended by itself wrote nothing; the other one on its node wrote that it lost it."""
    cause = "[rank0]: RuntimeError: Connection closed by peer"
    ends = [end("gpu1", status=status, pid=21, cause=cause), ("end", (0, ""))]
    slurm = Slurm(tmp_path, "gpu1", [beat("gpu1", rank(0, 20), rank(1, 20)), *ends], good("gpu1"))

    slurm.train()
    assert [line for line in slurm.said if line.startswith("FAULT")] == [f"FAULT: rank failed: rank 1 on gpu1 {text}"]


@pytest.mark.parametrize("cause", [None, f"[rank{'1' * 5000}]: ValueError: x"], ids=["none", "long"])
def test_an_odd_cause_ends_no_launcher(tmp_path: Path, cause: str | None) -> None:
    ends = [end("gpu1", status=1, pid=11, cause=cause), ("end", (0, ""))]
    slurm = Slurm(tmp_path, "gpu1", [beat("gpu1", rank(0, 20)), *ends], good("gpu1"))
    assert slurm.train() == 0


def test_a_rank_that_was_killed_before_its_first_report_is_named(tmp_path: Path) -> None:
    killed = {**KILL, "cause": "[rank2]: RuntimeError: Connection closed by peer"}
    slurm = Slurm(tmp_path, "gpu1,gpu2", [beat("gpu1"), end("gpu2", **killed)], good("gpu1", "gpu2"))

    slurm.train()
    assert "FAULT: rank failed: on gpu2 killed by signal 9" in slurm.said
    assert slurm.time < 1000 + judge.SILENCE  # a killed rank is reason enough


def test_a_node_has_its_seconds_to_stop_after_a_long_wait(tmp_path: Path) -> None:
    """gpu1 ended long ago, so it does not count as silent."""
    beats: list[t.Any] = [beat("gpu1", rank(0, 20)), beat("gpu2", rank(1, 20)), end("gpu1", **PEER)]
    beats += [10, beat("gpu2", rank(1, 20))] * 5
    slurm = Slurm(tmp_path, "gpu1,gpu2", beats, good("gpu1", "gpu2"))

    slurm.train()
    assert slurm.time >= 1000 + 40 + 25


def test_ranks_that_lost_a_node_do_not_fail_by_themselves(tmp_path: Path) -> None:
    beats = [beat("gpu1", rank(0, 20)), beat("gpu2", rank(1, 20)), 12, end("gpu1", **PEER)]
    slurm = Slurm(tmp_path, "gpu1,gpu2,gpu3", beats, good("gpu1", "gpu3"))
    slurm.health["gpu2"] = [HEALTHY, CUT]

    assert slurm.train("--spares=1") == 0
    assert [line for line in slurm.said if line.startswith("FAULT")] == ["FAULT: node lost: on gpu2 no report for 30 s"]


def test_a_job_that_is_told_to_end_waits_for_no_other_reason(tmp_path: Path) -> None:
    beats = [beat("gpu1", rank(0, 20)), beat("gpu2", rank(1, 20)), end("gpu1", **PEER, signal=15)]
    slurm = Slurm(tmp_path, "gpu1,gpu2", beats)
    slurm.train()
    assert slurm.time < 1000 + judge.SILENCE


def test_a_restart_at_zero_is_said(tmp_path: Path) -> None:
    first = [beat("gpu1", rank(0, 30)), end("gpu1", **{**PEER, "status": 1}), ("end", (0, ""))]
    slurm = Slurm(tmp_path, "gpu1", first, [beat("gpu1", rank(0, 1)), *good("gpu1")])

    assert slurm.train() == 0
    assert "THE TRAINING BEGINS AGAIN AT STEP 1: it read no checkpoint, and 30 steps are lost" in slurm.said


def test_a_sick_node_leaves_before_the_start(tmp_path: Path) -> None:
    slurm = Slurm(tmp_path, "gpu1,gpu2,gpu3", good("gpu1", "gpu3"))
    slurm.health["gpu2"] = SICK

    assert slurm.train("--spares=1") == 0
    assert "node gpu2 leaves: gpu_count: found 7 of 8" in slurm.said
    assert slurm.started() == [["gpu1", "gpu3"]]


@pytest.mark.parametrize("reason", ["NHC: gpu_xid: 79", "maintenance on Friday"])
def test_a_drained_node_is_left_for_a_spare(tmp_path: Path, reason: str) -> None:
    slurm = Slurm(tmp_path, "gpu1,gpu2,gpu3", good("gpu1", "gpu3"))
    slurm.states = f"gpu1|allocated|none\ngpu2|draining|{reason}\n"

    assert slurm.train("--spares=1") == 0
    assert f"node gpu2 leaves: drained: {reason}" in slurm.said


def test_a_bad_sample_and_a_drain_by_an_administrator_end_no_job(tmp_path: Path) -> None:
    slurm = Slurm(tmp_path, "gpu1,gpu2", good("gpu1", "gpu2"))
    slurm.health["gpu1"] = SICK.replace("unhealthy", "suspect")
    slurm.states = "gpu2|draining|maintenance\n"

    assert slurm.train() == 0


def test_a_check_that_all_nodes_fail_is_not_used(tmp_path: Path) -> None:
    slurm = Slurm(tmp_path, "gpu1,gpu2", good("gpu1", "gpu2"))
    slurm.health = {"gpu1": SICK, "gpu2": SICK}

    assert slurm.train() == 0
    assert slurm.said[0] == (
        "all nodes fail the health check (gpu_count: found 7 of 8), so it is not used: has this job whole nodes?"
    )


@pytest.mark.parametrize("answer", [(127, "", ""), (4, '{"node": "gpu1", "checks": [{"che', ""), (0, "null\n", "")])
def test_an_answer_that_is_not_understood_is_no_sick_node(answer: tuple[int, str, str]) -> None:
    assert launcher.health("gpu1", answer[0], answer[1]).sick == ""


def test_a_lost_node_is_replaced_by_the_spare(tmp_path: Path) -> None:
    lost = [beat("gpu1", rank(0, 20)), beat("gpu2", rank(1, 20)), 29, beat("gpu1", rank(0, 20, idle=29)), 5]
    slurm = Slurm(tmp_path, "gpu1,gpu2,gpu3", lost, good("gpu1", "gpu3"))
    slurm.health["gpu2"] = [HEALTHY, CUT]

    assert slurm.train("--spares=1") == 0
    assert any("FAULT: node lost: on gpu2 no report for" in line for line in slurm.said)
    assert slurm.started() == [["gpu1", "gpu2"], ["gpu1", "gpu3"]]
    assert ["scancel", "--quiet", "--signal=KILL", "9.4"] in slurm.commands


def test_without_a_spare_the_job_goes_back_to_the_queue(tmp_path: Path) -> None:
    lost = [beat("gpu1", rank(0, 20)), ("end", (1, CUT[2]))]
    slurm = Slurm(tmp_path, "gpu1,gpu2", lost)
    slurm.health["gpu2"] = [HEALTHY, CUT]

    assert slurm.train() == 1
    assert slurm.commands[-1] == ["scontrol", "requeue", "9"]


def test_a_requeued_job_says_where_it_goes_on(tmp_path: Path) -> None:
    lost = [beat("gpu1", rank(0, 20)), 1, beat("gpu1", rank(0, 30)), ("end", (1, CUT[2]))]
    slurm = Slurm(tmp_path, "gpu1,gpu2", lost, [beat("gpu1", rank(0, 1, step=21)), *good("gpu1", "gpu2")])
    slurm.health["gpu2"] = [HEALTHY, CUT, HEALTHY]

    assert (slurm.train(), slurm.train(restarts="1")) == (1, 0)
    assert "start 2 on gpu1, gpu2" in slurm.said
    assert "the training goes on with step 21: 10 steps are repeated" in slurm.said


def test_a_job_goes_back_to_the_queue_three_times(tmp_path: Path) -> None:
    slurm = Slurm(tmp_path, "gpu1,gpu2")
    slurm.health["gpu2"] = CUT

    assert slurm.train(restarts="3") == 1
    assert slurm.said[-2] == "too few healthy nodes; the job was requeued 3 times: it ends"


def test_a_slurm_that_is_away_loses_no_node(tmp_path: Path) -> None:
    slurm = Slurm(tmp_path, "gpu1,gpu2", good("gpu1", "gpu2"))
    slurm.health = {name: [(124, "", ""), (124, "", ""), HEALTHY] for name in ("gpu1", "gpu2")}

    assert slurm.train() == 0
    assert slurm.said[0] == "Slurm does not start a step on this node: waiting"
    assert slurm.started() == [["gpu1", "gpu2"]]


def test_two_faults_within_a_minute(tmp_path: Path) -> None:
    first = [beat("gpu1", rank(0, 20)), beat("gpu2", rank(1, 20)), end("gpu2", **KILL), ("end", (0, ""))]
    second = [5, ("end", (1, CUT[2]))]
    third = [5, beat("gpu1", rank(0, 1, step=11)), beat("gpu3", rank(1, 1, step=11)), *good("gpu1", "gpu3")]
    slurm = Slurm(tmp_path, "gpu1,gpu2,gpu3", first, second, third)
    slurm.health["gpu2"] = [HEALTHY, HEALTHY, CUT]

    assert slurm.train("--spares=1") == 0
    found = record.summary(record.read(f"{tmp_path}/{record.NAME}"))
    assert [fault["kind"] for fault in found.faults] == ["rank failed", "node lost"]
    assert all(fault["back"] >= 5 for fault in found.faults)
    assert found.repeated == 10


def test_a_hang_keeps_the_stacks(tmp_path: Path) -> None:
    ranks = (rank(0, 20, idle=61.0), rank(1, 20, idle=62.0, state="T"))
    hang = [beat("gpu1", rank(0, 5), rank(1, 5)), 1, beat("gpu1", *ranks)]
    hang += [("report", {"kind": "stacks", "node": "gpu1", "text": "rank 0: in all_reduce"})]
    slurm = Slurm(tmp_path, "gpu1", hang, good("gpu1"))

    assert slurm.train() == 0
    assert "FAULT: hang: rank 1 on gpu1 nothing for 62 s after step 20 of this start: stopped" in slurm.said
    assert slurm.sent[:2] == ["stacks", "stop"]
    assert (tmp_path / "stacks-1.txt").read_text(encoding="utf-8") == "rank 0: in all_reduce"


@pytest.mark.parametrize(
    ("status", "starts", "requeued"), [(2, 1, False), (64, 1, False), (75, 1, True), (1, 2, False), (-11, 2, False)]
)
def test_what_a_new_start_does_not_change_ends_the_job(
    tmp_path: Path, status: int, starts: int, requeued: bool
) -> None:
    fail = [end("gpu1", **{**PEER, "status": status}), ("end", (1, ""))]
    slurm = Slurm(tmp_path, "gpu1", [*fail], [*fail], [*fail])

    assert slurm.train() == (128 - status if status < 0 else status)
    assert len(slurm.started()) == starts
    assert (["scontrol", "requeue", "9"] in slurm.commands) == requeued


def test_a_signal_before_the_time_limit_requeues_the_job(tmp_path: Path) -> None:
    slurm = Slurm(tmp_path, "gpu1", [beat("gpu1", rank(0, 9)), end("gpu1", **{**PEER, "signal": 10}), ("end", (0, ""))])

    assert slurm.train() == 1
    assert slurm.commands[-1] == ["scontrol", "requeue", "9"]


def test_a_cancelled_job_does_not_come_back(tmp_path: Path) -> None:
    """Slurm 24.11 requeues a cancelled job that asks for it while it ends."""
    slurm = Slurm(tmp_path, "gpu1", [beat("gpu1", rank(0, 9)), end("gpu1", **{**PEER, "signal": 15}), ("end", (0, ""))])

    assert slurm.train() == 1
    assert ["scontrol", "requeue", "9"] not in slurm.commands
    assert not any("FAULT" in line for line in slurm.said)


def slow_lines(means: t.Sequence[t.Sequence[float]], gpu: bool = True) -> list[str]:
    """Return who is named, when each window has these own times of the ranks."""
    watch = judge.Watch(["gpu1", "gpu2"], 60, 60, 0.0)
    lines, sums = list[str](), [0.0] * len(means[0])
    for window, times in enumerate(means, 1):
        sums = [before + 10 * mean for before, mean in zip(sums, times)]
        for number, own in enumerate(sums):
            values = rank(number, 10 * window, own=own, measured=10 * window, gpu=gpu)
            watch.hear(beat(f"gpu{number // 2 + 1}", values)[1], 60.0 * window)
        lines += watch.slow(60.0 * window)
    return lines


def test_a_rank_is_slow_after_three_windows() -> None:
    assert slow_lines([[10, 10, 10, 11.5]] * 2 + [[10, 10, 10, 10]] + [[10, 10, 10, 11.5]] * 2) == []
    assert slow_lines([[10, 10, 10, 11.5]] * 5) == [
        "SLOW: rank 3 on gpu2 needs 11.50 ms of its own for a forward pass, 15 % more than the median"
    ]
    assert slow_lines([[10, 10, 10, 10.9]] * 5) == []
    assert slow_lines([[10, 10, 10, 19]] * 5, gpu=False) == []


def recorded() -> list[float]:
    """Return the own times of healthy ranks of H200 and H100, each as a ratio to the faster one of its window."""
    found = list[float]()
    for path in sorted((Path(__file__).parents[3] / "fixtures/training").glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            event = json.loads(line)
            if event["event"] == "ranks":
                found += [time / min(event["compute_ms"]) for time in event["compute_ms"]]
    return found


def test_fifty_healthy_runs_name_nobody() -> None:
    """
    Simulated from what was recorded: 16 ranks, 60 windows in each run.

    The trainer recorded its time before the collectives, which is not only the forward pass. The first window of a run,
    with its compilation, is among them.
    """
    times, chance = recorded(), random.Random(38)
    assert len(times) == 48
    for _run in range(50):
        windows = [[100 * chance.choice(times) for _rank in range(16)] for _window in range(60)]
        assert slow_lines(windows) == []
        # A rank that is slower by an eighth is named in the same noise.
        lines = slow_lines([[*window[:15], 1.125 * window[15]] for window in windows])
        assert [line.partition(" needs")[0] for line in lines] == ["SLOW: rank 15 on gpu8"]


def test_a_phase_without_steps_is_no_hang() -> None:
    watch = judge.Watch(["gpu1"], 60, 60, 0.0)
    watch.hear(beat("gpu1", rank(0, 1), rank(1, 1))[1], 1.0)
    watch.hear(beat("gpu1", rank(0, 9), rank(1, 9))[1], 9.0)
    # One rank writes a checkpoint, the other one waits for it.
    watch.hear(beat("gpu1", rank(0, 9, idle=1.0), rank(1, 9, idle=300.0))[1], 300.0)

    assert watch.fault(300.0) is None


def test_behind_too_many_damaged_lines_nothing_is_read(tmp_path: Path) -> None:
    """A user could write millions of them, and each costs the reader time."""
    path = tmp_path / record.NAME
    line = '{"event": "begin", "time": 1}\n'
    path.write_text(f"{line}{'0' + chr(10)}" * 100 + line, encoding="utf-8")
    assert len(record.read(str(path))) == 101

    path.write_text(line + "0\n" * 101 + line, encoding="utf-8")
    assert len(record.read(str(path))) == 1


def test_a_job_that_was_killed_has_a_summary(tmp_path: Path) -> None:
    path = tmp_path / record.NAME
    lines = [
        {"event": "begin", "time": 0, "job": "9", "user": "alice"},
        {"event": "steps", "time": 60, "segment": 1, "steps": 50, "first": 1, "last": 50, "seconds": 50.0},
        {"event": "begin", "time": 1000, "job": "9", "user": "alice"},
        {"event": "steps", "time": 1040, "segment": 2, "steps": 30, "first": 41, "last": 70, "seconds": 30.0},
    ]
    path.write_text("\n".join(map(json.dumps, lines)) + '\n{"event": "ste', encoding="utf-8")

    found = record.summary(record.read(str(path)))
    assert (found.allocated, found.useful, found.repeated) == (100, 70, 10)
    assert found.goodput == pytest.approx(0.7)
