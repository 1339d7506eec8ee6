# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
Find the node or link that slows down a group, with as few measurements as possible.

A collective operation runs at the speed of its slowest member. A group that reaches the minimum has only good members.
A group below the minimum has at least one bad member or a bad link. C(next_groups) is a pure function: it accepts the
observations and returns the groups to measure next. It keeps no state, so a caller can loop over it and can continue
an interrupted run. Sets of suspects are halved (binary splitting). Each suspect of a tournament of pairs is measured
with a partner that is known to be good.
"""

from __future__ import annotations

import statistics
import typing as t

Group = frozenset[str]


class Observation(t.NamedTuple):
    """One measurement: its nodes, and the bandwidth in GB/s; None if the job failed or hung."""

    nodes: tuple[str, ...]
    value: float | None


class Knowledge(t.NamedTuple):
    """The conclusions from the observations."""

    good: set[str]
    bad: dict[str, list[float]]  # node: values of the groups where all other members are good
    doubted: set[str]  # bad nodes that one bad link would also explain
    suspects: list[Group]  # groups below the minimum without their good members, if no bad node explains them
    links: list[Group]  # pairs of good nodes that are below the minimum
    unknown: set[str]
    shared: list[Group]  # larger groups of good nodes that are below the minimum


def tournament(nodes: t.Sequence[str], most: int = 0) -> list[list[tuple[str, str]]]:
    """
    Return the rounds of a round-robin tournament: each pair once, each node at most once per round.

    An odd number of nodes needs as many rounds as nodes, and one node rests in each. An even number needs one less.
    If a node has no pair in the first O(most) rounds, its pair of the next round is added.
    """
    circle: list[str | None] = list(nodes)
    if len(circle) % 2:
        circle.append(None)
    rounds = []
    for _round in range(len(circle) - 1):
        half = len(circle) // 2
        couples = zip(circle[:half], reversed(circle[half:]))
        rounds.append([(a, b) for a, b in couples if a is not None and b is not None])
        circle = [circle[0], circle[-1], *circle[1:-1]]
    if not 0 < most < len(rounds):
        return rounds
    played = {node for pairs in rounds[:most] for pair in pairs for node in pair}
    late = [pair for pair in rounds[most] if not set(pair) <= played]
    return rounds[:most] + ([late] if late else [])


def know(
    nodes: t.Sequence[str],
    observations: t.Sequence[Observation],
    minimum: float,
    many: float | None = None,
) -> Knowledge:
    """
    Return the conclusions from the observations; a group measured several times counts with its median.

    O(minimum) in GB/s applies to pairs. O(many), if set, applies to larger groups.
    """
    measured = _measured(nodes, observations)
    short = [
        group
        for group, values in measured.items()
        if _level(values) < (many if many is not None and len(group) > 2 else minimum)
    ]
    good = _good(measured, short, minimum)
    links = [group for group in short if len(group) == 2 and group <= good]
    # A larger group with a bad link is slow because of the link, so it proves nothing about its members.
    cores = {group: group - good for group in short if not any(link < group for link in links)}
    proofs: dict[str, list[Group]] = {}
    for group, core in cores.items():
        if len(core) == 1:
            proofs.setdefault(next(iter(core)), []).append(group)
    bad = {node: [value for group in groups for value in measured[group]] for node, groups in proofs.items()}
    suspects = [core for core in cores.values() if len(core) > 1 and not core & set(bad)]
    return Knowledge(
        good=good,
        bad=bad,
        doubted={node for node, groups in proofs.items() if len(frozenset.intersection(*groups)) > 1 < len(good)},
        suspects=_minimal(suspects),
        links=links,
        unknown=set(nodes) - good - set(bad),
        shared=[group for group, core in cores.items() if not core and len(group) > 2],
    )


def next_groups(
    nodes: t.Sequence[str],
    observations: t.Sequence[Observation],
    minimum: float,
    *,
    many: float | None = None,
    repeats: int = 2,
) -> list[tuple[str, ...]]:
    """
    Return the groups to measure next, all of which can run in parallel; empty if the search is complete.

    Nodes without a measurement are first measured together. Every bad node, bad link and slow group of good nodes is
    measured C(repeats) times before it is reported. A bad node is measured with different partners.
    """
    order = {node: place for place, node in enumerate(nodes)}
    state = know(nodes, observations, minimum, many)
    measured = _measured(nodes, observations)
    plan = _Plan(order, state.good)
    for core in state.suspects:
        _split(plan, core, state, measured)
    for node in sorted(state.bad, key=order.__getitem__):
        if len(state.bad[node]) < repeats or node in state.doubted:
            plan.with_partner(node, measured)
    for group in [*state.links, *state.shared]:
        if len(measured[group]) < repeats:
            plan.add(group)
    _rest(plan, state, measured)
    return plan.groups


def verdict(
    nodes: t.Sequence[str],
    observations: t.Sequence[Observation],
    minimum: float,
    *,
    many: float | None = None,
    repeats: int = 2,
) -> dict[str, t.Any]:
    """Return the outcome: bad nodes and bad links, each with evidence and confidence."""
    state = know(nodes, observations, minimum, many)
    measured = _measured(nodes, observations)
    levels = [_level(values) for group, values in measured.items() if len(group) == 2 and group <= state.good]
    usual = (
        statistics.median(level for level in levels if level >= minimum) if max(levels, default=0) >= minimum else None
    )
    noise = _noise([values for values in measured.values() if len(values) > 1])
    return {
        "good": sorted(state.good, key=list(nodes).index),
        "bad": [
            _finding(node, values, usual, noise, repeats)
            for node, values in sorted(state.bad.items(), key=lambda item: list(nodes).index(item[0]))
        ],
        "links": [
            {"nodes": sorted(group), **_finding(" - ".join(sorted(group)), measured[group], usual, noise, repeats)}
            for group in state.links
        ],
        "undecided": [sorted(core, key=list(nodes).index) for core in state.suspects],
        "shared": [sorted(group, key=list(nodes).index) for group in state.shared],
        "usual": usual,
        "minimum": minimum,
        "jobs": len(observations),
        "complete": not next_groups(nodes, observations, minimum, many=many, repeats=repeats),
    }


class _Plan:
    """Groups that can run in parallel."""

    def __init__(self, order: dict[str, int], good: set[str]) -> None:
        self.groups: list[tuple[str, ...]] = []
        self._order = order
        self._good = sorted(good, key=order.__getitem__)
        self._busy: set[str] = set()

    def add(self, group: t.AbstractSet[str]) -> bool:
        """Add a group if all its members are free."""
        if len(group) < 2 or group & self._busy:
            return False
        self._busy |= group
        self.groups.append(tuple(sorted(group, key=self._order.__getitem__)))
        return True

    def with_partner(self, node: str, measured: dict[Group, list[float]]) -> bool:
        """Add a pair of a node and a good node; prefer a new partner."""
        free = [other for other in self._good if other not in self._busy and other != node]
        free.sort(key=lambda other: len(measured.get(frozenset({node, other}), [])))
        return bool(free) and self.add({node, free[0]})

    def free(self, nodes: t.AbstractSet[str]) -> list[str]:
        """Return the nodes that are in no group of this plan."""
        return sorted(nodes - self._busy, key=self._order.__getitem__)


def _split(plan: _Plan, core: Group, state: Knowledge, measured: dict[Group, list[float]]) -> None:
    """Add groups that split a set of suspects."""
    members = plan.free(core)
    if len(members) < len(core):
        return
    if len(members) == 2:
        # Each suspect gets its own good partner, in parallel: one more job, one round less.
        separated = [plan.with_partner(node, measured) for node in members]
        if not any(separated) and not state.good:
            _look_for_a_partner(plan, core, state, measured)
        return
    half = members[: len(members) // 2]
    # If this half was already measured, its result is no proof: a low minimum may accept a node that is slow in a pair.
    if len(half) == 1 or frozenset(half) in measured:
        plan.with_partner(half[0], measured) or plan.add(set(members[:2]))
    else:
        plan.add(set(half))


def _look_for_a_partner(plan: _Plan, core: Group, state: Knowledge, measured: dict[Group, list[float]]) -> None:
    """Add pairs that are not the two suspects, because no good node is known yet; if none is left, add any new pair."""
    outside = plan.free(state.unknown - core)
    everyone = plan.free(state.unknown)
    candidates = [*zip(outside[::2], outside[1::2])] + [
        (a, b) for i, a in enumerate(everyone) for b in everyone[i + 1 :]
    ]
    new = [{a, b} for a, b in candidates if frozenset({a, b}) not in measured]
    for pair in new:
        if len(plan.groups) < 2:
            plan.add(pair)


def _rest(plan: _Plan, state: Knowledge, measured: dict[Group, list[float]]) -> None:
    """Add the nodes without a result, once every set of suspects is explained."""
    if state.suspects or plan.groups:
        return
    rest = frozenset(plan.free(state.unknown))
    if len(rest) == 1:
        plan.with_partner(next(iter(rest)), measured)
    elif rest and rest not in measured:
        plan.add(rest)


def _measured(nodes: t.Sequence[str], observations: t.Sequence[Observation]) -> dict[Group, list[float]]:
    """Return all values by group, in the order of the first measurement; a failed job counts as zero bandwidth."""
    wanted = set(nodes)
    measured: dict[Group, list[float]] = {}
    for observation in observations:
        if set(observation.nodes) <= wanted and len(observation.nodes) > 1:
            measured.setdefault(frozenset(observation.nodes), []).append(observation.value or 0.0)
    return measured


def _good(measured: dict[Group, list[float]], short: t.Sequence[Group], minimum: float) -> set[str]:
    """
    Return the members of groups that reach the minimum.

    A large group with a bad member may reach a low minimum. Two rules therefore apply to nodes that have not passed in
    a pair. If the level of the group is below the minimum of pairs, it does not clear a node that is slow in a pair.
    It never clears a node that is slow in pairs with two other nodes that have each passed in a pair.
    """
    passed = [group for group in measured if group not in short]
    proven = {node for group in passed if len(group) == 2 for node in group}
    accusers: dict[str, set[str]] = {}
    for group in short:
        for node in group if len(group) == 2 else ():
            accusers.setdefault(node, set()).update(group - {node})
    doubtful = {node for node, others in accusers.items() if len(others & proven) > 1}
    good = set(proven)
    for group in passed:
        good |= group - (doubtful if _level(measured[group]) >= minimum else set(accusers))
    return good


def _level(values: t.Sequence[float]) -> float:
    """Return the upper median of several measurements, because noise only reduces bandwidth."""
    return statistics.median_high(values)


def _minimal(cores: t.Sequence[Group]) -> list[Group]:
    """Return the sets that contain no other set, smallest first."""
    found: list[Group] = []
    for core in sorted(cores, key=len):
        if not any(smaller <= core for smaller in found):
            found.append(core)
    return found


def _noise(repeated: t.Sequence[t.Sequence[float]]) -> float:
    """Return the spread of repeated measurements of one group as a fraction; at least 2 percent."""
    spreads = [(max(values) - min(values)) / max(values) for values in repeated if max(values) > 0]
    return max(0.02, statistics.median(spreads) if spreads else 0.05)


def _finding(name: str, values: t.Sequence[float], usual: float | None, noise: float, repeats: int) -> dict[str, t.Any]:
    """Return one finding with its evidence."""
    level = _level(values)
    gap = None if not usual else 1 - level / usual
    sure = "low"
    if usual and gap is not None and len(values) >= repeats:
        sure = "high" if gap > 3 * noise and max(values) - min(values) <= gap * usual / 2 else "medium"
    return {"name": name, "measured": level, "samples": list(values), "below_usual": gap, "confidence": sure}
