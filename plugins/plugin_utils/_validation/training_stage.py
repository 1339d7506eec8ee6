# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""The stage C(training): a user's job trains a model by a recipe; speed, loss and ranks are judged."""

from __future__ import annotations

import base64
import random
import re
import time
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._slurm import output
from ansible_collections.hpcai.gpucluster.plugins.module_utils._training import recipe as recipes
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._training import judge as rules
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._training import plan, runs
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation import choice, figure_checks
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation.checks import FAIL, WARN, Check, check
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation.session import Session, StoppedError

Raw = t.Mapping[str, t.Any]

# Seconds between two looks at a job, and steps between two lines of progress.
_LOOK = 3
# What the trainer writes while all is well.
_WELL = re.compile(r"^(\S+: [\d,]+ parameters,|step \d+/|checkpoint of step|resumed from step).*$", re.MULTILINE)
_WAITING = ("PENDING", "CONFIGURING", "REQUEUED")
_ALIVE = (*_WAITING, "RUNNING", "COMPLETING", "SUSPENDED", "STOPPED")
# The runs of a stage, with what the report calls them.
RUNS = {"all": "on all nodes", "killed": "with a killed rank", "one": "on one GPU", "node": "on one node"}


def measure(session: Session, raw: dict[str, t.Any], silent: t.Collection[str]) -> None:
    """Train on all nodes; where it is wanted, also with a fault and on fewer GPUs."""
    settings = session.settings.get("training") or {}
    if not settings:
        raise StoppedError("the role training did not run, which describes the job")
    if settings.get("user") in (None, "", "root"):
        raise StoppedError(
            "training_user: found root or nothing; allowed: another user, because a checkpoint can contain programs"
        )
    choice.need(session, silent)
    nodes, tasks = session.taken, int(settings["tasks_per_node"])
    made = _plan(session, len(nodes), tasks)
    raw.update(recipe=made.raw, ranks=made.ranks, runs={})
    raw["asked"] = [name for name in ("resume", "scaling") if settings.get(f"prove_{name}")]
    _train(session, raw, "all", nodes, tasks)
    if runs.read(raw["runs"]["all"]["log"]).last_step < made.recipe.proof.steps:
        return
    if "resume" in raw["asked"]:
        step = random.SystemRandom().choice(rules.kill_steps(made.recipe.proof.steps))
        fault = f"--checkpoint-every={rules.RESUME_STEPS} --fault=kill:{step}:{made.ranks - 1}"
        _train(session, raw, "killed", nodes, tasks, fault)
    if "scaling" in raw["asked"] and made.ranks > 1:
        _smaller(session, raw, nodes, tasks)


def _smaller(session: Session, raw: dict[str, t.Any], nodes: list[str], tasks: int) -> None:
    """Train a few steps on one GPU and on one node, if the recipe allows that."""
    _first, steps = rules.small_span(recipes.read(raw["recipe"]))
    for kind, count in (("one", 1), ("node", tasks)):
        if (kind == "node" and (tasks == 1 or len(nodes) == 1)) or kind in raw["runs"]:
            continue
        try:
            _plan(session, 1, count)
        except StoppedError as exc:
            raw["runs"][kind] = {"log": "", "state": f"not possible: {exc}"}
            continue
        _train(session, raw, kind, nodes[:1], count, f"--steps={steps}", steps)


def _plan(session: Session, nodes: int, tasks: int) -> plan.Plan:
    settings = session.settings["training"]
    try:
        return plan.plan(
            settings["recipe"],
            nodes=nodes,
            tasks_per_node=tasks,
            own=settings.get("own"),
            changes=settings.get("changes") or (),
            gpu=session.record.get("gpus"),
        )
    except plan.PlanError as exc:
        raise StoppedError(str(exc)) from exc


def _train(
    session: Session,
    raw: dict[str, t.Any],
    kind: str,
    nodes: list[str],
    tasks: int,
    arguments: str = "",
    steps: int | None = None,
) -> None:
    """Submit the job script as a job of the user, follow its log, and keep it; O(steps) are those of the recipe."""
    settings = session.settings["training"]
    user = settings["user"]
    directory = (
        f"{settings['directory']}/runs/{user}/validation-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{kind}"
    )
    session.say(f"train {settings['recipe']} {RUNS[kind]}: {len(nodes) * tasks} tasks, log in {directory}")
    # As the user: in a directory of a user, root would follow links of that user.
    made = session.ask("runuser", "-u", user, "--", "mkdir", "--mode=0700", "--", directory)
    if made["rc"] != 0:
        raise StoppedError(f"{user} cannot make {directory}: {made.get('stderr') or made.get('stdout')}")
    number = _submit(session, directory, nodes, tasks, arguments)
    found: dict[str, t.Any] = {"log": "", "state": "UNKNOWN", "job": number, "directory": directory}
    raw["runs"][kind] = found
    try:
        steps = steps or _steps(raw)
        _follow(session, found, nodes, steps)
        if runs.read(found["log"]).last_step < steps:
            found["output"] = _output(session, found)
    except BaseException:
        session.ask("scancel", "--quiet", str(number))
        raise


