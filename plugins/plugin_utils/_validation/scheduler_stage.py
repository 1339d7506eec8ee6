# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""The checks of controllers, jobs, MPI, accounting and containers."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation import outcomes

Raw = t.Mapping[str, t.Any]

_NOBODY = "no node ran a job"
_NO_COMMAND = 127


def checks(raw: Raw) -> list[outcomes.Check]:
    """Return all of them; what was not proved is said, too."""
    jobs = raw.get("job") or []
    found = outcomes.steps(jobs, "scheduler.job", "job runs")
    found += [_mpi(result) for result in raw.get("mpi") or []]
    if jobs and all(result["rc"] for result in jobs):
        found.append(outcomes.check("scheduler.mpi", "MPI over all nodes", outcomes.NOT_RUN, _NOBODY))
    for name, title in (("controllers", "controllers answer"), ("accounting", "accounting has the job")):
        if raw.get(name):
            found.append(outcomes.check(f"scheduler.{name}", title, raw[name]["status"], raw[name]["message"]))
    return found + (_containers(raw["containers"]) if raw.get("containers") else [])


def _mpi(result: Raw) -> outcomes.Check:
    """Return whether the nodes found each other through PMIx."""
    status, text = _judged(result)
    if result["rc"] == _NO_COMMAND:
        status, text = outcomes.NOT_RUN, "Open MPI's library is not installed on the nodes"
    return outcomes.check("scheduler.mpi", "MPI over all nodes", status, text)


def _judged(result: Raw) -> tuple[str, str]:
    """Return status and message of the checked program, with one process on each node."""
    nodes = len(result["nodes"])
    if result["state"] != "ok" or not result["checked"]:
        return outcomes.FAIL, result["message"] or "the program did not check its results"
    if result["world"] != nodes:
        alone = "each by itself" if result["world"] == 1 else f"as {result['world']}"
        text = f"{nodes} processes were started, but they ran {alone}: MPI and 'srun --mpi' do not fit"
        return outcomes.FAIL, text
    return outcomes.PASS, f"{nodes} node{'' if nodes == 1 else 's'} through PMIx, results right"


def _containers(raw: Raw) -> list[outcomes.Check]:
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
        return [outcomes.check(name, title, outcomes.NOT_RUN, reason) for name, title in titles.items()]
    outside = [result for result in raw["results"] if result["rc"]]
    status, text = outcomes.PASS, f"{raw['image']} on {len(raw['results'])} nodes"
    if outside:
        nodes = [node for result in outside for node in result["nodes"]]
        first = outside[0].get("lost") or outside[0]["stderr"].strip() or outside[0]["stdout"].strip()
        status, text = outcomes.FAIL, f"{', '.join(nodes[:8])}: {first or 'no output'}"
    name, title = next(iter(titles.items()))
    return [outcomes.check(name, title, status, text), _container_mpi(raw, "scheduler.container_mpi", titles)]


def _container_mpi(raw: Raw, name: str, titles: t.Mapping[str, str]) -> outcomes.Check:
    """Return whether processes inside of containers of two nodes are one MPI program."""
    if not raw["mpi"]:
        return outcomes.check(name, titles[name], outcomes.NOT_RUN, "it takes two nodes that run jobs")
    result = raw["mpi"][0]
    status, text = _judged(result)
    if result["rc"] == _NO_COMMAND:
        text = (
            f"not proved: {raw['image']} has no Python 3.7 or newer with Open MPI's library (libmpi.so.40)."
            " An image that has them shows whether PMIx works inside of containers"
        )
        status = outcomes.NOT_RUN
    return outcomes.check(name, titles[name], status, text)
