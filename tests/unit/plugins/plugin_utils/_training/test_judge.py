# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdict on a training run, from logs as the trainer writes them."""

from __future__ import annotations

import json
import math
import typing as t
from pathlib import Path

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._training import recipe as recipes
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._training import judge, plan, runs

TINY = recipes.read(plan.find("tiny"))
RECORDED = Path(__file__).parents[3] / "fixtures/training/h200_x2_gpt3_126m.jsonl"
KILLED = RECORDED.with_name("h100_two_nodes_killed.jsonl")


def line(event: str, **values: t.Any) -> str:
    return json.dumps({"event": event, "time": 1.0, **values})


def start(first: int = 1, hosts: t.Sequence[str] = ("gpu1", "gpu2"), **values: t.Any) -> str:
    about = {"device": "NVIDIA H200", "peak_tflops": 989.4, "hosts": list(hosts)}
    return line("start", first_step=first, **{**about, **values})


def step(number: int, ms: float = 100.0, loss: float | None = None) -> str:
    loss = 2 + 3.5 * math.exp(-number / 10) if loss is None else loss
    return line("step", step=number, loss=loss, step_ms=ms, compute_ms=0.8 * ms)


def run(*lines: str) -> runs.Run:
    return runs.read("\n".join(lines))


def good(**values: t.Any) -> runs.Run:
    return run(start(), *(step(number, **values) for number in range(1, 61)))


def test_speed_is_the_mean_of_the_steps_of_the_recipe() -> None:
    times = dict.fromkeys(range(1, 40), 1000.0) | {number: 100.0 + number for number in range(40, 61)}
    found = judge.speed(TINY, run(start(), *(step(n, ms) for n, ms in times.items())), ranks=2)

    assert found
    assert found["step_ms"] == pytest.approx(149.5)
    assert found["tokens_per_second_per_gpu"] == pytest.approx(32 * 64 / 0.1495 / 2)


def test_speed_of_the_seed_is_the_mean_of_its_three_steps() -> None:
    recipe = recipes.read(plan.find("gpt3_126m"))
    found = judge.speed(recipe, run(start(), *(step(n, 500 + n) for n in range(1, 201))), ranks=2)

    assert found
    assert found["step_ms_seed"] == pytest.approx(669)
    assert found["mfu"] == pytest.approx(found["tflops_per_gpu"] / 989.4)


def test_a_run_that_is_too_short_has_no_speed() -> None:
    assert judge.speed(TINY, run(start(), *(step(number) for number in range(1, 59))), ranks=2) is None
    assert judge.speed(TINY, run(), ranks=2) is None


def test_a_complete_run_passes() -> None:
    assert judge.complete(TINY, good(), "COMPLETED") == ("pass", "60 steps")


@pytest.mark.parametrize(
    ("lines", "status", "message"),
    [
        ([start(), step(1)], "fail", "ended after step 1 of 60: it is TIMEOUT"),
        ([start(), step(1), line("diverged", reason="loss is nan in step 2")], "fail", "loss is nan in step 2"),
        ([], "fail", "ended after step 0"),
    ],
)
def test_an_incomplete_run_fails(lines: list[str], status: str, message: str) -> None:
    found = judge.complete(TINY, run(*lines), "TIMEOUT")

    assert found[0] == status
    assert message in found[1]


def test_a_checkpoint_that_was_not_written_warns() -> None:
    found = run(start(), *map(step, range(1, 61)), line("checkpoint_failed", step=50, reason="No space left on device"))

    assert judge.complete(TINY, found, "COMPLETED") == (
        "warn",
        "1 checkpoints were not written, the last one: No space left on device",
    )


@pytest.mark.parametrize(("figure", "status"), [(95.0, "pass"), (94.9, "fail"), (120.0, "pass")])
def test_below_95_percent_of_the_baseline_fails(figure: float, status: str) -> None:
    assert judge.against(figure, 100.0, "run of yesterday")[0] == status


def test_nothing_is_judged_without_a_baseline() -> None:
    assert judge.against(100.0, None, "")[0] == "not_run"


