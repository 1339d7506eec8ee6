# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import threading
import typing as t
from pathlib import Path

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._slurm import allocation
from ansible_collections.hpcai.gpucluster.plugins.module_utils._slurm import job as slurm_job
from ansible_collections.hpcai.gpucluster.tests.patience import PATIENCE

FIXTURES = Path(__file__).parents[3] / "fixtures/slurm/24.11.5"


class FakeSlurm:
    """Answers like the commands of Slurm; the state of the only job follows a list."""

    def __init__(self, states: t.Sequence[str] = ("running",), together: int = 1) -> None:
        self.states = list(states)
        self.calls: list[list[str]] = []
        self.scripts: list[str | None] = []
        self.together = threading.Barrier(together, timeout=PATIENCE)

    def __call__(self, args: t.Sequence[str], data: str | None = None) -> tuple[int, str, str]:
        self.calls.append(list(args))
        if args[0] == "sbatch":
            self.scripts.append(data)
            return 0, "206\n", ""
        if args[:4] == ["scontrol", "--oneliner", "show", "job"]:
            state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
            if state == "forgotten":
                return 1, "", "slurm_load_jobs error: Invalid job id specified"
            return 0, (FIXTURES / f"job-{state}.txt").read_text(encoding="utf-8"), ""
        if args[0] == "sacct":
            return 0, "CANCELLED by 0|0:15|gpu2\n", ""
        if args[0] == "timeout":
            self.together.wait()
            return 0, " ".join(args), ""
        return 0, "", ""

    def cancelled(self) -> list[str]:
        return [call[-1] for call in self.calls if call[0] == "scancel"]


def slurm(fake: FakeSlurm) -> slurm_job.Slurm:
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    return slurm_job.Slurm(fake, clock=lambda: now[0], sleep=sleep)


@pytest.mark.parametrize(
    ("name", "state", "reason", "nodes", "code"),
    [
        ("running", "RUNNING", "", "gpu2", 0),
        ("failed", "FAILED", "NonZeroExitCode", "gpu1", 3),
        ("cancelled", "CANCELLED", "", "gpu2", 143),
        ("pending-begin", "PENDING", "BeginTime", "", 0),
    ],
)
def test_a_job_is_read(name: str, state: str, reason: str, nodes: str, code: int) -> None:
    job = slurm(FakeSlurm([name])).job(206)

    assert (job.state, job.reason, job.nodes, job.exit_code) == (state, reason, nodes, code)


@pytest.mark.parametrize(
    ("value", "damaged"),
    [
        *[("JobState=RUNNING", "JobState=RUN"), ("JobState=RUNNING ", ""), ("ExitCode=0:0", "ExitCode=0x:0")],
        *[("Restarts=0", "Restarts=nan"), (" NodeList=gpu2", " NodeList=g\x00pu2"), ("ExitCode=0:0", "ExitCode=0")],
    ],
)
def test_a_job_that_is_not_understood_is_refused(value: str, damaged: str) -> None:
    """An unknown state counted as the end of the job."""
    text = (FIXTURES / "job-running.txt").read_text(encoding="utf-8")
    assert value in text

    with pytest.raises(slurm_job.SlurmError):
        slurm_job.Slurm(lambda _args: (0, text.replace(value, damaged), "")).job(206)
    with pytest.raises(slurm_job.SlurmError, match="no whole job"):
        slurm_job.Slurm(lambda _args: (0, text.partition("gpu2 BatchHost")[0] + "gp", "")).job(206)
    with pytest.raises(slurm_job.SlurmError, match="no whole job"):
        slurm_job.Slurm(lambda _args: (0, f"another line\n{text}", "")).job(206)
    failed = text.replace("JobState=RUNNING", "JobState=FAILED").replace("ExitCode=0:0 ", "")
    with pytest.raises(slurm_job.SlurmError, match="no whole job"):
        slurm_job.Slurm(lambda _args: (0, failed, "")).job(206)


@pytest.mark.parametrize("answer", ["\ufeffFAILED|3:0|gpu1\n", "FAI|3:0|gpu1\n", "FAILED||gpu1\n", "FAILED|N/A|gpu1\n"])
def test_a_record_of_the_accounting_that_is_not_understood_is_refused(answer: str) -> None:
    with pytest.raises(slurm_job.SlurmError, match="Slurm names the"):
        slurm_job.Slurm(lambda args: (0, answer, "") if args[0] == "sacct" else (1, "", "no")).job(206)
    twice = slurm_job.Slurm(lambda args: (0, "FAILED|3:0|gpu1\n" * 2, "") if args[0] == "sacct" else (1, "", "no"))

    assert twice.job(206).nodes == "gpu1"


