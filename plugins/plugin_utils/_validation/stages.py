# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""The stages of the validation: from what was measured to checks, curves and a map of pairs."""

from __future__ import annotations

import contextlib
import math
import statistics
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue import summary
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import isolation
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation import (
    node_tests,
    outcomes,
    scheduler_stage,
    shortfalls,
)

Raw = t.Mapping[str, t.Any]
Stage = dict[str, t.Any]

# The least that a group must reach, as a fraction of what good pairs reach, where no threshold is known.
_NCCL = {"node": 0.9, "pair": 0.85, "all": 0.7}
# CPUs that share a host with others are noisy: only a gross fault shows.
_MPI = {"node": 0.1, "pair": 0.1, "all": 0.02}
# The kinds of groups, as the titles of their checks go on.
_TITLES = {"node": "in one node,", "pair": "between two nodes,", "all": "over all nodes,"}
# The checks that say which nodes a stage left out.
_TAKES_PART = {
    "scheduler": ("scheduler.job", "job runs"),
    "node": ("node.part", "is tested"),
    "nccl": ("nccl.part", "is measured"),
}
# Bus bandwidth says how well the hardware is used, so operations are alike: four H200 gave 0.9 of all-reduce for them.
_OTHERS = {"all_gather": 0.7, "reduce_scatter": 0.7}
_LEAST_OTHER = 0.4


class StageError(ValueError):
    """The input of a stage is not what its tasks give."""


def build(name: str, raw: Raw) -> Stage:
    """Return a stage: its checks, and what the report draws."""
    makers = {"preflight": _preflight, "scheduler": _scheduler, "node": _node, "nccl": _nccl, "after": _after}
    if name not in makers:
        raise StageError(f"unknown stage {name!r}; there are {', '.join(makers)}")
    if raw.get("error"):
        # What only follows from an earlier stage does not come before its cause.
        kind = "stage.follows" if raw.get("follows") else "stage"
        stage: Stage = {"checks": [outcomes.check(kind, f"stage {name}", outcomes.FAIL, str(raw["error"]))]}
        # What was measured before the stage broke off is shown too.
        with contextlib.suppress(KeyError, TypeError):
            stage = _joined(makers[name](raw), stage)
    else:
        stage = makers[name](raw)
    if name in _TAKES_PART:
        stage["checks"] += outcomes.left_out(raw, *_TAKES_PART[name])
    return {
        "stage": name,
        "seconds": raw.get("seconds"),
        "ended": raw.get("ended"),
        "nodes": list(raw.get("nodes") or []),
        **stage,
    }


def reference(values: t.Sequence[float]) -> float | None:
    """Return what good groups reach: the upper quartile, for one bad node spoils up to half of the pairs or more."""
    ordered = sorted(values)
    return ordered[math.ceil(0.75 * len(ordered)) - 1] if ordered else None


def minimums(raw: Raw) -> dict[str, t.Any]:
    """Return the thresholds of groups by kind, C(node), C(pair) and C(all): those given, or else fractions."""
    fractions = {**(_MPI if raw.get("program") == "mpi" else _NCCL), **(raw.get("relative") or {})}
    given = raw.get("thresholds") or {}
    good = {
        kind: reference([result["busbw"] for result in _settled(kind, raw) if result["busbw"] and _first(result, raw)])
        for kind in ("node", "pair")
    }
    good["all"] = good["pair"] or good["node"]
    found: dict[str, t.Any] = {}
    for kind, value in good.items():
        if given.get(kind):
            found[kind] = shortfalls.levels(kind, given[kind])
        else:
            found[kind] = {"fail": fractions[kind] * value} if value else {}
    return found


def again(raw: Raw, repeats: int = 2) -> dict[str, t.Any]:
    """Return by kind the groups and operations that fell short and were measured less than C(repeats) times."""
    limits = minimums(raw)
    found = {}
    for kind in _TITLES:
        short = [
            result
            for result in _settled(kind, raw)
            if (result["busbw"] or 0.0) < _least(_threshold(result, raw, limits[kind]))
            and len(result["samples"]) < repeats
        ]
        if short:
            found[kind] = {
                "groups": list({tuple(result["nodes"]): result["nodes"] for result in short}.values()),
                "collectives": list(dict.fromkeys(result["collective"] for result in short)),
            }
    return found


