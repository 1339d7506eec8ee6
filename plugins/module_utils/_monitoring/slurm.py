# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
Figures of Slurm under the names of its own endpoint (release 25.11), from the JSON of three commands.

A command that fails raises SlurmError: figures of a controller that does not answer are missing, never 0.
"""

from __future__ import annotations

import collections
import json
import re
import typing as t

from .text import Sample, sample

if t.TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.bounded_run import Runner

    Record = Mapping[str, t.Any]

_GRES = re.compile(r"gpu:(?:[^:(,]+:)?(\d+)\(IDX:([0-9,-]+)\)")
_GPUS = re.compile(r"(?:^|,)gres/gpu=(\d+)")
_MIB = 1 << 20
_HEALTH = "NHC:"  # with which the health check of the collection begins its reasons

# States of Slurm, and the part of the name for nodes.
NODE_STATES = {
    **{name.upper(): name for name in ("idle", "mixed", "down", "unknown", "future", "fail", "cloud", "planned")},
    **{name.upper(): name for name in ("completing", "drain", "powered_down", "powering_up", "reboot_issued")},
    "ALLOCATED": "alloc",
    "INVALID_REG": "invalid_reg",
    "MAINTENANCE": "maint",
    "NOT_RESPONDING": "noresp",
    "POWER_DOWN": "power_down",
    "POWER_UP": "power_up",
    "REBOOT_REQUESTED": "reboot_req",
    "RESERVED": "resv",
}
# Names of nodes that differ in the figures of a partition.
_OF_PARTITION = {"noresp": "no_resp", "completing": "cg", "reboot_req": "reboot_requested"}
JOB_STATES = {
    **{name.upper(): name for name in ("pending", "running", "suspended", "completed", "cancelled", "failed")},
    **{name.upper(): name for name in ("timeout", "preempted", "deadline", "completing", "configuring", "requeued")},
    "BOOT_FAIL": "bootfail",
    "NODE_FAIL": "node_failed",
    "OUT_OF_MEMORY": "outofmemory",
    "POWER_UP_NODE": "powerup_node",
    "STAGE_OUT": "stageout",
}
# By name, the figure of sdiag.
SCHEDULER = {
    "slurm_agent_cnt": "agent_count",
    "slurm_agent_queue_size": "agent_queue_size",
    "slurm_agent_thread_cnt": "agent_thread_count",
    "slurm_backfilled_jobs": "bf_backfilled_jobs",
    "slurm_bf_active": "bf_active",
    "slurm_bf_cycle_cnt": "bf_cycle_counter",
    "slurm_bf_cycle_last": "bf_cycle_last",
    "slurm_bf_cycle_max": "bf_cycle_max",
    "slurm_bf_depth_mean": "bf_depth_mean",
    "slurm_bf_last_depth": "bf_last_depth",
    "slurm_bf_mean_cycle": "bf_cycle_mean",
    "slurm_bf_queue_len": "bf_queue_len",
    "slurm_bf_when_last_cycle": "bf_when_last_cycle",
    "slurm_schedule_cycle_cnt": "schedule_cycle_total",
    "slurm_schedule_cycle_last": "schedule_cycle_last",
    "slurm_schedule_cycle_max": "schedule_cycle_max",
    "slurm_sched_mean_cycle": "schedule_cycle_mean",
    "slurm_schedule_queue_len": "schedule_queue_length",
    "slurm_sdiag_jobs_completed": "jobs_completed",
    "slurm_sdiag_jobs_failed": "jobs_failed",
    "slurm_sdiag_jobs_started": "jobs_started",
    "slurm_sdiag_jobs_submitted": "jobs_submitted",
    "slurm_sdiag_latency": "gettimeofday_latency",
    "slurm_server_thread_cnt": "server_thread_count",
    "slurm_slurmdbd_queue_size": "dbd_agent_queue_size",
}


class SlurmError(Exception):
    """A command of Slurm gave no data."""


class State(t.NamedTuple):
    """What Slurm says at one time."""

    nodes: Sequence[Record]
    jobs: Sequence[Record]
    statistics: Record


def read(run: Runner, statistics: bool = True) -> State:
    """Return the nodes, the jobs and the statistics of slurmctld, which only endpoint() uses, in a call for each."""
    return State(
        _asked(run, ["scontrol", "--all", "show", "nodes", "--json"], "nodes"),
        _asked(run, ["squeue", "--all", "--json"], "jobs"),
        _asked(run, ["sdiag", "--json"], "statistics") if statistics else {},
    )


def _asked(run: Runner, command: list[str], key: str) -> t.Any:
    code, out, err = run(command)
    if code:
        raise SlurmError(f"{' '.join(command)} exited {code}: {' '.join(err.split())[:200]}")
    try:
        return json.loads(out)[key]
    except (ValueError, LookupError, TypeError) as exc:
        raise SlurmError(f"{' '.join(command)} printed no {key}") from exc


def endpoint(state: State) -> list[Sample]:
    """Return the figures that slurmctld itself has from release 25.11 on."""
    return [*_nodes(state.nodes), *_jobs(state.jobs), *_partitions(state), *_scheduler(state.statistics)]


def own(state: State) -> list[Sample]:
    """Return the figures that no release has: reasons, and the job, user and account of each GPU."""
    return [*_reasons(state.nodes), *_queue(state.jobs), *_accounts(state.jobs), *_devices(state.jobs)]


def _number(value: t.Any) -> float:
    """Return a figure of Slurm's JSON: a number, or a mapping that says whether it is set."""
    if isinstance(value, dict):
        value = value.get("number") if value.get("set") else 0
    return float(value or 0)


