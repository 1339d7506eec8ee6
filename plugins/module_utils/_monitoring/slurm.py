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

from ansible_collections.hpcai.gpucluster.plugins.module_utils._slurm import nodes as slurm_nodes

from .text import Sample, sample

if t.TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.bounded_run import Runner

    Record = Mapping[str, t.Any]

_GRES = re.compile(r"gpu:(?:(?:[^:(,]+|\(null\)):)?\d+\(IDX:([0-9,-]+)\)")
_GPUS = re.compile(r"(?:^|,)gres/gpu(:[^=,]+)?=(\d+)")
_TASKS = re.compile(r"(\d+)(?:-(\d+)(?::(\d+))?)?")
_STATE = re.compile(r"[A-Z_]+")
_MIB = 1 << 20
_MEMORY = {"memory_bytes": "real_memory", "memory_alloc_bytes": "alloc_memory", "memory_free_bytes": "free_mem"}
_NO_VALUE = 0xFFFFFFFE  # NO_VAL of Slurm; infinite and unset figures are not below it
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


# What the endpoint does not have in each release, or has as 0 where it is unknown. Prometheus drops it there.
FILLED = re.compile("slurm_.+_gpus(_alloc)?|slurm_node_memory_free_bytes")


class SlurmError(Exception):
    """A command of Slurm gave no data."""


class State(t.NamedTuple):
    """What Slurm says at one time. The statistics are None if their command failed, for the reason in trouble."""

    nodes: Sequence[Record]
    jobs: Sequence[Record]
    statistics: Record | None
    trouble: str = ""


def read(run: Runner, statistics: bool = True) -> State:
    """Return the nodes, the jobs and the statistics of slurmctld, which only endpoint() uses, in a call for each."""
    nodes = _once(_asked(run, ["scontrol", "--all", "show", "nodes", "--json"], "nodes"), "name")
    jobs = _once(_asked(run, ["squeue", "--all", "--json"], "jobs"), "job_id")
    try:
        return State(nodes, jobs, _asked(run, ["sdiag", "--json"], "statistics") if statistics else {})
    except SlurmError as exc:
        return State(nodes, jobs, None, str(exc))


def _once(records: Sequence[Record], key: str) -> Sequence[Record]:
    """Return the records; raise SlurmError if one has no name, or two have the same."""
    odd = [one for one in records if not isinstance(one, dict) or not isinstance(one.get(key), (str, int))]
    if odd:
        raise SlurmError(f"Slurm lists {str(odd[0])[:80]!r}, which has no {key}")
    counts = collections.Counter(record.get(key) for record in records)
    twice = next((name for name, count in counts.items() if count > 1), None)
    if twice is not None:
        raise SlurmError(f"Slurm lists the {key} {twice} twice")
    return records


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
    return [one for part in ENDPOINT.values() for one in part(state)]


def filling(state: State) -> list[Sample]:
    """Return the figures that the endpoint of slurmctld lacks."""
    parts = (ENDPOINT[name] for name in ("nodes", "jobs", "partitions"))
    return [one for part in parts for one in part(state) if FILLED.fullmatch(one.name)]


def own(state: State) -> list[Sample]:
    """Return the figures that no release has: reasons, and the job, user and account of each GPU."""
    return [one for part in OWN.values() for one in part(state)]


def _number(value: t.Any) -> float | None:
    """
    Return a figure of Slurm's JSON: a number, or a mapping that says whether it is set. None if it is not.

    Raise ValueError for another value.
    """
    if isinstance(value, dict):
        value = value.get("number") if value.get("set") and not value.get("infinite") else None
    if value is None:
        return None
    if not isinstance(value, (int, float)) or not 0 <= value < _NO_VALUE:
        raise ValueError(f"Slurm prints {str(value)[:60]!r} where a figure belongs")
    return float(value)


def _sum(records: Iterable[Record], key: str) -> float:
    """Return the sum of a figure of some records. Those that do not have it do not count."""
    return sum(_number(record[key]) or 0 for record in records)


def gpus(tres: str | None) -> int:
    """Return the number of GPUs in a list of trackable resources. The entry without a type is the sum of the others."""
    found = _GPUS.findall(tres or "")
    total = [int(number) for kind, number in found if not kind]
    return total[0] if total else sum(int(number) for _kind, number in found)