def isolate(raw: Raw, repeats: int = 2) -> dict[str, t.Any]:
    """Return what to measure next to find the culprit, and the verdict so far; nothing to do while all is well."""
    raw = _measured(raw)
    limits = minimums(raw)
    lowest = {kind: _least(limit) for kind, limit in limits.items()}
    nodes = list(raw.get("nodes") or [])
    pairs = [result for result in raw.get("pair") or [] if _first(result, raw)]
    whole = [result for result in raw.get("all") or [] if _first(result, raw)]
    seen = [_observation(result) for result in [*pairs, *whole, *(raw.get("search") or [])]]
    well = not any((item.value or 0.0) < lowest["pair" if len(item.nodes) == 2 else "all"] for item in seen)
    if well or not lowest["pair"]:
        return {"again": again(raw, repeats), "next": [], "verdict": None}
    options: dict[str, t.Any] = {"many": lowest["all"], "repeats": repeats}
    groups = isolation.next_groups(nodes, seen, lowest["pair"], **options)
    return {
        "again": again(raw, repeats),
        "next": [list(group) for group in groups],
        "verdict": isolation.verdict(nodes, seen, lowest["pair"], **options),
    }


def _preflight(raw: Raw) -> Stage:
    """Return the checks of the nodes and of Slurm's view of them."""
    facts = {name: found if found and "versions" in found else None for name, found in raw["facts"].items()}
    versions = {name: found["versions"] for name, found in facts.items() if found}
    return {"checks": outcomes.preflight(facts, raw["states"]), "versions": versions}


def _after(raw: Raw) -> Stage:
    """Return whether nodes that could be used before still can, and what hardware was meant."""
    before = [node for node in raw["before"] if node["name"] in raw["meant"]]
    lost = outcomes.lost(before, raw["states"])
    seen = sum(outcomes.usable(node) for node in before)
    if not lost and before:
        text = f"{seen} node{'' if seen == 1 else 's'} that Slurm could use before can still be used"
        lost = [outcomes.check("after.nodes", "nodes at the end", outcomes.PASS, text)]
    named = [item["node"] for item in lost if item["node"]]
    return {
        "checks": lost,
        "lost": named,
        "hardware": summary.summary(raw, [node["name"] for node in before]),
    }


def _scheduler(raw: Raw) -> Stage:
    """Return the checks of controllers, jobs, MPI, accounting and containers."""
    return {"checks": scheduler_stage.checks(raw)}


def _node(raw: Raw) -> Stage:
    """Return the checks of each node by itself."""
    found = outcomes.health(raw["check"], "node.check", "gpucluster-check") if raw.get("check") else []
    for check, result in zip(outcomes.steps(raw.get("dcgm") or [], "node.dcgm", "DCGM"), raw.get("dcgm") or []):
        if check["status"] == outcomes.PASS or (check["status"] == outcomes.FAIL and "{" in result["stdout"]):
            check["status"], check["message"] = node_tests.dcgm(result["stdout"])
        found.append(check)
    return {"checks": found + _memcpy(raw)}


def _memcpy(raw: Raw) -> list[outcomes.Check]:
    """Return the checks of the bandwidth between host and GPUs."""
    results = raw.get("nvbandwidth") or []
    found = [
        item
        for item in outcomes.steps(results, "node.host_to_device", "host to GPU")
        if item["status"] != outcomes.PASS
    ]
    for test, key in (("host_to_device", "host_to_device_gbps"), ("device_to_host", "device_to_host_gbps")):
        measured = {
            result["nodes"][0]: node_tests.nvbandwidth(result["stdout"]).get(f"{test}_memcpy_ce", {})
            for result in results
            if result["rc"] == 0
        }
        title = {"host_to_device": "host to GPU", "device_to_host": "GPU to host"}[test]
        threshold = (raw.get("thresholds") or {}).get(key)
        found += outcomes.memcpy(measured, f"node.{test}", title, threshold) if measured else []
    return found


