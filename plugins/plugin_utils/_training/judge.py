# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
Judge a training run by the rules of the field.

The speed is the mean of the recipe's steps and fails below 95 % of a baseline. The loss must fall and lie in its band.
A rank whose own work takes longer than that of the others names its node.
"""

from __future__ import annotations

import math
import re
import statistics
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._training import sizes

if t.TYPE_CHECKING:
    from ansible_collections.hpcai.gpucluster.plugins.module_utils._training.recipe import Recipe
    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._training.runs import Run

Raw = t.Mapping[str, t.Any]
Verdict = tuple[str, str]

PASS, WARN, FAIL, NOT_RUN = "pass", "warn", "fail", "not_run"
# A run below this fraction of its baseline has failed: NVIDIA's rule for an exemplar cloud.
LEAST_SPEED = 0.95
# Fractions of ideal scaling: below the first it warns, below the second it fails.
SCALING_WARN, SCALING_FAIL = 0.97, 0.9
# A node is slow if its ranks take longer than those of other nodes by this fraction. CPUs may be shared with others.
SLOW_GPU, SLOW_CPU = 0.1, 1.0
# The loss of a step that is done again after a resume may differ by this fraction, and so many steps may be lost. On
# two H100 it differs by 1e-5. A run as a whole is no measure: two equal runs part by 2 % within 30 steps.
RESUME_LOSS, RESUME_STEPS = 1e-3, 10
# Steps that the first rank can be ahead of its log.
_UNLOGGED = 2
# Without a band, the loss of the last steps must be below that of the first step by this fraction.
LEAST_FALL = 0.1
# A single step that takes so many times the median is told.
LONG_STEP = 1.5
# The name that the trainer gives to a device without a GPU.
CPU = "CPU"
# Steps of a run on fewer GPUs, and the first of them that is measured, after the compilation and the first allocations.
SMALL_STEPS, SMALL_FIRST = 30, 11
_WINDOW = 10


def speed(recipe: Recipe, run: Run, ranks: int, span: tuple[int, int] | None = None) -> dict[str, t.Any] | None:
    """
    Return the figures of a run: times in milliseconds, and the rates of one GPU; nothing if it is too short.

    O(span) is the first and the last measured step, by default those of the recipe.
    """
    first, last = span or (recipe.proof.first, recipe.proof.last)
    mean = run.mean(first, last)
    if not mean or not run.starts:
        return None
    rate = recipe.batch.total * recipe.model.sequence / (mean / 1000) / ranks
    measured = [run.steps[step]["step_ms"] for step in range(first, last + 1)]
    seed = [run.steps[step]["step_ms"] for step in recipe.proof.seed_steps if step in run.steps]
    return {
        "step_ms": mean,
        "step_ms_deviation": statistics.pstdev(measured),
        "step_ms_seed": statistics.fmean(seed) if seed else None,
        "tokens_per_second_per_gpu": rate,
        "tflops_per_gpu": sizes.tflops(recipe.model, rate),
        "mfu": sizes.mfu(recipe.model, rate, run.starts[-1].get("peak_tflops")),
    }


def complete(recipe: Recipe, run: Run, state: str) -> Verdict:
    """Judge whether the run came to its last step."""
    if run.diverged:
        return FAIL, str(run.diverged.get("reason") or "the loss is no number")
    if run.last_step < recipe.proof.steps:
        return FAIL, f"the job ended after step {run.last_step} of {recipe.proof.steps}: it is {state}"
    if run.failed_checkpoints:
        last = run.failed_checkpoints[-1]
        return WARN, f"{len(run.failed_checkpoints)} checkpoints were not written, the last one: {last.get('reason')}"
    again = f", after {len(run.starts) - 1} restarts" if len(run.starts) > 1 else ""
    return PASS, f"{recipe.proof.steps} steps{again}"


def against(figure: float, baseline: float | None, source: str) -> Verdict:
    """Judge tokens/s per GPU by a baseline; without one, nothing is judged."""
    if not baseline:
        return NOT_RUN, f"{figure:,.0f} tokens/s per GPU, but no baseline is known for this hardware and software"
    part = figure / baseline
    text = f"{figure:,.0f} tokens/s per GPU, {part:.1%} of {baseline:,.0f} ({source})"
    return (PASS if part >= LEAST_SPEED else FAIL), text


def plausible(figures: Raw) -> Verdict:
    """Judge the utilisation: above 1 the clock or the formula is wrong."""
    use = figures["mfu"]
    if use is None:
        return NOT_RUN, f"{figures['tflops_per_gpu']:.3g} TFLOP/s, but the peak of the device is unknown"
    text = f"{figures['tflops_per_gpu']:.1f} TFLOP/s per GPU, {use:.1%} of its BF16 peak"
    return (PASS if 0 < use < 1 else FAIL), text


def baseline(known: t.Iterable[Raw], gpu: str, gpus: int, micro_batch: int) -> Raw | None:
    """
    Return the result of this trainer that was measured on this hardware, with the nearest number of GPUs.

    A result that names its micro-batch is not compared with a run with another one.
    """
    found = [
        entry
        for entry in known
        if entry.get("kind") == "measured"
        and entry.get("backend") == "torch"
        and entry.get("tokens_per_second_per_gpu")
        and entry.get("micro_batch") in (None, micro_batch)
        and names(str(entry.get("hardware", "")), gpu)
    ]
    return min(found, key=lambda entry: abs(math.log(entry.get("gpus", 1) / max(1, gpus))), default=None)


def names(hardware: str, gpu: str) -> bool:
    """Return whether the name of a GPU has the words of the hardware: GH200 is no H200, and H200 is no H20."""
    return bool(hardware and re.search(rf"\b{re.escape(hardware)}\b", gpu, re.IGNORECASE))


def software(known: Raw, torch: str) -> str:
    """Return the source of a baseline, and its version of PyTorch if the run has another one."""
    source, before = str(known.get("source")), str(known.get("torch") or "")
    same = before.split(".")[:2] == torch.split(".")[:2]
    return source if same or not before else f"{source} with torch {before}; this run has {torch}"


def anchors(known: t.Iterable[Raw]) -> list[str]:
    """Return the published results as sentences; they decide nothing."""
    found = []
    for entry in known:
        figure = entry.get("tokens_per_second_per_gpu")
        if entry.get("kind") in ("published", "derived") and figure:
            where = f"{entry.get('gpus', '?')} {entry.get('hardware')}"
            found.append(f"{entry['kind']}: {figure:,.0f} tokens/s per GPU on {where} ({entry.get('source')})")
    return found


def loss(recipe: Recipe, run: Run) -> Verdict:
    """Judge the curve of the loss: the first step, the fall, and the mean of the last steps."""
    if run.last_step < recipe.proof.steps or 1 not in run.steps:
        return NOT_RUN, "the run is not complete"
    begin = float(run.steps[1]["loss"])
    end = run.mean(max(1, run.last_step - _WINDOW + 1), run.last_step, "loss")
    if end is None:
        return FAIL, "steps are missing in the log"
    text = f"{begin:.3f} in step 1, {end:.3f} in the last {_WINDOW} steps"
    for name, value, band in (("first", begin, recipe.proof.first_loss), ("last", end, recipe.proof.last_loss)):
        if band and not band[0] <= value <= band[1]:
            return FAIL, f"{text}; the {name} must be between {band[0]:g} and {band[1]:g}"
    if end > begin * (1 - LEAST_FALL):
        return FAIL, f"{text}; it must fall by {LEAST_FALL:.0%} or more"
    return PASS, text


def steady(recipe: Recipe, run: Run) -> Verdict:
    """Judge whether single steps take much longer than most."""
    times = {
        step: run.steps[step]["step_ms"]
        for step in range(recipe.proof.first, recipe.proof.last + 1)
        if step in run.steps
    }
    if not times:
        return NOT_RUN, "no step was measured"
    usual = statistics.median(times.values())
    long = {step: time for step, time in times.items() if time > LONG_STEP * usual}
    if not long:
        return PASS, f"median {usual:.1f} ms, longest {max(times.values()):.1f} ms"
    worst = max(long, key=long.__getitem__)
    text = f"{len(long)} of {len(times)} steps took more than {LONG_STEP} times the median of {usual:.1f} ms"
    return WARN, f"{text}; step {worst} took {long[worst]:.1f} ms"


def node_times(run: Run) -> dict[str, float]:
    """Return by node the median of its slowest rank's own time, in milliseconds, over all windows."""
    hosts, found = run.hosts, dict[str, list[float]]()
    for event in run.ranks:
        times = event.get("compute_ms") or []
        if len(times) != len(hosts):
            continue
        for host in dict.fromkeys(hosts):
            found.setdefault(host, []).append(max(time for time, at in zip(times, hosts) if at == host))
    # The first window has the compilation and the first allocations.
    return {host: statistics.median(times[1:] or times) for host, times in found.items()}