def gpus(tres: str | None) -> int:
    """Return the number of GPUs in a list of trackable resources."""
    match = _GPUS.search(tres or "")
    return int(match[1]) if match else 0


def node_states(node: Record) -> set[str]:
    """Return the states of a node by the names of the endpoint, with drained and draining."""
    words = {NODE_STATES[word] for word in node["state"] if word in NODE_STATES}
    if "drain" in words:
        words.add("draining" if words & {"alloc", "mixed", "completing"} else "drained")
    return words


def _nodes(nodes: Sequence[Record]) -> Iterator[Sample]:
    counts = collections.Counter(state for node in nodes for state in node_states(node))
    yield sample("slurm_nodes", len(nodes))
    for state in sorted({*NODE_STATES.values(), "drained", "draining"}):
        yield sample(f"slurm_nodes_{state}", counts[state])
    for node in nodes:
        for name, value in _of_node(node).items():
            yield sample(f"slurm_node_{name}", value, node=node["name"])


def _of_node(node: Record) -> dict[str, float]:
    return {
        "cpus": _number(node["cpus"]),
        "cpus_alloc": _number(node["alloc_cpus"]),
        "cpus_idle": _number(node["alloc_idle_cpus"]),
        "gpus": gpus(node["tres"]),
        "gpus_alloc": gpus(node["tres_used"]),
        "memory_bytes": _number(node["real_memory"]) * _MIB,
        "memory_alloc_bytes": _number(node["alloc_memory"]) * _MIB,
        "memory_free_bytes": _number(node["free_mem"]) * _MIB,
    }


def job_states(job: Record) -> set[str]:
    """Return the states of a job by the names of the endpoint."""
    words = {JOB_STATES[word] for word in job["job_state"] if word in JOB_STATES}
    return {*words, "hold"} if job.get("hold") and "pending" in words else words


def _has_resources(job: Record) -> bool:
    return bool({"running", "suspended", "completing"} & job_states(job))


def _jobs(jobs: Sequence[Record], prefix: str = "slurm_jobs", **labels: str) -> Iterator[Sample]:
    counts = collections.Counter(state for job in jobs for state in job_states(job))
    holding = [job for job in jobs if _has_resources(job)]
    yield sample(prefix, len(jobs), **labels)
    for state in sorted({*JOB_STATES.values(), "hold"}):
        yield sample(f"{prefix}_{state}", counts[state], **labels)
    yield sample(f"{prefix}_gpus_alloc", sum(gpus(job["tres_alloc_str"]) for job in holding), **labels)
    yield sample(f"{prefix}_cpus_alloc", sum(_number(job["cpus"]) for job in holding), **labels)
    if not labels:
        yield sample(f"{prefix}_nodes_alloc", sum(_number(job["node_count"]) for job in holding))