def test_a_utilisation_above_one_is_a_fault_of_the_measurement() -> None:
    assert judge.plausible({"mfu": 1.2, "tflops_per_gpu": 1187.0})[0] == "fail"
    assert judge.plausible({"mfu": 0.5, "tflops_per_gpu": 495.0}) == (
        "pass",
        "495.0 TFLOP/s per GPU, 50.0% of its BF16 peak",
    )
    assert judge.plausible({"mfu": None, "tflops_per_gpu": 0.1})[0] == "not_run"


KNOWN = [
    {"kind": "measured", "hardware": "H200", "gpus": 2, "backend": "torch", "tokens_per_second_per_gpu": 500.0},
    {"kind": "measured", "hardware": "H200", "gpus": 64, "backend": "torch", "tokens_per_second_per_gpu": 450.0},
    {"kind": "measured", "hardware": "H100", "gpus": 8, "backend": "torch", "tokens_per_second_per_gpu": 400.0},
    {
        "kind": "published",
        "hardware": "H200",
        "gpus": 8,
        "backend": "torch",
        "tokens_per_second_per_gpu": 999.0,
        "source": "x",
    },
]


@pytest.mark.parametrize(
    ("gpu", "gpus", "expected"),
    [
        ("NVIDIA H200", 1, 500.0),
        ("NVIDIA H200", 8, 500.0),
        ("NVIDIA H200", 128, 450.0),
        ("NVIDIA H100 80GB", 8, 400.0),
    ],
)
def test_the_baseline_is_of_the_same_hardware(gpu: str, gpus: int, expected: float) -> None:
    found = judge.baseline(KNOWN, gpu, gpus, 4)

    assert found
    assert found["tokens_per_second_per_gpu"] == expected


def test_no_baseline_of_other_hardware_or_programs_is_taken() -> None:
    others = [{**entry, "backend": "nemo"} for entry in KNOWN]

    assert judge.baseline(others, "NVIDIA H200", 2, 4) is None
    assert judge.baseline(KNOWN, "CPU", 2, 4) is None


def test_a_baseline_of_another_micro_batch_is_not_taken() -> None:
    entry = {
        "kind": "measured",
        "backend": "torch",
        "hardware": "H200",
        "tokens_per_second_per_gpu": 4e5,
        "micro_batch": 32,
    }

    assert judge.baseline([entry], "NVIDIA H200", 1, 32) == entry
    assert judge.baseline([entry], "NVIDIA H200", 1, 4) is None


@pytest.mark.parametrize(
    ("hardware", "gpu", "same"),
    [
        ("H200", "NVIDIA H200", True),
        ("h200", "NVIDIA H200 NVL", True),
        ("H200", "NVIDIA GH200 480GB", False),
        ("H20", "NVIDIA H200", False),
        ("A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB", True),
        ("", "NVIDIA H200", False),
    ],
)
def test_a_gpu_is_known_by_its_whole_name(hardware: str, gpu: str, same: bool) -> None:
    assert judge.names(hardware, gpu) is same


def test_published_results_stand_beside() -> None:
    assert judge.anchors(KNOWN) == ["published: 999 tokens/s per GPU on 8 H200 (x)"]


def test_the_loss_must_fall() -> None:
    assert judge.loss(TINY, good())[0] == "pass"
    assert judge.loss(TINY, good(loss=5.5))[0] == "fail"
    assert judge.loss(TINY, run(start(), step(1)))[0] == "not_run"


@pytest.mark.parametrize(("band", "status"), [("last_loss", "fail"), ("first_loss", "fail")], ids=["last", "first"])
def test_the_loss_must_lie_in_its_band(band: str, status: str) -> None:
    recipe = recipes.read({**plan.find("tiny"), "proof": {**plan.find("tiny")["proof"], band: [1.0, 1.5]}})

    assert judge.loss(recipe, good())[0] == status


def recorded(speed: float = 1.0, loss: float = 0.0) -> runs.Run:
    """Return a real run of gpt3_126m on two H200, with other step times and losses on request."""
    events = [json.loads(text) for text in RECORDED.read_text(encoding="utf-8").splitlines()]
    for event in events:
        if event["event"] == "step":
            event.update(step_ms=event["step_ms"] / speed, loss=event["loss"] + loss)
    return run(*map(json.dumps, events))


