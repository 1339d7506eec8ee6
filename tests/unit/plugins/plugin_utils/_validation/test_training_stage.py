# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stage training against a simulated host, and what the report shows of it."""

from __future__ import annotations

import base64
import json
import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._training import plan
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation import (
    report,
    report_page,
    stages,
    training_stage,
)
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation.session import Nodes, Session, StoppedError

TRAINING = {
    "recipe": "tiny",
    "directory": "/shared/t",
    "script": "/shared/t/jobs/x",
    "user": "alice",
    "tasks_per_node": 1,
}
SETTINGS = {"training": TRAINING, "partition": "", "time_limit": 30, "pending_timeout": 60, "submit_options": {}}
GPU = "NVIDIA H200"
HARDWARE = {"hardware": [], "gpus_per_node": 0}


def log(
    steps: int = 60, *, first: int = 1, slow: int | None = None, ms: float = 50.0, ranks: int = 2, device: str = "CPU"
) -> str:
    """Return a log of one, two or four ranks on two nodes; one of them may be slow."""
    start = {
        "event": "start",
        "first_step": first,
        "hosts": (["gpu1", "gpu2"] if ranks < 4 else ["gpu1", "gpu1", "gpu2", "gpu2"])[:ranks],
        "device": device,
        "torch": "2.6.0",
    }
    lines: list[dict[str, t.Any]] = [{**start, "peak_tflops": None}]
    for step in range(first, steps + 1):
        values = {"loss": 5.5 - 2.4 * min(1, step / 20), "step_ms": ms, "tokens_per_second": 40960.0}
        lines.append({"event": "step", "step": step, **values})
        if step % 10 == 0:
            times = [200.0 if rank == slow else 40.0 for rank in range(ranks)]
            lines.append({"event": "ranks", "last_step": step, "compute_ms": times})
    return "".join(json.dumps(line) + "\n" for line in lines)


