# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""The stage C(scheduler): controllers answer, and jobs, MPI, accounting and containers work."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._slurm import output
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation import choice, measurement, step_checks
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation.checks import (
    FAIL,
    NOT_RUN,
    PASS,
    Check,
    check,
)
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation.session import Session, StoppedError

Raw = t.Mapping[str, t.Any]

_NOBODY = "no node ran a job"
_NO_COMMAND = 127
# Maximum number of queries for a job in accounting, one second apart, because slurmdbd may need a moment.
_ASKED = 10
# A node without the plugin runs the command outside the container and reports nothing. An unprivileged container
# has its own user IDs.
_INSIDE = (
    "read -r inside outside count < /proc/self/uid_map;"
    ' [ "$count" != 4294967295 ] || { echo not in a container >&2; exit 1; }'
)
# The words after it are the program; an image without Python proves nothing.
_MPI_OF_IMAGE = 'python3 -c "import sys; sys.exit(sys.version_info < (3, 7))" 2> /dev/null || exit 127; exec "$0" "$@"'


def measure(session: Session, raw: dict[str, t.Any], silent: t.Collection[str]) -> None:
    """Run jobs, an MPI program and containers. Later steps use only nodes that ran a job."""
    choice.need(session, silent)
    raw["controllers"] = _controllers(session)
    session.say(f"run a job on each of {len(session.taken)} nodes")
    job = session.job(
        "hpcai.gpucluster.slurm_job", nodelist=session.taken, command=["true"], each_node=True, timeout=60
    )
    raw["job"] = job["results"]
    session.nodes.taken = [name for result in job["results"] if result["rc"] == 0 for name in result["nodes"]]
    if session.taken:
        session.say(f"run an MPI program over {len(session.taken)} nodes")
        raw["mpi"] = measurement.checked_mpi(session, session.taken)
    if job.get("job_id"):
        raw["accounting"] = _accounting(session, job["job_id"])
    image = session.settings["container_image"]
    # Only the help of srun lists options of plugins.
    plugin = "container-image" in session.ask("srun", "--help").get("stdout", "")
    raw["containers"] = {"plugin": plugin, "image": image, "results": [], "mpi": []}
    if plugin and image and session.taken:
        _measure_containers(session, image, raw["containers"])


def _controllers(session: Session) -> dict[str, str]:
    """Return which controllers answer. The exit status of C(scontrol ping) differs between releases."""
    found = session.ask("scontrol", "ping")
    lines = [line for line in found["stdout"].splitlines() if line.startswith("Slurmctld")]
    if not lines:
        raise StoppedError(f"scontrol ping: {found['stderr'].strip() or 'no output'}")
    said = ", ".join(re.sub(r"^Slurmctld\((.+)\) at (\S+)", r"\2 (\1)", line) for line in lines)
    return {"status": FAIL if " is DOWN" in found["stdout"] else PASS, "message": said}


def _accounting(session: Session, number: int) -> dict[str, str]:
    """Return whether accounting contains a job. No module reads accounting."""
    wanted = ("sacct", "--noheader", "--allocations", "--parsable2", f"--jobs={number}", "--format=JobID")
    for attempt in range(_ASKED + 1):
        found = session.ask(*wanted)
        if found["rc"] or found["stdout"].strip() or attempt == _ASKED:
            break
        session.pause(1)
    if found["stdout"].strip():
        return {"status": PASS, "message": f"job {number}"}
    if "disabled" in found["stderr"]:
        return {"status": NOT_RUN, "message": "accounting is off"}
    return {"status": FAIL, "message": found["stderr"].strip() or "sacct does not know the job"}


