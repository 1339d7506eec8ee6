# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""The stage C(nccl): bandwidth in each node, between two nodes and over all nodes, and the search for slow nodes."""

from __future__ import annotations

import statistics
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import isolation
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation import (
    choice,
    figure_checks,
    isolation_checks,
    limits,
    measurement,
    results,
    search,
)
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation import settings as inputs
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation.checks import FAIL, WARN, Check, check

if t.TYPE_CHECKING:
    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation.session import Session

Raw = t.Mapping[str, t.Any]

# Up to this number of nodes all pairs are measured; with more nodes one round of pairs.
_ALL_PAIRS = 8


def measure(session: Session, raw: dict[str, t.Any], silent: t.Collection[str]) -> None:
    """Measure groups of nodes, repeat slow ones, and search for the cause."""
    choice.need(session, silent)
    settings, repeats = session.settings, session.settings["repeats"]
    if _one_gpu(session):
        raw.update(_about(session))
        raw["node"] = [
            results.not_measured([name], collective, results.ONE_GPU)
            for collective in settings["collectives"]
            for name in session.taken
        ]
    try:
        for kind, groups in _groups(session).items():
            # Pairs only show the path between two nodes: one operation is enough.
            _add(session, raw, kind, groups, settings["collectives"][: 1 if kind == "pair" else None])
        for kind, short in search.isolate(raw, repeats)["again"].items():
            more = {"repeat": max(1, repeats - 1)}
            _add(session, raw, kind, short["groups"], short["collectives"], "again, for they fell short: ", **more)
        for number in range(1, settings["search_rounds"] + 1):
            groups = search.isolate(raw, repeats)["next"]
            if not groups:
                break
            _add(session, raw, "search", groups, settings["collectives"][:1], f"search, round {number}: ")
    finally:
        raw["isolation"] = search.isolate(raw, repeats)["verdict"] if raw else None


def _groups(session: Session) -> dict[str, list[list[str]]]:
    """Return the groups to measure, by kind."""
    names, rounds = session.taken, session.settings["pair_rounds"]
    few = rounds or (0 if len(names) <= _ALL_PAIRS else 1)
    # A single node is a useful test of its GPUs, but not of one CPU.
    alone = measurement.program(session) == "nccl" or len(names) == 1
    return {
        "node": [[name] for name in names] if alone and not _one_gpu(session) else [],
        "pair": [list(pair) for pairs in isolation.tournament(names, few) for pair in pairs],
        "all": [names] if len(names) > 2 else [],
    }


def _one_gpu(session: Session) -> bool:
    """Return whether no node has a second GPU to measure the bandwidth to."""
    return measurement.program(session) == "nccl" and session.gpus == 1


def _add(
    session: Session,
    raw: dict[str, t.Any],
    kind: str,
    groups: t.Sequence[t.Sequence[str]],
    collectives: t.Sequence[str],
    why: str = "",
    **more: t.Any,
) -> None:
    """Measure groups, and add the results to those of the same kind."""
    if not groups:
        return
    where = results.TITLES.get(kind, "").rstrip(",") or "in groups of suspects"
    session.say(f"{why}measure {', '.join(collectives)} {where}: {len(groups)} group{'s' if len(groups) > 1 else ''}")
    found = measurement.run(session, kind, groups, collectives=list(collectives), **more)
    if not raw:
        raw.update(_about(session))
    raw[kind] = [*raw.get(kind, []), *found]
    slowest = min(found, key=results.level, default=None)
    if slowest:
        figure = f"{slowest['busbw']:.4g} GB/s" if slowest["busbw"] else slowest["message"]
        session.say(f"slowest: {figure_checks.group(slowest)}, {slowest['collective']}: {figure}")


def _about(session: Session) -> dict[str, t.Any]:
    """Return the data for the judgement other than results."""
    settings, record, program = session.settings, session.record, measurement.program(session)
    return {
        "nodes": session.taken,
        "collectives": settings["collectives"],
        "program": program,
        "thresholds": inputs.limits(settings, record),
        "limits_from": inputs.limits_from(settings, record),
        "relative": settings["relative"],
        "image": measurement.image(session),
        "note": measurement.NOTES[program],
    }