def slow_nodes(run: Run) -> dict[str, str]:
    """Return the nodes whose ranks work longer than those of the others, each with a sentence."""
    times = node_times(run)
    if len(times) < 2:
        return {}
    cpu = run.starts[-1].get("device") == CPU
    found = {}
    for host, time in times.items():
        # With two nodes, the other one is the measure.
        usual = statistics.median(value for other, value in times.items() if other != host)
        if time > usual * (1 + (SLOW_CPU if cpu else SLOW_GPU)):
            found[host] = f"its ranks work {time:.1f} ms in each step, those of other nodes {usual:.1f} ms"
    return found


def small_span(recipe: Recipe) -> tuple[int, int]:
    """Return the measured steps of a run on fewer GPUs, where each step takes longer."""
    last = min(recipe.proof.steps, SMALL_STEPS)
    return min(SMALL_FIRST, last), last


def efficiency(one: float, many: float) -> float:
    """Return the scaling efficiency from tokens/s per GPU on few and on many GPUs."""
    return many / one


def scaling(one: float | None, many: float, what: str, device: str = "") -> Verdict:
    """Judge the efficiency against a smaller run. CPUs may be shared with others, so theirs is told and not judged."""
    if not one:
        return NOT_RUN, f"no run on {what} was made"
    part = efficiency(one, many)
    text = f"{part:.1%} of the tokens/s per GPU of {what} ({one:,.0f})"
    if device == CPU:
        return NOT_RUN, f"{text}; the efficiency of CPUs is not judged"
    return (PASS if part >= SCALING_WARN else WARN if part >= SCALING_FAIL else FAIL), text