def _output(session: Session, found: Raw) -> str:
    """Return why a job ended early, as it printed it."""
    return cause(_log(session, found, "slurm.log", 0)["text"])


def _log(session: Session, found: Raw, name: str, offset: int) -> Raw:
    """Return what the job has written to a file since an earlier look, with the rights of its user."""
    user = session.settings["training"]["user"]
    path = f"{found['directory']}/{name}"
    return session.run("hpcai.gpucluster.training_log_info", path=path, offset=offset, user=user)


def cause(text: str) -> str:
    """Return the line in the output of a job that says why it ended early."""
    return output.cause(_WELL.sub("", text))


def _steps(raw: Raw) -> int:
    return int((raw["recipe"].get("proof") or {}).get("steps", 200))


def _submit(session: Session, directory: str, nodes: list[str], tasks: int, arguments: str) -> int:
    settings = session.settings
    training = settings["training"]
    script = session.run("ansible.builtin.slurp", path=training["script"])["content"]
    options = {
        "uid": training["user"],
        "ntasks_per_node": tasks,
        "export": f"ALL,GPUCLUSTER_RUN={directory},GPUCLUSTER_ARGUMENTS={arguments}",
        "chdir": "/",
        **settings["submit_options"],
    }
    session.submits = True
    found = session.run(
        "hpcai.gpucluster.slurm_job",
        state="started",
        name="gpucluster-validate",
        partition=settings["partition"] or None,
        time_limit=settings["time_limit"],
        pending_timeout=settings["pending_timeout"],
        nodelist=nodes,
        script=base64.b64decode(script).decode(),
        output=f"{directory}/slurm.log",
        submit_options={name: value for name, value in options.items() if value is not None},
    )
    return int(found["job_id"])


def _follow(session: Session, found: dict[str, t.Any], nodes: t.Sequence[str], steps: int) -> None:
    """Read the log until the job has ended, and tell every tenth part of the steps."""
    offset, told = 0, 0
    # A job may run again as often as its script allows; each time has the time limit.
    deadline = time.monotonic() + 60 * session.settings["time_limit"] * 2
    while True:
        state = _state(session, found["job"])
        news = _log(session, found, "log.jsonl", offset)
        offset = news["offset"]
        found["log"] += news["text"]
        found["state"] = state or found["state"]
        told = _tell(session, runs.read(found["log"]), steps, told)
        if state not in _ALIVE:
            return
        # A job that went back into the queue waits for its nodes for ever.
        if state in _WAITING and (why := session.stopped(nodes)):
            raise StoppedError(f"job {found['job']} waits, and was cancelled: {why}")
        if time.monotonic() > deadline:
            session.ask("scancel", "--quiet", str(found["job"]))
            raise StoppedError(f"job {found['job']} did not end in time and was cancelled")
        session.pause(_LOOK)


def _state(session: Session, number: int) -> str:
    """Return the state of a job. A requeued job waits two minutes by default, which nobody needs here."""
    answer = session.ask("squeue", "--noheader", "--states=all", f"--jobs={number}", "--format=%T %r")
    state, _space, reason = str(answer.get("stdout", "")).strip().partition(" ")
    if state == "PENDING" and reason == "BeginTime":
        session.ask("scontrol", "update", f"jobid={number}", "starttime=now")
    return state


def _tell(session: Session, run: runs.Run, steps: int, told: int) -> int:
    """Print a line for each tenth part of the steps."""
    part = run.last_step * 10 // steps
    if run.last_step and (part > told or not told):
        last = run.steps[run.last_step]
        left = (steps - run.last_step) * last["step_ms"] / 1000
        session.say(
            f"step {run.last_step} of {steps}: loss {last['loss']:.4f}, {last['tokens_per_second']:,.0f} tokens/s,"
            f" {int(left // 60)} min {int(left % 60)} s left"
        )
    return max(part, 1) if run.last_step else told


def judge(raw: Raw) -> dict[str, t.Any]:
    """Return the checks of a training run, and what the report shows of it."""
    recipe = recipes.read(raw["recipe"])
    found = {kind: runs.read(item["log"]) for kind, item in raw["runs"].items()}
    run = found["all"]
    figures = rules.speed(recipe, run, raw["ranks"])
    checks = [_check("complete", "runs to its last step", _complete(recipe, run, raw["runs"]["all"]))]
    checks += [_check("loss", "loss falls", rules.loss(recipe, run))]
    notes = rules.anchors(recipe.known)
    if figures:
        checks += _speed(recipe, run, raw, figures)
    checks += [_check("steady", "steps take the same time", rules.steady(recipe, run))]
    checks += [check("training.node", "works as fast as the others", FAIL, text, name) for name, text in _slow(run)]
    checks += [*_proofs(recipe, found, figures, raw)]
    return {"checks": checks, "notes": notes, "training": _shown(raw, recipe, run, figures)}