def judge(raw: Raw) -> dict[str, t.Any]:
    """Return the checks of bandwidth, the curves, the map of pairs and the outcome of the search."""
    raw = {**raw, "node": [results.alone(result) for result in raw.get("node") or []]}
    checks = _missed(raw)
    raw = results.known(raw)
    least, unlimited, mpi = limits.minimums(raw), limits.unlimited(raw), raw.get("program") == "mpi"
    shown = dict(least)
    curves: list[dict[str, t.Any]] = []
    rules: list[dict[str, t.Any]] = []
    for kind, same in _same_operation(raw):
        threshold = limits.threshold(same[0], raw, least[kind])
        found = figure_checks.bandwidth(same, f"nccl.{kind}", results.TITLES[kind], threshold=threshold)
        if kind in unlimited and len(same) == 1 and not mpi:
            found = [figure_checks.unjudged(item) for item in found]
            threshold = threshold if any(item["limits"] for item in found) else {}
            shown[kind] = threshold
        checks += found
        collective = same[0]["collective"]
        rules.append({"kind": kind, "collective": collective, **threshold, "why": limits.why(raw, kind, same[0])})
        curves += [_curve(result, item) for result, item in zip(same, found)]
    # Results between CPUs are not judged by limits; a note is enough.
    if unlimited and not mpi:
        checks.append(check("nccl.limits", "limits", WARN, limits.relative(unlimited)))
    outcome = raw.get("isolation")
    if outcome:
        checks += isolation_checks.checks(outcome, _failed(raw, least))
    pairs = [result for result in [*(raw.get("pair") or []), *(raw.get("search") or [])] if len(result["nodes"]) == 2]
    return {
        "checks": checks,
        "curves": curves,
        "pairs": _map(pairs, shown) if pairs else None,
        "isolation": outcome,
        "program": raw.get("program"),
        "limits": rules,
        "image": raw.get("image"),
        "devices": sorted({name for result in _results(raw) for name in result.get("devices", [])}),
        "versions_used": _used(raw),
        "notes": [*filter(None, [limits.relative(unlimited) if mpi else "", raw.get("note")])],
    }


def _results(raw: Raw) -> list[Raw]:
    """Return the results of all kinds, without those of the search."""
    return [result for kind in results.TITLES for result in raw.get(kind) or []]


def _same_operation(raw: Raw) -> t.Iterator[tuple[str, list[dict[str, t.Any]]]]:
    """Yield the final results of each kind and operation."""
    for kind in results.TITLES:
        settled = results.settled(kind, raw)
        for collective in dict.fromkeys(result["collective"] for result in settled):
            yield kind, [result for result in settled if result["collective"] == collective]


def _missed(raw: Raw) -> list[Check]:
    """Return the checks of groups that were not measured."""
    known = results.known(raw)
    found = []
    for kind, title in results.TITLES.items():
        seen = {(tuple(result["nodes"]), result["collective"]) for result in known[kind]}
        for result in raw.get(kind) or []:
            if results.lost(result) and (tuple(result["nodes"]), result["collective"]) not in seen:
                found += figure_checks.bandwidth([result], f"nccl.{kind}", title)
    return found


def _used(raw: Raw) -> dict[str, str]:
    """Return the versions that the programs printed, which are those in the container."""
    names = {"version": "nccl-tests" if raw.get("program") == "nccl" else "gpucluster-mpi", "nccl": "NCCL in use"}
    return {name: result[key] for result in _results(raw) for key, name in names.items() if result.get(key)}


def _failed(raw: Raw, least: t.Mapping[str, t.Mapping[str, float]]) -> list[frozenset[str]]:
    """Return the groups that failed or are below the failure limit; the search also includes groups with warnings."""
    seen: dict[frozenset[str], list[float]] = {}
    for kind in ("pair", "all", "search"):
        for result in raw.get(kind) or []:
            if results.first(result, raw):
                seen.setdefault(frozenset(result["nodes"]), []).append(results.level(result))
    levels = {group: statistics.median_high(values) for group, values in seen.items()}
    return [
        group
        for group, level in levels.items()
        if not level or level < least["pair" if len(group) == 2 else "all"].get("fail", 0.0)
    ]


def _curve(result: Raw, judged: Check) -> dict[str, t.Any]:
    """Return one line of a plot."""
    return {
        "title": judged["title"],
        "name": judged["group"],
        "rows": list(result["rows"]),
        "bad": judged["status"] in (WARN, FAIL),
        "limits": judged["limits"],
    }


def _map(pairs: t.Sequence[Raw], least: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the map of pairs; the best measurement of a pair counts, because noise only reduces bandwidth."""
    best: dict[tuple[str, ...], float | None] = {}
    for result in pairs:
        nodes = tuple(sorted(result["nodes"]))
        best[nodes] = max((value for value in (best.get(nodes), result["busbw"]) if value is not None), default=None)
    return {
        "collective": pairs[0]["collective"],
        "limits": dict(least["pair"]),
        "values": [{"nodes": list(nodes), "busbw": value} for nodes, value in best.items()],
    }