@pytest.mark.parametrize(
    ("speed", "loss", "verdicts"),
    [
        pytest.param(1.0, 0.0, ("pass", "pass"), id="as-recorded"),
        pytest.param(0.94, 0.0, ("fail", "pass"), id="slow"),
        pytest.param(1.0, 0.4, ("pass", "fail"), id="loss-too-high"),
        pytest.param(1.0, -0.4, ("pass", "fail"), id="loss-too-low"),
    ],
)
def test_a_real_run_meets_the_figures_of_its_recipe(speed: float, loss: float, verdicts: tuple[str, str]) -> None:
    recipe, found = recipes.read(plan.find("gpt3_126m")), recorded(speed, loss)
    figures = judge.speed(recipe, found, ranks=2)
    known = judge.baseline(recipe.known, "NVIDIA H200", 2, 32)

    assert figures
    assert known
    assert figures["tokens_per_second_per_gpu"] == pytest.approx(439748 * speed, rel=1e-5)
    against = judge.against(figures["tokens_per_second_per_gpu"], known["tokens_per_second_per_gpu"], "")
    assert (against[0], judge.loss(recipe, found)[0]) == verdicts


def test_long_steps_are_told() -> None:
    lines = [step(number, 300.0 if number == 45 else 100.0) for number in range(1, 61)]

    assert judge.steady(TINY, good())[0] == "pass"
    assert judge.steady(TINY, run(start(), *lines)) == (
        "warn",
        "1 of 20 steps took more than 1.5 times the median of 100.0 ms; step 45 took 300.0 ms",
    )


def ranks(*rows: list[float], hosts: t.Sequence[str] = ("a", "a", "b", "b", "c", "c"), **about: t.Any) -> runs.Run:
    return run(start(hosts=hosts, **about), *(line("ranks", compute_ms=row) for row in rows))


def test_the_node_of_a_slow_rank_is_named() -> None:
    found = judge.slow_nodes(ranks([9e4] * 6, [80, 80, 80, 96, 80, 81], [80, 80, 80, 95, 80, 81]))

    assert found == {"b": "its ranks work 95.5 ms in each step, those of other nodes 80.5 ms"}


def test_noise_names_nobody() -> None:
    assert judge.slow_nodes(ranks([1] * 6, [80, 80, 80, 84, 80, 81])) == {}
    assert judge.slow_nodes(ranks([80, 90], hosts=("a", "a"))) == {}
    # CPUs share their host with others.
    assert judge.slow_nodes(ranks([1, 1], [80, 150], hosts=("a", "b"), device="CPU")) == {}
    assert list(judge.slow_nodes(ranks([1, 1], [80, 170], hosts=("a", "b"), device="CPU"))) == ["b"]


def test_one_slow_window_names_nobody() -> None:
    assert judge.slow_nodes(ranks([1] * 6, *[[80.0] * 6] * 4, [80, 80, 80, 200, 80, 80])) == {}


@pytest.mark.parametrize(("many", "status"), [(99.0, "pass"), (97.0, "pass"), (96.9, "warn"), (89.0, "fail")])
def test_scaling(many: float, status: str) -> None:
    assert judge.scaling(100.0, many, "one GPU")[0] == status


def test_scaling_without_a_smaller_run_is_not_judged() -> None:
    assert judge.scaling(None, 100.0, "one GPU")[0] == "not_run"


def resumed(begin: int, end: int = 35, again: float = 0.0) -> runs.Run:
    """Return a killed run, where all losses after its resume differ by a fraction."""
    lines = [start(), *map(step, range(1, end + 1)), start(first=begin), line("resume", step=begin - 1)]
    lines += [step(number, loss=(2 + 3.5 * math.exp(-number / 10)) * (1 + again)) for number in range(begin, 61)]
    return run(*lines)


def test_a_killed_run_that_resumes_passes() -> None:
    status, message = judge.resume(good(), resumed(31), 60)

    assert status == "pass"
    assert "killed after step 35, resumed at step 31" in message