def _complete(recipe: t.Any, run: runs.Run, item: Raw) -> rules.Verdict:
    """Return whether a run came to its end; if not, with what the job printed last."""
    status, text = rules.complete(recipe, run, item["state"])
    return status, f"{text}; it printed: {item['output']}" if item.get("output") and not run.diverged else text


def _proofs(recipe: t.Any, found: t.Mapping[str, runs.Run], figures: Raw | None, raw: Raw) -> t.Iterator[Check]:
    """Yield what the other runs prove. A proof that was asked for and could not be made has not run."""
    asked, missing = raw.get("asked") or (), (rules.NOT_RUN, "the run on all nodes did not come to its end")
    if "killed" in found:
        verdict = rules.resume(found["all"], found["killed"], recipe.proof.steps)
        yield _check("resume", "a killed run resumes", verdict)
    elif "resume" in asked:
        yield _check("resume", "a killed run resumes", missing)
    for kind in ("one", "node"):
        if kind in found and figures:
            yield _scaling(recipe, found, figures, kind, raw["runs"][kind])
    if "scaling" in asked and not (figures and {"one", "node"} & found.keys()):
        alone = (rules.NOT_RUN, "there is one rank, and nothing smaller to compare with")
        yield _check("scaling", "scaling", missing if raw["ranks"] > 1 else alone)


def _slow(run: runs.Run) -> list[tuple[str, str]]:
    """Return the slow nodes with a sentence for each, the slowest first."""
    return sorted(rules.slow_nodes(run).items(), key=lambda item: -rules.node_times(run)[item[0]])


def _speed(recipe: t.Any, run: runs.Run, raw: Raw, figures: Raw) -> list[Check]:
    """Return the checks of the speed: against a baseline of this hardware, and its plausibility."""
    about = run.starts[-1]
    known = rules.baseline(recipe.known, str(about.get("device")), raw["ranks"], recipe.batch.micro)
    limit = float(known["tokens_per_second_per_gpu"]) if known else None
    figure = figures["tokens_per_second_per_gpu"]
    source = rules.software(known, str(about.get("torch"))) if known else ""
    speed = _check("speed", "tokens per second of a GPU", rules.against(figure, limit, source))
    speed.update(measured=figure, unit="tokens/s")
    if limit:
        speed.update(figure_checks.limited(figure, rules.LEAST_SPEED * limit))
    return [speed, _check("mfu", "utilisation", rules.plausible(figures))]


def _scaling(recipe: t.Any, found: t.Mapping[str, runs.Run], figures: Raw, kind: str, item: Raw) -> Check:
    """Return the check of the efficiency against a smaller run."""
    run = found[kind]
    small = rules.speed(recipe, run, max(1, len(run.hosts)), rules.small_span(recipe))
    verdict = rules.scaling(
        small["tokens_per_second_per_gpu"] if small else None,
        figures["tokens_per_second_per_gpu"],
        {"one": "one GPU", "node": "one node"}[kind],
        str(found["all"].starts[-1].get("device")),
    )
    if not small and not item["state"].startswith("not possible"):
        why = f"; it printed: {item['output']}" if item.get("output") else ""
        verdict = (WARN, f"the run {RUNS[kind]} ended too early: it is {item['state']}{why}")
    elif not small:
        verdict = (verdict[0], item["state"])
    return _check(f"scaling.{kind}", f"scaling {RUNS[kind]}", verdict)


def _check(name: str, title: str, verdict: rules.Verdict) -> Check:
    return check(f"training.{name}", title, verdict[0], verdict[1])


def _shown(raw: Raw, recipe: t.Any, run: runs.Run, figures: Raw | None) -> dict[str, t.Any]:
    """Return the data of curves and of the map of ranks."""
    return {
        "recipe": recipe.name,
        "ranks": raw["ranks"],
        "hosts": run.hosts,
        "device": run.starts[-1].get("device") if run.starts else None,
        "torch": run.starts[-1].get("torch") if run.starts else None,
        "figures": figures,
        "steps": [[step, event["loss"], event["step_ms"]] for step, event in sorted(run.steps.items())],
        "windows": [[event.get("last_step"), event.get("compute_ms")] for event in run.ranks],
        "resumed": [begin for begin, _before in run.lost],
        "jobs": {kind: item.get("job") for kind, item in raw["runs"].items()},
    }