def node_gpus(node: Record) -> tuple[int, int]:
    """Return how many GPUs a node has and how many are allocated, from its gres if accounting has no gres/gpu."""
    has, used = gpus(node["tres"]), gpus(node["tres_used"])
    return has or slurm_nodes.gpus(node.get("gres") or ""), used or slurm_nodes.gpus(node.get("gres_used") or "")


def job_gpus(job: Record) -> int:
    """Return the number of allocated GPUs of a job, from its gres if accounting has no gres/gpu."""
    return gpus(job["tres_alloc_str"]) or sum(map(slurm_nodes.gpus, job.get("gres_detail") or ()))


def tasks(job: Record) -> int:
    """
    Return how many jobs a record is: the pending tasks of an array have one record, as slurmctld counts them.

    Raise ValueError for a list that squeue has cut.
    """
    text, _percent, _limit = (job.get("array_task_string") or "").partition("%")
    if not text or "pending" not in job_states(job):
        return 1
    found = [_TASKS.fullmatch(part) for part in text.split(",")]
    ranges = [(int(one[1]), int(one[2] or one[1]), int(one[3] or 1)) for one in found if one]
    if len(ranges) < len(found) or any(last < first or not step for first, last, step in ranges):
        raise ValueError(f"job {job['job_id']} has unreadable tasks: {text[:80]!r}")
    return sum((last - first) // step + 1 for first, last, step in ranges)


def _words(states: t.Any) -> Sequence[str]:
    """Return the states of a record, which older releases print as one text. Raise ValueError for another value."""
    words = states.split("+") if isinstance(states, str) else states
    if not isinstance(words, list) or not all(isinstance(word, str) and _STATE.fullmatch(word) for word in words):
        raise ValueError(f"Slurm prints {str(states)[:60]!r} where a state belongs")
    return words


def node_states(node: Record) -> set[str]:
    """Return the states of a node by the names of the endpoint, with drained and draining."""
    words = {NODE_STATES[word] for word in _words(node["state"]) if word in NODE_STATES}
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
            if value is not None:
                yield sample(f"slurm_node_{name}", value, node=node["name"])


def _of_node(node: Record) -> dict[str, float | None]:
    """Return the figures of a node. One that slurmctld does not know, such as the free memory at first, is None."""
    has, used = node_gpus(node)
    memory = {name: _number(node[key]) for name, key in _MEMORY.items()}
    return {
        "cpus": _number(node["cpus"]),
        "cpus_alloc": _number(node["alloc_cpus"]),
        "cpus_idle": _number(node["alloc_idle_cpus"]),
        "gpus": has,
        "gpus_alloc": used,
        **{name: None if value is None else value * _MIB for name, value in memory.items()},
    }


def job_states(job: Record) -> set[str]:
    """Return the states of a job by the names of the endpoint."""
    words = {JOB_STATES[word] for word in _words(job["job_state"]) if word in JOB_STATES}
    return {*words, "hold"} if job.get("hold") and "pending" in words else words


def _has_resources(job: Record) -> bool:
    return bool({"running", "suspended", "completing"} & job_states(job))


def _jobs(jobs: Sequence[Record], prefix: str = "slurm_jobs", **labels: str) -> Iterator[Sample]:
    counts: collections.Counter[str] = collections.Counter()
    for job in jobs:
        counts.update(dict.fromkeys(job_states(job), tasks(job)))
    holding = [job for job in jobs if _has_resources(job)]
    yield sample(prefix, sum(map(tasks, jobs)), **labels)
    for state in sorted({*JOB_STATES.values(), "hold"}):
        yield sample(f"{prefix}_{state}", counts[state], **labels)
    yield sample(f"{prefix}_gpus_alloc", sum(map(job_gpus, holding)), **labels)
    yield sample(f"{prefix}_cpus_alloc", _sum(holding, "cpus"), **labels)
    if not labels:
        yield sample(f"{prefix}_nodes_alloc", _sum(holding, "node_count"))


def _partitions(state: State) -> Iterator[Sample]:
    names = sorted({name for node in state.nodes for name in node["partitions"]})
    yield sample("slurm_partitions", len(names))
    for name in names:
        nodes = [node for node in state.nodes if name in node["partitions"]]
        yield sample("slurm_partition_nodes", len(nodes), partition=name)
        yield sample("slurm_partition_cpus", _sum(nodes, "cpus"), partition=name)
        yield sample("slurm_partition_gpus", sum(node_gpus(node)[0] for node in nodes), partition=name)
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
        widest = max((_number(job["node_count"]) or 0 for job in some), default=0)
        yield sample(f"slurm_partition_jobs_min_job_nodes{suffix}", widest, partition=partition)


def _scheduler(state: State) -> Iterator[Sample]:
    if state.statistics is None:
        raise SlurmError(state.trouble)
    for name, key in SCHEDULER.items():
        value = _number(state.statistics.get(key))
        if value is not None:
            yield sample(name, value)


def _reasons(nodes: Sequence[Record]) -> Iterator[Sample]:
    for node in nodes:
        states = node_states(node)
        reason = node.get("reason") or ""
        if states & {"drain", "down", "fail"}:
            state = "drain" if "drain" in states else "down" if "down" in states else "fail"
            by = "health" if reason.startswith(_HEALTH) else "other"
            yield sample("gpucluster_node_unavailable", 1, node=node["name"], state=state, by=by, reason=reason[:200])


def _queue(jobs: Sequence[Record]) -> Iterator[Sample]:
    for (partition, reason), count in sorted(queue(jobs).items()):
        yield sample("gpucluster_jobs_pending", count, partition=partition, reason=reason)


def queue(jobs: Iterable[Record]) -> collections.Counter[tuple[str, str]]:
    """Return the number of pending jobs by partition and reason."""
    counts: collections.Counter[tuple[str, str]] = collections.Counter()
    for job in jobs:
        if "pending" in job_states(job):
            counts[job["partition"], job["state_reason"]] += tasks(job)
    return counts


def _accounts(jobs: Sequence[Record]) -> Iterator[Sample]:
    totals: collections.Counter[str] = collections.Counter()
    for job in jobs:
        if _has_resources(job):
            totals[job["account"]] += job_gpus(job)
    for account, count in sorted(totals.items()):
        yield sample("gpucluster_account_gpus_alloc", count, account=account)


def _devices(jobs: Sequence[Record]) -> Iterator[Sample]:
    for job in jobs:
        for node, device in devices(job):
            labels = {"node": node, "device": f"nvidia{device}", "job_id": f"{_number(job['job_id']):.0f}"}
            people = {"user": job["user_name"], "account": job["account"], "partition": job["partition"]}
            yield sample("gpucluster_job_gpu", 1, **labels, **people)


def devices(job: Record) -> Iterator[tuple[str, int]]:
    """Yield node and number of each GPU of a job. The lists of nodes and of GPUs have the same order."""
    names, details = _places(job), job["gres_detail"] or ()
    if _has_resources(job) and len(names) == len(details):
        for node, detail in zip(names, details):
            for indexes in _GRES.findall(detail):
                yield from ((node, index) for index in _indexes(indexes))


def _places(job: Record) -> list[str]:
    """Return the nodes of a job. Before 24.05, nodes is a hostlist, and allocated_nodes has the names."""
    resources = job.get("job_resources") or {}
    nodes = resources.get("nodes") or {}
    if isinstance(nodes, str):
        return [node["nodename"] for node in resources.get("allocated_nodes") or ()] or [nodes]
    return [node["name"] for node in nodes.get("allocation") or ()]


def _indexes(text: str) -> Iterator[int]:
    for part in text.split(","):
        first, _dash, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


# By the name under which a failure of it is reported, the parts of the figures.
ENDPOINT: dict[str, Callable[[State], Iterable[Sample]]] = {
    "nodes": lambda state: _nodes(state.nodes),
    "jobs": lambda state: _jobs(state.jobs),
    "partitions": _partitions,
    "scheduler": _scheduler,
}
OWN: dict[str, Callable[[State], Iterable[Sample]]] = {
    "reasons": lambda state: _reasons(state.nodes),
    "queue": lambda state: _queue(state.jobs),
    "accounts": lambda state: _accounts(state.jobs),
    "devices": lambda state: _devices(state.jobs),
}