def test_the_steps_that_were_done_twice_decide_and_not_the_final_loss() -> None:
    """A real run on two H100: its steps 51 to 55 are equal, its final loss is that of a run that has parted before."""
    disturbed = runs.read(KILLED.read_text(encoding="utf-8"))
    other = run(start(), *(step(number, loss=9.0) for number in range(1, 61)))
    status, message = judge.resume(other, disturbed, 60)

    assert status == "pass"
    assert message == (
        "killed after step 55, resumed at step 51; final loss 4.3820, undisturbed 9.0000;"
        " the loss of 5 steps that were done twice differs by at most 5.6e-06"
        "; goodput 21.6% of the 173 s from its first line to its last"
    )


def test_the_goodput_of_a_killed_run_counts_each_step_once() -> None:
    lines = [(0.0, start()), *((float(n), step(n, 1000.0)) for n in range(1, 36)), (50.0, start(first=31))]
    lines += [(float(n + 20), step(n, 1000.0)) for n in range(31, 61)]
    timed = [json.dumps({**json.loads(text), "time": 1000 + when}) for when, text in lines]

    status, message = judge.resume(good(), run(*timed), 60)

    assert status == "pass"
    assert message.endswith("; goodput 75.0% of the 80 s from its first line to its last")


@pytest.mark.parametrize("when", ["soon", None, math.inf, -1, 1e300])
def test_a_run_with_odd_times_has_no_goodput(when: t.Any) -> None:
    lines = [json.dumps({**json.loads(text), "time": when}) for text in (start(), step(1), step(2))]

    assert judge.goodput(run(*lines)) == ""


def test_a_resume_without_a_step_that_was_done_twice_proves_nothing() -> None:
    status, message = judge.resume(good(), resumed(36), 60)

    assert status == "not_run"
    assert "no step was done twice" in message


def test_a_rank_is_killed_where_a_step_is_done_twice() -> None:
    assert judge.kill_steps(60)[:3] == [30, 34, 35]
    assert {step % 10 for step in judge.kill_steps(200)} == {4, 5, 6, 7, 8, 9, 0}
    assert judge.kill_steps(12) == [10]


@pytest.mark.parametrize(
    ("disturbed", "message"),
    [
        (resumed(1), "began again from the start"),
        (resumed(21), "15 steps were lost, 10 are allowed"),
        (resumed(31, again=0.002), "differs by at most 0.002, 0.001 is allowed: step 3"),
        (resumed(31, again=math.nan), "differs by at most inf"),
        (run(start(), *map(step, range(1, 36))), "did not start again"),
        (run(start(), start(first=1), *map(step, range(1, 61))), "no rank was killed after the first step"),
        (run(start(), step(1), start(first=1), step(1)), "ended after step 1 of 60"),
    ],
)
def test_a_resume_that_is_wrong_fails(disturbed: runs.Run, message: str) -> None:
    status, found = judge.resume(good(), disturbed, 60)

    assert status == "fail"
    assert message in found


def test_a_log_that_ends_in_the_middle_of_a_line_is_read() -> None:
    found = run(start(), step(1), step(2)[:30])

    assert (found.last_step, found.broken_lines) == (1, 1)
    assert run("", "null", "[1]", "text").broken_lines == 3


def test_a_repeated_step_counts_as_repeated() -> None:
    found = run(start(), step(1, 100), step(2, 100), start(first=2), step(2, 50))

    assert found.steps[2]["step_ms"] == 50
    assert found.lost == [(2, 2)]


@pytest.mark.parametrize(
    "damaged",
    [
        *[line("step", loss=2.0, step_ms=1.0), line("step", step="N/A", loss=2.0), line("step", step=10**9, loss=2.0)],
        *[step(2, ms=-5.0), line("step", step=2, loss="0x", step_ms=1.0), line("start", hosts=["gpu1"])],
        *[line("ranks", compute_ms=[1.0, "ERR!"]), line("ranks", compute_ms=[1.0, [2.0]]), line("step", step=None)],
    ],
)
def test_an_event_with_an_unreadable_number_is_none(damaged: str) -> None:
    found = runs.read("\n".join([start(), step(1), damaged]))

    assert (found.last_step, len(found.starts), found.ranks, found.broken_lines) == (1, 1, [], 1)