def _nccl(raw: Raw) -> Stage:
    """Return the checks of bandwidth, the curves, the map of pairs and the outcome of the search."""
    checks, curves = _missed(raw), []
    raw = _measured(raw)
    limits = minimums(raw)
    unlimited, mpi = _unlimited(raw), raw.get("program") == "mpi"
    rules: list[dict[str, t.Any]] = []
    for kind, title in _TITLES.items():
        settled = _settled(kind, raw)
        for collective in dict.fromkeys(result["collective"] for result in settled):
            results = [result for result in settled if result["collective"] == collective]
            threshold = _threshold(results[0], raw, limits[kind])
            found = outcomes.bandwidth(results, f"nccl.{kind}", title, threshold=threshold)
            if kind in unlimited and len(results) == 1 and not mpi:
                found = [outcomes.unjudged(item) for item in found]
            checks += found
            rules.append({"kind": kind, "collective": collective, **threshold, "why": _why(raw, kind, results[0])})
            curves += [_curve(result, check) for result, check in zip(results, found)]
    # Between CPUs nothing is claimed that would take a limit; a note is enough.
    if unlimited and not mpi:
        checks.append(outcomes.check("nccl.limits", "limits", outcomes.WARN, _relative(unlimited)))
    outcome = raw.get("isolation")
    if outcome:
        checks += outcomes.isolation(outcome, _failed(raw, limits))
    pairs = [result for result in [*(raw.get("pair") or []), *(raw.get("search") or [])] if len(result["nodes"]) == 2]
    return {
        "checks": checks,
        "curves": curves,
        "pairs": _map(pairs, limits) if pairs else None,
        "isolation": outcome,
        "program": raw.get("program"),
        "limits": rules,
        "image": raw.get("image"),
        "devices": sorted(
            {name for kind in _TITLES for result in raw.get(kind) or [] for name in result.get("devices", [])}
        ),
        "versions_used": _used(raw),
        "notes": [*filter(None, [_relative(unlimited) if mpi else "", raw.get("note")])],
    }


def _unlimited(raw: Raw) -> list[str]:
    """Return the kinds that were measured without a limit of their own; those of all nodes follow from the pairs."""
    given = raw.get("thresholds") or {}
    return [
        kind
        for kind in ("node", "pair")
        if any(result["busbw"] for result in raw.get(kind) or [])
        and not (given.get(kind) and _least(shortfalls.levels(kind, given[kind])))
    ]


def _relative(kinds: t.Sequence[str]) -> str:
    """Return what to say about kinds without a limit, if there are any."""
    titles = " and ".join(_TITLES[kind].rstrip(",") for kind in kinds)
    return f"no limit is known for the bandwidth {titles}: figures are only compared with each other" if kinds else ""


def _measured(raw: Raw) -> Raw:
    """Return the input without what was not measured, which says nothing about its nodes."""
    kinds = {kind: [result for result in raw.get(kind) or [] if not _lost(result)] for kind in (*_TITLES, "search")}
    return {**raw, **kinds}


def _missed(raw: Raw) -> list[outcomes.Check]:
    """Return the checks of what was not measured at all."""
    known = _measured(raw)
    found = []
    for kind, title in _TITLES.items():
        seen = {(tuple(result["nodes"]), result["collective"]) for result in known[kind]}
        for result in raw.get(kind) or []:
            if _lost(result) and (tuple(result["nodes"]), result["collective"]) not in seen:
                found += outcomes.bandwidth([result], f"nccl.{kind}", title)
    return found


def _lost(result: Raw) -> bool:
    """Return whether a job ended before its measurement."""
    return result.get("state") == "not_measured"


def _used(raw: Raw) -> dict[str, str]:
    """Return the versions that the programs printed, which are those inside a container."""
    names = {"version": "nccl-tests" if raw.get("program") == "nccl" else "gpucluster-mpi", "nccl": "NCCL in use"}
    results = [result for kind in _TITLES for result in raw.get(kind) or []]
    return {name: result[key] for result in results for key, name in names.items() if result.get(key)}


def _first(result: Raw, raw: Raw) -> bool:
    """Return whether a result is of the operation that thresholds are about."""
    return bool(result["collective"] == (raw.get("collectives") or ["all_reduce"])[0])