def kill_steps(steps: int) -> list[int]:
    """Return the steps of the second half at which a killed run has a checkpoint, and a logged step after it."""
    half = range(steps // 2, steps - 1)
    return [step for step in half if step > RESUME_STEPS and (step - 1) % RESUME_STEPS > _UNLOGGED] or list(half[-1:])


def resume(undisturbed: Run, disturbed: Run, steps: int) -> Verdict:
    """
    Judge a run that was killed and started again, by the steps that it did twice.

    The final loss is told beside that of a run that was not killed, and decides nothing.
    """
    if len(disturbed.starts) < 2:
        return FAIL, "the killed run did not start again"
    if disturbed.last_step < steps:
        return FAIL, f"the killed run ended after step {disturbed.last_step} of {steps}"
    if not disturbed.lost:
        return FAIL, "no rank was killed after the first step, so nothing is proved"
    begin, before = max(disturbed.lost, key=lambda attempt: attempt[1] - attempt[0])
    back = before - begin + 1
    expected, found = undisturbed.steps[steps]["loss"], disturbed.steps[steps]["loss"]
    text = f"killed after step {before}, resumed at step {begin}; final loss {found:.4f}, undisturbed {expected:.4f}"
    if begin == 1:
        return FAIL, f"{text}; it began again from the start"
    if back > RESUME_STEPS:
        return FAIL, f"{text}; {back} steps were lost, {RESUME_STEPS} are allowed"
    if not disturbed.repeated:
        return NOT_RUN, f"{text}; no step was done twice, so no loss can be compared"
    first, again = max(disturbed.repeated, key=_difference)
    part = _difference((first, again))
    text = f"{text}; the loss of {len(disturbed.repeated)} steps that were done twice differs by at most {part:.2g}"
    if part > RESUME_LOSS:
        values = f"step {again['step']} had {first['loss']:.6g}, then {again['loss']:.6g}"
        return FAIL, f"{text}, {RESUME_LOSS:g} is allowed: {values}"
    return PASS, f"{text}{goodput(disturbed)}"


def goodput(run: Run) -> str:
    """Return which share of the time of a run went into steps that stayed, in words; nothing if it is not known."""
    seconds = (run.ended or 0) - (run.begun or 0)
    useful = sum(float(event["step_ms"]) for event in run.steps.values()) / 1000
    if not 0 < useful <= seconds:
        return ""
    return f"; goodput {useful / seconds:.1%} of the {seconds:.0f} s from its first line to its last"


def _difference(done: tuple[Raw, Raw]) -> float:
    """Return by which fraction the loss of a step differs from that of its first time."""
    first, again = (float(event["loss"]) for event in done)
    part = abs(again - first) / abs(first) if first else abs(again)
    return math.inf if math.isnan(part) else part