@pytest.mark.parametrize("answer", ["FAILED|3:0|gp\xa0u\n", "FAILED|3:0|gpu"])
def test_a_list_of_nodes_that_is_cut_is_refused(answer: str) -> None:
    with pytest.raises(slurm_job.SlurmError, match="does not know"):
        slurm_job.Slurm(lambda args: (0, answer, "") if args[0] == "sacct" else (1, "", "no")).job(206)


def test_a_job_that_slurm_forgot_is_found_in_the_accounting() -> None:
    job = slurm(FakeSlurm(["forgotten"])).job(206)

    assert (job.state, job.nodes, job.exit_code, job.ended) == ("CANCELLED", "gpu2", 143, True)


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("pending-begin", "BeginTime: its start time has not come yet"),
        ("pending-node", "a node that it names is down, drained or reserved"),
        ("pending-down", "nodes that it needs are down, drained or reserved"),
    ],
)
def test_a_job_that_never_starts_is_cancelled_with_its_reason(state: str, words: str) -> None:
    fake = FakeSlurm([state])

    with pytest.raises(slurm_job.NeverStartedError, match=words):
        slurm(fake).wait_started(206, 30)

    assert fake.cancelled() == ["206"]


@pytest.mark.parametrize(
    ("state", "starts"),
    [("drained", False), ("draining", False), ("down", False), ("inval", False), ("idle*", True), ("reboot^", True)],
)
def test_a_job_whose_node_gets_no_more_jobs_is_cancelled_at_once(state: str, starts: bool) -> None:
    """The epilog of the job before drains the node while the next job is already in the queue."""

    class DrainingSlurm(FakeSlurm):
        """Drains the node after the first look."""

        def __call__(self, args: t.Sequence[str], data: str | None = None) -> tuple[int, str, str]:
            code, out, err = super().__call__(args, data)
            if args[0] == "sinfo":
                drained = len([call for call in self.calls if call[0] == "sinfo"]) > 1
                out = f"gpu2|main|{state if drained else 'idle'}|24.11.5|gpu:1|32|no GPU\n"
            return code, out, err

    fake = DrainingSlurm(["pending-node"])
    client = slurm(fake)
    message = "did not start within 120 s" if starts else "206 was cancelled before it started; gpu2 is .*: no GPU"

    with pytest.raises(slurm_job.NeverStartedError, match=message):
        client.wait_started(206, 120, nodes=["gpu1", "gpu2"])
    assert fake.cancelled() == ["206"]
    assert starts or client._clock() <= 3


def test_a_job_that_is_put_back_into_the_queue_is_cancelled_at_once() -> None:
    class RequeuedSlurm(FakeSlurm):
        """The prolog failed, and Slurm will try again when the node is back."""

        def __call__(self, args: t.Sequence[str], data: str | None = None) -> tuple[int, str, str]:
            code, out, err = super().__call__(args, data)
            return code, out.replace("Restarts=0", "Restarts=1"), err

    fake = RequeuedSlurm(["pending-node"])

    with pytest.raises(slurm_job.NeverStartedError, match="put back into the queue"):
        slurm(fake).wait_started(206, 30)
    assert fake.cancelled() == ["206"]
    assert len(fake.calls) == 2, "nobody waits until the time is over"


def test_an_unknown_reason_is_still_printed() -> None:
    assert slurm_job.explain("AssocGrpCPULimit") == "a limit of the account or QOS is reached"
    assert "scontrol" in slurm_job.explain("SomethingNew")


def test_a_job_that_does_not_end_is_cancelled() -> None:
    fake = FakeSlurm(["pending-begin", "running"])
    client = slurm(fake)

    assert client.wait_started(206, 30).state == "RUNNING"
    with pytest.raises(slurm_job.TookTooLongError, match="RUNNING after 60 s"):
        client.wait_finished(206, 60)
    assert fake.cancelled() == ["206"]


def test_submitting_needs_a_number() -> None:
    client = slurm_job.Slurm(lambda _args, _data: (0, "Submitted to the void", ""))

    with pytest.raises(slurm_job.SlurmError, match="no job number"):
        client.submit([], "#!/bin/sh\n")


def test_an_error_of_a_command_is_passed_on() -> None:
    client = slurm_job.Slurm(lambda _args, _data: (1, "", "sbatch: error: invalid partition specified: nope"))

    with pytest.raises(slurm_job.SlurmError, match=r"sbatch exited 1: .*invalid partition"):
        client.submit([], "#!/bin/sh\n")


def step(*nodes: str) -> slurm_job.Step:
    return slurm_job.Step("test", nodes, (), ("true",), 60)


def test_steps_that_share_a_node_run_one_after_the_other() -> None:
    steps = [step("a", "b"), step("c", "d"), step("a", "b"), step("a", "c"), step("e", "f")]

    assert slurm_job.waves(steps) == [[0, 1, 4], [2], [3]]