class Host:
    """A host with a queue: the log grows with each look, and the job ends with it."""

    def __init__(self, *logs: str, state: str = "COMPLETED") -> None:
        self.logs, self.state = list(logs), state
        self.calls: list[tuple[str, dict[str, t.Any]]] = []
        self.job = 0
        self.output = "srun: started\ntorch is missing\n\nthe last line\n"

    def __call__(self, module: str, arguments: dict[str, t.Any]) -> dict[str, t.Any]:
        self.calls.append((module, arguments))
        name = module.rpartition(".")[2]
        return t.cast("dict[str, t.Any]", getattr(self, f"_{name}")(arguments))

    def _file(self, _arguments: t.Any) -> dict[str, t.Any]:
        return {}

    def _slurp(self, _arguments: t.Any) -> dict[str, t.Any]:
        return {"content": base64.b64encode(b"#!/bin/sh\n").decode()}

    def _slurm_job(self, _arguments: t.Any) -> dict[str, t.Any]:
        self.job += 1
        self.looks = 0
        return {"job_id": self.job}

    def _training_log_info(self, arguments: dict[str, t.Any]) -> dict[str, t.Any]:
        if arguments["path"].endswith("slurm.log"):
            return {"text": self.output, "offset": len(self.output)}
        text = self.logs[self.job - 1]
        whole = text if self.looks > 1 else text[: text.index("\n", len(text) // 2) + 1]
        return {"text": whole[arguments["offset"] :], "offset": len(whole)}

    def _command(self, arguments: dict[str, t.Any]) -> dict[str, t.Any]:
        if "squeue" not in arguments["argv"]:
            return {"rc": 0, "stdout": ""}
        self.looks += 1
        return {"rc": 0, "stdout": f"{'RUNNING' if self.looks == 1 else self.state} None\n"}

    def arguments(self, module: str) -> list[dict[str, t.Any]]:
        return [arguments for name, arguments in self.calls if name.endswith(module)]


def session(host: Host, **training: t.Any) -> tuple[Session, list[str]]:
    said: list[str] = []
    nodes = Nodes(known=[{"name": name, "gpus": 0} for name in ("gpu1", "gpu2")], taken=["gpu1", "gpu2"])
    settings = {**SETTINGS, **HARDWARE, "training": {**TRAINING, **training}}
    return Session(settings, nodes, host, said.append, lambda _seconds: None), said


def measured(host: Host, **training: t.Any) -> dict[str, t.Any]:
    raw: dict[str, t.Any] = {}
    training_stage.measure(session(host, **training)[0], raw, [])
    return raw


def checks(raw: t.Mapping[str, t.Any]) -> dict[str, tuple[str, str]]:
    return {item["check"]: (item["status"], item["message"]) for item in training_stage.judge(raw)["checks"]}


def test_the_job_is_one_of_the_user_on_the_chosen_nodes() -> None:
    host = Host(log())
    measured(host)
    job = host.arguments("slurm_job")[0]

    assert job["nodelist"] == ["gpu1", "gpu2"]
    assert job["submit_options"]["uid"] == "alice"
    assert job["submit_options"]["ntasks_per_node"] == 1
    assert job["script"] == "#!/bin/sh\n"
    assert job["submit_options"]["export"].startswith("ALL,GPUCLUSTER_RUN=/shared/t/runs/alice/validation-")


def test_root_makes_and_reads_nothing_in_the_directory_of_the_user() -> None:
    """There the user can put links to files of others."""
    host = Host(log(), state="FAILED")
    host.logs = [log(30)]
    raw = measured(host)
    directory = raw["runs"]["all"]["directory"]
    made = [arguments["argv"][3:] for arguments in host.arguments("command") if "mkdir" in arguments["argv"]]

    assert made == [["runuser", "-u", "alice", "--", "mkdir", "--mode=0700", "--", directory]]
    assert host.arguments("file") == []
    looks = host.arguments("training_log_info")
    assert {look["path"] for look in looks} == {f"{directory}/log.jsonl", f"{directory}/slurm.log"}
    assert {look["user"] for look in looks} == {"alice"}


def test_a_directory_that_the_user_cannot_make_ends_the_stage() -> None:
    class Full(Host):
        def _command(self, arguments: dict[str, t.Any]) -> dict[str, t.Any]:
            return {"rc": 1, "stdout": "", "stderr": "mkdir: File exists"}

    with pytest.raises(StoppedError, match=r"alice cannot make /shared/t/runs/alice/validation-.*: mkdir: File exists"):
        measured(Full(log()))


@pytest.mark.parametrize("user", ["root", ""])
def test_no_job_of_root_trains(user: str) -> None:
    host = Host(log())
    with pytest.raises(StoppedError, match="training_user: found root or nothing; allowed: another user"):
        measured(host, user=user)

    assert host.calls == []


def test_progress_is_told_while_the_job_runs() -> None:
    host = Host(log())
    running, said = session(host)
    training_stage.measure(running, {}, [])

    assert said[1] == "step 30 of 60: loss 3.1000, 40,960 tokens/s, 0 min 1 s left"
    assert said[-1].startswith("step 60 of 60")


def test_a_good_run_passes() -> None:
    found = checks(measured(Host(log())))

    assert found["training.complete"] == ("pass", "60 steps")
    assert found["training.loss"][0] == "pass"
    assert found["training.steady"][0] == "pass"
    # No baseline is known for CPUs, and no peak.
    assert {found["training.speed"][0], found["training.mfu"][0]} == {"not_run"}
    assert "training.node" not in found


def test_a_slow_node_is_named() -> None:
    found = training_stage.judge(measured(Host(log(slow=1))))["checks"]

    assert [(item["node"], item["status"]) for item in found if item["check"] == "training.node"] == [("gpu2", "fail")]


def test_a_job_that_ends_early_fails() -> None:
    found = checks(measured(Host(log(30), state="TIMEOUT")))

    assert found["training.complete"] == (
        "fail",
        "the job ended after step 30 of 60: it is TIMEOUT; it printed: torch is missing",
    )
    assert found["training.loss"][0] == "not_run"


def test_a_run_without_a_log_fails() -> None:
    runs = {"all": {"log": "", "state": "FAILED"}}
    found = checks({"recipe": plan.find("tiny"), "ranks": 2, "runs": runs})

    assert found["training.complete"] == ("fail", "the job ended after step 0 of 60: it is FAILED")


def test_a_job_that_waits_for_a_drained_node_ends_at_once() -> None:
    """The epilog drained the node after a rank was killed, and the job is back in the queue."""

    class Drained(Host):
        def _command(self, arguments: dict[str, t.Any]) -> dict[str, t.Any]:
            if "sinfo" in arguments["argv"]:
                return {
                    "rc": 0,
                    "stdout": "gpu1|main|idle|24.11|(null)|8|none\ngpu2|main|drained|24.11|(null)|8|no GPU\n",
                }
            return super()._command(arguments)

    host = Drained(log(30), state="PENDING")

    with pytest.raises(StoppedError, match="job 1 waits, and was cancelled: gpu2 is drained: no GPU"):
        measured(host)
    assert host.arguments("command")[-1]["argv"][-3:] == ["scancel", "--quiet", "1"]


def test_a_rank_is_killed_and_the_job_resumes() -> None:
    killed = log(35) + log(first=31)
    host = Host(log(), killed)
    raw = measured(host, prove_resume=True)

    arguments = host.arguments("slurm_job")[1]["submit_options"]["export"]
    assert "--checkpoint-every=10 --fault=kill:" in arguments
    assert checks(raw)["training.resume"][0] == "pass"


def test_nobody_kills_a_rank_of_a_run_that_does_not_work() -> None:
    host = Host(log(30), log())
    measured(host, prove_resume=True)

    assert len(host.arguments("slurm_job")) == 1


@pytest.mark.parametrize(("ms", "status"), [(100.0, "pass"), (95.0, "warn"), (60.0, "fail")])
def test_a_single_gpu_is_the_measure_of_all(ms: float, status: str) -> None:
    # A run on fewer GPUs has fewer steps, for each of them takes longer.
    host = Host(log(device=GPU), log(30, ms=ms, ranks=1, device=GPU))
    raw = measured(host, prove_scaling=True)

    assert list(raw["runs"]) == ["all", "one"]
    assert host.arguments("slurm_job")[1]["nodelist"] == ["gpu1"]
    assert host.arguments("slurm_job")[1]["submit_options"]["export"].endswith("GPUCLUSTER_ARGUMENTS=--steps=30")
    assert checks(raw)["training.scaling.one"][0] == status


def test_one_gpu_and_one_node_are_compared_with_all_nodes() -> None:
    runs = log(ranks=4, ms=51, device=GPU), log(30, ranks=1, ms=200, device=GPU), log(30, ranks=2, ms=100, device=GPU)
    host = Host(*runs)
    raw = measured(host, prove_scaling=True, tasks_per_node=2)

    assert [job["submit_options"]["ntasks_per_node"] for job in host.arguments("slurm_job")] == [2, 1, 2]
    assert [job["nodelist"] for job in host.arguments("slurm_job")] == [["gpu1", "gpu2"], ["gpu1"], ["gpu1"]]
    found = checks(raw)
    assert found["training.scaling.one"] == ("pass", "98.0% of the tokens/s per GPU of one GPU (10,240)")
    assert found["training.scaling.node"][0] == "pass"


def test_the_efficiency_of_cpus_is_told_and_not_judged() -> None:
    found = checks(measured(Host(log(), log(30, ms=40, ranks=1)), prove_scaling=True))

    assert found["training.scaling.one"][0] == "not_run"
    assert found["training.scaling.one"][1].startswith("40.0% of the tokens/s per GPU of one GPU")


def test_a_smaller_run_that_fails_says_why() -> None:
    found = checks(measured(Host(log(), log(5, ranks=1)), prove_scaling=True))

    assert found["training.scaling.one"] == (
        "warn",
        "the run on one GPU ended too early: it is COMPLETED; it printed: torch is missing",
    )


def test_a_recipe_that_is_too_big_for_fewer_gpus_is_not_compared() -> None:
    raw = measured(Host(log()))
    raw["runs"]["one"] = {"log": "", "state": "not possible: about 900 GiB per GPU are needed"}

    assert checks(raw)["training.scaling.one"] == ("not_run", "not possible: about 900 GiB per GPU are needed")


def test_a_proof_that_was_asked_for_and_not_made_has_not_run() -> None:
    found = checks(measured(Host(log(30), state="TIMEOUT"), prove_resume=True, prove_scaling=True))

    why = "the run on all nodes did not come to its end"
    assert (found["training.resume"], found["training.scaling"]) == (("not_run", why), ("not_run", why))
    # Nobody asked for them here.
    assert not {"training.resume", "training.scaling"} & checks(measured(Host(log()))).keys()


def test_the_version_of_pytorch_of_a_baseline_is_named() -> None:
    raw = measured(Host(log(device="NVIDIA H200")))
    known = {"kind": "measured", "hardware": "H200", "backend": "torch", "source": "run 7", "torch": "2.11.0"}
    raw["recipe"]["known"] = [{**known, "tokens_per_second_per_gpu": 20000}]

    assert checks(raw)["training.speed"] == (
        "pass",
        "20,480 tokens/s per GPU, 102.4% of 20,000 (run 7 with torch 2.11.0; this run has 2.6.0)",
    )


def test_a_recipe_that_does_not_fit_is_refused_before_a_job_is_submitted() -> None:
    host = Host(log())

    with pytest.raises(StoppedError, match=r"batch.global 1 cannot be divided among 2 ranks"):
        measured(host, changes=["batch.global=1"])
    assert host.arguments("slurm_job") == []


def test_the_job_is_cancelled_if_the_stage_is_interrupted() -> None:
    class Gone(Host):
        def _training_log_info(self, arguments: dict[str, t.Any]) -> dict[str, t.Any]:
            raise KeyboardInterrupt

    host = Gone(log())
    with pytest.raises(KeyboardInterrupt):
        measured(host)
    assert [call["argv"][-3:] for call in host.arguments("command")][-1] == ["scancel", "--quiet", "1"]


def test_a_requeued_job_does_not_wait_two_minutes() -> None:
    class Queue(Host):
        def _command(self, arguments: dict[str, t.Any]) -> dict[str, t.Any]:
            found = super()._command(arguments)
            return {**found, "stdout": "PENDING BeginTime"} if found["stdout"] and self.looks == 1 else found

    host = Queue(log())
    measured(host)
    called = [call["argv"][-4:] for call in host.arguments("command")]
    assert ["scontrol", "update", "jobid=1", "starttime=now"] in called


def test_the_stage_is_part_of_the_validation_and_of_its_page() -> None:
    raw = {**measured(Host(log(slow=1))), "nodes": ["gpu1", "gpu2"]}
    made = report.build([stages.build("training", raw)], {"run": "20261121T101500Z", "stages": ["training"]})
    page = report_page.page(made)

    assert made["verdict"] == "fail"
    assert made["summary"].startswith("1 of 6 checks failed, on gpu2")
    assert made["training"]["figures"]["step_ms"] == 50.0
    for text in ("<h2>Training</h2>", ">loss</text>", "own time of each rank", "1 gpu2", "tokens per second of a GPU"):
        assert text in page, text


@pytest.mark.parametrize(("ms", "verdict", "status"), [(52.0, "pass", "pass"), (53.0, "fail", "fail")])
def test_a_run_is_judged_by_an_earlier_run(ms: float, verdict: str, status: str) -> None:
    about = {"run": "20261121T101500Z", "stages": ["training"]}
    before, now = (
        stages.build("training", {**measured(Host(log(ms=time))), "nodes": ["gpu1", "gpu2"]}) for time in (50.0, ms)
    )
    made = report.build([now], about, report.build([before], about))
    speed = next(item for item in made["checks"] if item["check"] == "training.speed")

    assert (made["verdict"], speed["status"]) == (verdict, status)
    assert "run 20261121T101500Z" in speed["message"]


def test_a_run_on_more_ranks_is_no_baseline() -> None:
    about = {"run": "20261121T101500Z", "stages": ["training"]}
    raw = {**measured(Host(log())), "nodes": ["gpu1", "gpu2"]}
    before = report.build([stages.build("training", raw)], about)
    before["training"]["ranks"] = 4
    made = report.build([stages.build("training", {**raw, "ranks": 2})], about, before)

    assert next(item["status"] for item in made["checks"] if item["check"] == "training.speed") == "not_run"


def test_a_page_without_training_does_not_speak_of_it() -> None:
    made = report.build([], {"run": "20261121T101500Z", "stages": []})

    assert "<h2>Training</h2>" not in report_page.page(made)


@pytest.mark.parametrize(
    ("printed", "cause"),
    [
        pytest.param("", "", id="nothing"),
        pytest.param(
            "a\nb\n\nc\nsrun: error: head: task 0: Killed\n", "b / c / srun: error: head: task 0: Killed", id="killed"
        ),
        pytest.param(
            "gpt3_126m: 2 x NVIDIA H200\n"
            "[rank0]: Traceback (most recent call last):\n"
            "[rank0]:     raise RuntimeError(\n"
            "[rank0]: torch._inductor.exc.InductorError: RuntimeError: Failed to find C compiler.\n"
            "[rank1]: torch._inductor.exc.InductorError: RuntimeError: Failed to find C compiler.\n"
            "srun: error: head: task 1: Exited with exit code 1\n"
            "srun: Terminating StepId=2.0\n"
            "slurmstepd: error: *** STEP 2.0 ON head CANCELLED AT 2026-11-22T22:31:54 ***\n",
            "[rank0]: torch._inductor.exc.InductorError: RuntimeError: Failed to find C compiler.",
            id="exception",
        ),
    ],
)
def test_an_exception_is_the_cause_of_an_early_end(printed: str, cause: str) -> None:
    assert training_stage.cause(printed) == cause