def _measure_containers(session: Session, image: str, raw: dict[str, t.Any]) -> None:
    """Run a container on each node, and an MPI program between containers of two nodes."""
    session.say(f"run a container on each of {len(session.taken)} nodes")
    raw["results"] = session.job(
        "hpcai.gpucluster.slurm_job",
        nodelist=session.taken,
        command=["sh", "-c", _INSIDE],
        each_node=True,
        step_options=[f"--container-image={image}"],
    )["results"]
    if len(session.taken) > 1:
        session.say("run an MPI program between containers of two nodes")
        inside = ["sh", "-c", f"{_INSIDE}; {_MPI_OF_IMAGE}"]
        mounts = session.settings["container_mounts"]
        raw["mpi"] = measurement.checked_mpi(
            session, session.taken[:2], inside, container_image=image, container_mounts=mounts
        )


def judge(raw: Raw) -> dict[str, t.Any]:
    """Return the checks of controllers, jobs, MPI, accounting and containers."""
    return {"checks": checks(raw)}


def checks(raw: Raw) -> list[Check]:
    """Return all checks, including a note about what was not proved."""
    jobs = raw.get("job") or []
    found = step_checks.steps(jobs, "scheduler.job", "job runs")
    found += [_mpi(result) for result in raw.get("mpi") or []]
    if jobs and all(result["rc"] for result in jobs):
        found.append(check("scheduler.mpi", "MPI over all nodes", NOT_RUN, _NOBODY))
    for name, title in (("controllers", "controllers answer"), ("accounting", "accounting has the job")):
        if raw.get(name):
            found.append(check(f"scheduler.{name}", title, raw[name]["status"], raw[name]["message"]))
    return found + (_containers(raw["containers"]) if raw.get("containers") else [])


def _mpi(result: Raw) -> Check:
    """Return whether the nodes connect through PMIx."""
    status, text = _judged(result)
    if result["rc"] == _NO_COMMAND:
        status, text = NOT_RUN, "Open MPI's library is not installed on the nodes"
    return check("scheduler.mpi", "MPI over all nodes", status, text)


def _judged(result: Raw) -> tuple[str, str]:
    """Return status and message of the self-checking program, with one process on each node."""
    nodes = len(result["nodes"])
    if result["state"] != "ok" or not result["checked"]:
        return FAIL, result["message"] or "the program did not check its results"
    if result["world"] != nodes:
        alone = "each by itself" if result["world"] == 1 else f"as {result['world']}"
        text = f"{nodes} processes were started, but they ran {alone}: MPI and 'srun --mpi' do not fit"
        return FAIL, text
    return PASS, f"{nodes} node{'' if nodes == 1 else 's'} through PMIx, results right"


def _containers(raw: Raw) -> list[Check]:
    """Return whether containers start on every node, and whether MPI works between two of them."""
    reason = (
        "pyxis is not installed"
        if not raw["plugin"]
        else "validate_container_image is empty"
        if not raw["image"]
        else ""
        if raw["results"]
        else _NOBODY
    )
    titles = {"scheduler.container": "container job", "scheduler.container_mpi": "MPI between two containers"}
    if reason:
        return [check(name, title, NOT_RUN, reason) for name, title in titles.items()]
    outside = [result for result in raw["results"] if result["rc"]]
    status, text = PASS, f"{raw['image']} on {len(raw['results'])} nodes"
    if outside:
        nodes = [node for result in outside for node in result["nodes"]]
        first = outside[0].get("lost") or output.cause(outside[0]["stderr"], outside[0]["stdout"])
        status, text = FAIL, f"{', '.join(nodes[:8])}: {first or 'no output'}"
    name, title = next(iter(titles.items()))
    return [check(name, title, status, text), _container_mpi(raw, "scheduler.container_mpi", titles)]


def _container_mpi(raw: Raw, name: str, titles: t.Mapping[str, str]) -> Check:
    """Return whether processes in containers on two nodes form one MPI program."""
    if not raw["mpi"]:
        return check(name, titles[name], NOT_RUN, "it takes two nodes that run jobs")
    result = raw["mpi"][0]
    status, text = _judged(result)
    if result["rc"] == _NO_COMMAND:
        text = (
            f"not proved: {raw['image']} has no Python 3.7 or newer with Open MPI's library (libmpi.so.40)."
            " An image that has them shows whether PMIx works inside of containers"
        )
        status = NOT_RUN
    return check(name, titles[name], status, text)