def _partitions(state: State) -> Iterator[Sample]:
    names = sorted({name for node in state.nodes for name in node["partitions"]})
    yield sample("slurm_partitions", len(names))
    for name in names:
        nodes = [node for node in state.nodes if name in node["partitions"]]
        yield sample("slurm_partition_nodes", len(nodes), partition=name)
        yield sample("slurm_partition_cpus", sum(_number(node["cpus"]) for node in nodes), partition=name)
        yield sample("slurm_partition_gpus", sum(gpus(node["tres"]) for node in nodes), partition=name)
        counts = collections.Counter(word for node in nodes for word in node_states(node))
        for word in sorted({*NODE_STATES.values(), "drained", "draining"}):
            yield sample(f"slurm_partition_nodes_{_OF_PARTITION.get(word, word)}", counts[word], partition=name)
        jobs = [job for job in state.jobs if name in job["partition"].split(",")]
        yield from _jobs(jobs, "slurm_partition_jobs", partition=name)
        yield from _widest(jobs, name)


def _widest(jobs: Sequence[Record], partition: str) -> Iterator[Sample]:
    waiting = [job for job in jobs if "pending" in job_states(job)]
    free = [job for job in waiting if "hold" not in job_states(job)]
    for suffix, some in (("", waiting), ("_nohold", free)):
        widest = max((_number(job["node_count"]) for job in some), default=0)
        yield sample(f"slurm_partition_jobs_min_job_nodes{suffix}", widest, partition=partition)


def _scheduler(statistics: Record) -> Iterator[Sample]:
    for name, key in SCHEDULER.items():
        if key in statistics:
            yield sample(name, _number(statistics[key]))


def _reasons(nodes: Sequence[Record]) -> Iterator[Sample]:
    for node in nodes:
        states = node_states(node)
        reason = node.get("reason") or ""
        if states & {"drain", "down", "fail"}:
            state = "drain" if "drain" in states else "down" if "down" in states else "fail"
            by = "health" if reason.startswith(_HEALTH) else "other"
            yield sample("gpucluster_node_unavailable", 1, node=node["name"], state=state, by=by, reason=reason[:200])


def _queue(jobs: Sequence[Record]) -> Iterator[Sample]:
    waiting = [job for job in jobs if "pending" in job_states(job)]
    counts = collections.Counter((job["partition"], job["state_reason"]) for job in waiting)
    for (partition, reason), count in sorted(counts.items()):
        yield sample("gpucluster_jobs_pending", count, partition=partition, reason=reason)


def _accounts(jobs: Sequence[Record]) -> Iterator[Sample]:
    totals: collections.Counter[str] = collections.Counter()
    for job in jobs:
        if _has_resources(job):
            totals[job["account"]] += gpus(job["tres_alloc_str"])
    for account, count in sorted(totals.items()):
        yield sample("gpucluster_account_gpus_alloc", count, account=account)


def _devices(jobs: Sequence[Record]) -> Iterator[Sample]:
    for job in jobs:
        for node, device in devices(job):
            labels = {"node": node, "device": f"nvidia{device}", "job_id": str(job["job_id"])}
            people = {"user": job["user_name"], "account": job["account"], "partition": job["partition"]}
            yield Sample("gpucluster_job_gpu", {**labels, **people}, 1)


def devices(job: Record) -> Iterator[tuple[str, int]]:
    """Yield node and number of each GPU of a job. The lists of nodes and of GPUs have the same order."""
    resources = job.get("job_resources") or {}
    nodes = [node["name"] for node in (resources.get("nodes") or {}).get("allocation") or []]
    if _has_resources(job) and len(nodes) == len(job["gres_detail"]):
        for node, detail in zip(nodes, job["gres_detail"]):
            for _count, indexes in _GRES.findall(detail):
                yield from ((node, index) for index in _indexes(indexes))


def _indexes(text: str) -> Iterator[int]:
    for part in text.split(","):
        first, _dash, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)
