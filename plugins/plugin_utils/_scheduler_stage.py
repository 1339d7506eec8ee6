# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""The checks of controllers, jobs, MPI, accounting and containers."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils import _checks

Raw = t.Mapping[str, t.Any]

_NOBODY = "no node ran a job"
_NO_COMMAND = 127


def checks(raw: Raw) -> list[_checks.Check]:
    """Return all of them; what was not proved is said, too."""
    jobs = raw.get("job") or []
    found = _checks.steps(jobs, "scheduler.job", "job runs")
    found += [_mpi(result) for result in raw.get("mpi") or []]
    if jobs and all(result["rc"] for result in jobs):
        found.append(_checks.check("scheduler.mpi", "MPI over all nodes", _checks.NOT_RUN, _NOBODY))
    for name, title in (("controllers", "controllers answer"), ("accounting", "accounting has the job")):
        if raw.get(name):
            found.append(_checks.check(f"scheduler.{name}", title, raw[name]["status"], raw[name]["message"]))
    return found + (_containers(raw["containers"]) if raw.get("containers") else [])


def _mpi(result: Raw) -> _checks.Check:
    """Return whether the nodes found each other through PMIx."""
    status, text = _judged(result)
    if result["rc"] == _NO_COMMAND:
        status, text = _checks.NOT_RUN, "Open MPI's library is not installed on the nodes"
    return _checks.check("scheduler.mpi", "MPI over all nodes", status, text)


def _judged(result: Raw) -> tuple[str, str]:
    """Return status and message of the checked program, with one process on each node."""
    nodes = len(result["nodes"])
    if result["state"] != "ok" or not result["checked"]:
        return _checks.FAIL, result["message"] or "the program did not check its results"
    if result["world"] != nodes:
        alone = "each by itself" if result["world"] == 1 else f"as {result['world']}"
        text = f"{nodes} processes were started, but they ran {alone}: MPI and 'srun --mpi' do not fit"
        return _checks.FAIL, text
    return _checks.PASS, f"{nodes} node{'' if nodes == 1 else 's'} through PMIx, results right"


def _containers(raw: Raw) -> list[_checks.Check]:
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
        return [_checks.check(name, title, _checks.NOT_RUN, reason) for name, title in titles.items()]
    outside = [result for result in raw["results"] if result["rc"]]
    status, text = _checks.PASS, f"{raw['image']} on {len(raw['results'])} nodes"
    if outside:
        nodes = [node for result in outside for node in result["nodes"]]
        first = outside[0].get("lost") or outside[0]["stderr"].strip() or outside[0]["stdout"].strip()
        status, text = _checks.FAIL, f"{', '.join(nodes[:8])}: {first or 'no output'}"
    name, title = next(iter(titles.items()))
    return [_checks.check(name, title, status, text), _container_mpi(raw, "scheduler.container_mpi", titles)]


def _container_mpi(raw: Raw, name: str, titles: t.Mapping[str, str]) -> _checks.Check:
    """Return whether processes inside of containers of two nodes are one MPI program."""
    if not raw["mpi"]:
        return _checks.check(name, titles[name], _checks.NOT_RUN, "it takes two nodes that run jobs")
    result = raw["mpi"][0]
    status, text = _judged(result)
    if result["rc"] == _NO_COMMAND:
        text = (
            f"not proved: {raw['image']} has no Python 3.7 or newer with Open MPI's library (libmpi.so.40)."
            " An image that has them shows whether PMIx works inside of containers"
        )
        status = _checks.NOT_RUN
    return _checks.check(name, titles[name], status, text)
