# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Run the programs that measure bandwidth: nccl-tests between GPUs, or MPI between CPUs on nodes without GPUs."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._hardware import record as _paths

if t.TYPE_CHECKING:
    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation.session import Session

Results = list[dict[str, t.Any]]

# Waiting ranks yield the CPU, because nodes may share it. UCX, if present, is also used on plain networks.
_MPI_ENVIRONMENT = {
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "OMPI_MCA_pml_ucx_priority": "90",
    "OMPI_MCA_opal_common_ucx_tls": "any",
    "OMPI_MCA_opal_common_ucx_devices": "any",
}
NOTES = {
    "nccl": "",
    "mpi": "No GPU took part. The figures are those of MPI between CPUs and prove nothing about GPUs or NCCL.",
}


def program(session: Session) -> str:
    """Return the measuring program: C(nccl) or C(mpi)."""
    wanted = str(session.settings["program"])
    return wanted if wanted != "auto" else "nccl" if session.gpus else "mpi"


def image(session: Session) -> str:
    """Return the image in which the program runs, if there is one."""
    return str(session.settings["container_image"]) if program(session) == "nccl" else ""


def run(session: Session, kind: str, groups: t.Sequence[t.Sequence[str]], **more: t.Any) -> Results:
    """Return the bandwidth of groups of nodes; O(more) are additional arguments of the module."""
    settings = session.settings
    most = _paths.most(session.record) if program(session) == "nccl" else None
    usual = _nccl(session) if program(session) == "nccl" else _mpi(session, 2 if kind == "node" else 1)
    found = _results(
        session,
        **{
            **usual,
            "groups": [list(group) for group in groups],
            "command": settings["command"] or usual["command"],
            "cpus_per_task": settings["cpus_per_task"] or None,
            "cpu_bind": settings["cpu_bind"] or None,
            "container_image": image(session) or None,
            "container_mounts": settings["container_mounts"],
            "environment": {**usual["environment"], **settings["environment"]},
            "min_bytes": settings["min_bytes"] or usual["min_bytes"],
            "max_bytes": settings["max_bytes"] or usual["max_bytes"],
            "iterations": settings["iterations"] or usual["iterations"],
            **more,
        },
    )
    return [_possible(result, most) for result in found]


def _possible(result: dict[str, t.Any], most: float | None) -> dict[str, t.Any]:
    """Return a result, without its bandwidth if no path of the nodes is so fast."""
    if most is None or (result["busbw"] or 0.0) <= most:
        return result
    text = f"{result['busbw']:.4g} GB/s is no measurement: the hardware record allows at most {most:.4g} GB/s"
    return {**result, "state": "failed", "busbw": None, "message": text}


def checked_mpi(session: Session, nodes: t.Sequence[str], before: t.Sequence[str] = (), **more: t.Any) -> Results:
    """Return the result of a self-checking MPI program on nodes; O(before) are the words before its command."""
    small = {"min_bytes": "64K", "max_bytes": "64K", "iterations": 2}
    program = {"command": [*before, *_mpi_command(session)], "environment": _MPI_ENVIRONMENT}
    return _results(session, groups=[list(nodes)], **program, **small, **more)


def _results(session: Session, **arguments: t.Any) -> Results:
    settings = session.settings
    found = session.job(
        "hpcai.gpucluster.nccl_test", mpi=settings["mpi"], timeout=settings["test_timeout"], **arguments
    )
    return list(found["results"])


def _mpi_command(session: Session) -> list[str]:
    return ["python3", "-c", session.settings["mpi_program"], "{collective}"]


def _nccl(session: Session) -> dict[str, t.Any]:
    record = session.record
    needed = record.get("nccl") or {}
    return {
        "command": ["{collective}_perf"],
        "tasks_per_node": session.gpus,
        "gpus_per_node": session.gpus,
        "min_bytes": "1M",
        "max_bytes": f"{needed.get('max_message_gib', 4)}G",
        "factor": 2,
        "iterations": 20,
        "environment": {**(needed.get("environment") or {}), **(record.get("environment") or {})},
    }


def _mpi(session: Session, tasks: int) -> dict[str, t.Any]:
    return {
        "command": _mpi_command(session),
        "tasks_per_node": tasks,
        "min_bytes": "256K",
        "max_bytes": "4M",
        "factor": 4,
        # The median counts, in at most two seconds for each size.
        "iterations": 15,
        "environment": _MPI_ENVIRONMENT,
    }