def _settled(kind: str, raw: Raw) -> list[dict[str, t.Any]]:
    """
    Return one result for each group and operation of a kind, with all C(samples) of its bandwidth.

    Of several measurements the upper median counts, because noise only ever takes bandwidth away.
    """
    found: dict[tuple[frozenset[str], str], list[Raw]] = {}
    for result in raw.get(kind) or []:
        found.setdefault((frozenset(result["nodes"]), result["collective"]), []).append(result)
    for result in raw.get("search") or []:
        # The search measures some groups once more.
        found.get((frozenset(result["nodes"]), result["collective"]), []).append(result)
    return [
        {**sorted(same, key=_level)[len(same) // 2], "samples": [result["busbw"] for result in same]}
        for same in found.values()
    ]


def _failed(raw: Raw, limits: t.Mapping[str, t.Mapping[str, float]]) -> list[frozenset[str]]:
    """Return the groups that failed, or were below what fails; the search also goes after what is worth a warning."""
    seen: dict[frozenset[str], list[float]] = {}
    for kind in ("pair", "all", "search"):
        for result in raw.get(kind) or []:
            if _first(result, raw):
                seen.setdefault(frozenset(result["nodes"]), []).append(_level(result))
    levels = {group: statistics.median_high(values) for group, values in seen.items()}
    return [
        group
        for group, level in levels.items()
        if not level or level < limits["pair" if len(group) == 2 else "all"].get("fail", 0.0)
    ]


def _level(result: Raw) -> float:
    """Return the bandwidth; none at all if the measurement failed."""
    return result["busbw"] or 0.0


def _least(limits: t.Mapping[str, float]) -> float:
    """Return below what a complaint begins."""
    return limits.get("warn", limits.get("fail", 0.0))


def _threshold(result: Raw, raw: Raw, limits: dict[str, float]) -> dict[str, float]:
    """Return the threshold of a result."""
    return limits if _first(result, raw) else _other(limits, result["collective"])


def _other(limits: t.Mapping[str, float], collective: str) -> dict[str, float]:
    """Return the threshold of an operation of which none is known: so much of the known one, below which it warns."""
    least = limits.get("fail", limits.get("warn"))
    return {"warn": least * _OTHERS.get(collective, _LEAST_OTHER)} if least else {}


def _why(raw: Raw, kind: str, result: Raw) -> str:
    """Return in words where the threshold of a result comes from."""
    fractions = {**(_MPI if raw.get("program") == "mpi" else _NCCL), **(raw.get("relative") or {})}
    given = (raw.get("thresholds") or {}).get(kind)
    source = (raw.get("limits_from") or {}).get(kind) or "validate_thresholds"
    if not given:
        whose = "nodes" if kind == "node" else "pairs"
        source = f"{fractions[kind]:.0%} of what good {whose} of this run reach, for no limit is known"
    if _first(result, raw):
        return source
    first = (raw.get("collectives") or ["all_reduce"])[0]
    share = _OTHERS.get(result["collective"], _LEAST_OTHER)
    return f"{share:.0%} of the limit of {first}, for none of {result['collective']} itself is known: it only warns"


def _observation(result: Raw) -> isolation.Observation:
    """Return a result as the search takes it."""
    return isolation.Observation(tuple(result["nodes"]), result["busbw"])


def _curve(result: Raw, check: outcomes.Check) -> dict[str, t.Any]:
    """Return one line of a plot."""
    return {
        "title": check["title"],
        "name": check["group"],
        "rows": list(result["rows"]),
        "bad": check["status"] in (outcomes.WARN, outcomes.FAIL),
        "limits": check["limits"],
    }


def _map(pairs: t.Sequence[Raw], limits: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the map of pairs; of several measurements of a pair the best counts, for noise only ever takes away."""
    best: dict[tuple[str, ...], float | None] = {}
    for result in pairs:
        nodes = tuple(sorted(result["nodes"]))
        best[nodes] = max((value for value in (best.get(nodes), result["busbw"]) if value is not None), default=None)
    return {
        "collective": pairs[0]["collective"],
        "limits": dict(limits["pair"]),
        "values": [{"nodes": list(nodes), "busbw": value} for nodes, value in best.items()],
    }


def _joined(one: Stage, other: Stage) -> Stage:
    """Return a stage with the checks of both."""
    return {**one, "checks": [*one["checks"], *other["checks"]]}