def test_steps_run_at_the_same_time_and_results_keep_their_order() -> None:
    fake = FakeSlurm(together=3)
    steps = [step(f"n{number}") for number in range(12)]
    results = slurm(fake).steps(206, steps)

    assert [result.step for result in results] == steps


def test_a_step_is_bounded_in_time_and_stays_inside_its_job() -> None:
    fake = FakeSlurm()
    slurm(fake).step(206, step("gpu1", "gpu2"))

    assert fake.calls[-1][:3] == ["timeout", "--kill-after=10", "60"]
    assert {"--jobid=206", "--nodelist=gpu1,gpu2", "--nodes=2"} <= set(fake.calls[-1])


class EndingSlurm(FakeSlurm):
    """Every step fails, and the second one because its job is over."""

    def __call__(self, args: t.Sequence[str], data: str | None = None) -> tuple[int, str, str]:
        code, out, err = super().__call__(args, data)
        return (1, "", "srun: error") if args[0] == "timeout" else (code, out, err)


def test_a_step_whose_job_is_gone_did_not_fail_and_no_other_is_started() -> None:
    fake = EndingSlurm(["running", "cancelled"])
    results = slurm(fake).steps(206, [step("a"), step("a"), step("a")])

    assert [result.lost for result in results] == ["", "job 206 was CANCELLED", "job 206 was CANCELLED"]
    assert sum(call[0] == "timeout" for call in fake.calls) == 2


# The prolog of gpu3 failed, and the tasks of gpu4 had just been started. srun exited 0 both times.
ABORTED = {
    name: (FIXTURES / f"srun-aborted-{why}.txt").read_text(encoding="utf-8")
    for name, why in {"gpu3": "prolog", "gpu4": "requeue"}.items()
}


class RequeuingSlurm(FakeSlurm):
    """The prolog of a node fails after all steps were started."""

    def __call__(self, args: t.Sequence[str], data: str | None = None) -> tuple[int, str, str]:
        code, out, err = super().__call__(args, data)
        if args[0] == "timeout":
            return 0, "", ABORTED[next(arg.partition("=")[2] for arg in args if arg.startswith("--nodelist="))]
        return code, out.replace("Restarts=0", "Restarts=1"), err


# The job is "running" if it has started again.
@pytest.mark.parametrize("state", ["pending-begin", "running"])
def test_a_step_that_slurm_aborted_before_its_tasks_began_has_not_passed(state: str) -> None:
    client = slurm(RequeuingSlurm([state]))
    client.submitted = [206]
    results = client.steps(206, [step("gpu3"), step("gpu4")])

    assert [result.code for result in results] == [1, 1]
    assert [result.lost for result in results] == ["job 206 was put back into the queue"] * 2


def test_an_aborted_step_of_a_job_that_runs_has_failed() -> None:
    # It was not submitted here, and may have restarted before.
    [result] = slurm(RequeuingSlurm()).steps(206, [step("gpu4")])

    assert (result.code, result.lost) == (1, "")


def test_a_step_whose_job_slurm_does_not_know_did_not_fail() -> None:
    def answer(args: t.Sequence[str], _data: str | None = None) -> tuple[int, str, str]:
        return 1, "", "Unable to contact slurm controller"

    assert "Unable to contact" in slurm_job.Slurm(answer).step(206, step("a")).lost


def test_a_program_that_the_nodes_lack_is_no_command_of_slurm_that_is_missing() -> None:
    run = allocation.runner()

    code, out, err = run(["sh", "-c", "echo 'srun: error: Exited with exit code 127' >&2; exit 127"], None)
    assert (code, out, "exit code 127" in err) == (127, "", True)
    with pytest.raises(slurm_job.SlurmError, match="Run this where Slurm's commands are"):
        run(["no-such-srun"], None)


def test_options_are_written_as_slurm_wants_them() -> None:
    given = {"job_name": "x", "nodelist": ["a", "b"], "exclusive": True, "qos": None, "gres": "", "reboot": False}

    assert slurm_job.options(given) == ["--job-name=x", "--nodelist=a,b", "--exclusive"]


@pytest.mark.parametrize("answer", [(1, "CANCELLED by 0|0:15|gpu2\n", "no"), (0, "", ""), (0, "COMPLETED|0:0\n", "")])
def test_an_accounting_that_does_not_answer_is_not_believed(answer: tuple[int, str, str]) -> None:
    fake = FakeSlurm(["forgotten"])

    def run(args: t.Sequence[str], data: str | None = None) -> tuple[int, str, str]:
        return answer if args[0] == "sacct" else fake(args, data)

    with pytest.raises(slurm_job.SlurmError, match="Slurm does not know job 206: slurm_load_jobs error"):
        slurm_job.Slurm(run).job(206)
