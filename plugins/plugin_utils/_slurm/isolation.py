# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
Find the node or link that holds a whole group back, with as few measurements as possible.

A collective operation runs at the pace of its slowest member. So a group that reaches the minimum has only good
members, and a group that falls short has at least one bad member or a bad link. C(next_groups) is a pure function
from what was measured so far to what should be measured next; it keeps no state, so a caller can loop over it,
and an interrupted run can go on. Sets of suspects are halved (binary splitting); suspects of a tournament of pairs
each get a partner that is known to be good.
"""

from __future__ import annotations

import math
import statistics
import typing as t

Group = frozenset[str]


class Observation(t.NamedTuple):
    """One measurement: who took part, and the bandwidth in GB/s; None if the job failed or hung."""

    nodes: tuple[str, ...]
    value: float | None


class Knowledge(t.NamedTuple):
    """What follows from the observations."""

    good: set[str]
    bad: dict[str, list[float]]  # node: what was measured in groups where all others are good
    doubted: set[str]  # bad nodes that one bad link would explain as well
    suspects: list[Group]  # groups that fell short, without their good members, where no bad node explains it
    links: list[Group]  # pairs of good nodes that fall short between them
    unknown: set[str]
    shared: list[Group]  # larger groups of good nodes that fall short together


def tournament(nodes: t.Sequence[str], most: int = 0) -> list[list[tuple[str, str]]]:
    """
    Return the rounds of a round-robin tournament: each pair once, each node at most once in a round.

    An odd number of nodes needs as many rounds as nodes, and one node rests in each; an even number one round less.
    If O(most) rounds leave somebody out, that node's pair of the next round follows.
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


def lower_bound(nodes: int, bad: int) -> int:
    """Return the number of yes-or-no measurements below which nobody can name so many bad nodes among so many."""
    return math.ceil(math.log2(math.comb(nodes, bad))) if nodes >= bad else 0


def know(
    nodes: t.Sequence[str],
    observations: t.Sequence[Observation],
    minimum: float,
    many: float | None = None,
) -> Knowledge:
    """
    Return what follows from the observations; a group measured several times counts with its median.

    O(minimum) in GB/s holds for pairs, and O(many), where it is given, for larger groups.
    """
    measured = _measured(nodes, observations)
    short = [
        group
        for group, values in measured.items()
        if _level(values) < (many if many is not None and len(group) > 2 else minimum)
    ]
    good = _good(measured, short, minimum)
    links = [group for group in short if len(group) == 2 and group <= good]
    # A larger group over a bad link falls short because of it, and says nothing about its members.
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
    Return the groups to measure next, all of which can run at the same time; empty when there is nothing left to learn.

    Nodes that nobody has measured are measured together first. Every bad node, bad link and shortfall of good
    nodes together is measured as often as C(repeats) says, a bad node with different partners, before it is named.
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
    """Return the outcome: bad nodes and links with their evidence and how sure it is."""
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
    """Groups that can run at the same time."""

    def __init__(self, order: dict[str, int], good: set[str]) -> None:
        self.groups: list[tuple[str, ...]] = []
        self._order = order
        self._good = sorted(good, key=order.__getitem__)
        self._busy: set[str] = set()

    def add(self, group: t.AbstractSet[str]) -> bool:
        """Plan a group if all of its members are free."""
        if len(group) < 2 or group & self._busy:
            return False
        self._busy |= group
        self.groups.append(tuple(sorted(group, key=self._order.__getitem__)))
        return True

    def with_partner(self, node: str, measured: dict[Group, list[float]]) -> bool:
        """Plan a node with a good one, with a new partner where there is one."""
        free = [other for other in self._good if other not in self._busy and other != node]
        free.sort(key=lambda other: len(measured.get(frozenset({node, other}), [])))
        return bool(free) and self.add({node, free[0]})

    def free(self, nodes: t.AbstractSet[str]) -> list[str]:
        """Return those that take part in nothing yet."""
        return sorted(nodes - self._busy, key=self._order.__getitem__)


def _split(plan: _Plan, core: Group, state: Knowledge, measured: dict[Group, list[float]]) -> None:
    """Plan what takes a set of suspects apart."""
    members = plan.free(core)
    if len(members) < len(core):
        return
    if len(members) == 2:
        # Each with a partner of its own, at the same time: one job more, one round less.
        separated = [plan.with_partner(node, measured) for node in members]
        if not any(separated) and not state.good:
            _look_for_a_partner(plan, core, state, measured)
        return
    half = members[: len(members) // 2]
    # A half that was measured already proved nothing: a lax minimum does not acquit who falls short in a pair.
    if len(half) == 1 or frozenset(half) in measured:
        plan.with_partner(half[0], measured) or plan.add(set(members[:2]))
    else:
        plan.add(set(half))


def _look_for_a_partner(plan: _Plan, core: Group, state: Knowledge, measured: dict[Group, list[float]]) -> None:
    """Plan pairs outside of two suspects, because no node is known to be good yet; at last any pair that is new."""
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
    """Plan the nodes about which nothing is known yet, once every set of suspects is explained."""
    if state.suspects or plan.groups:
        return
    rest = frozenset(plan.free(state.unknown))
    if len(rest) == 1:
        plan.with_partner(next(iter(rest)), measured)
    elif rest and rest not in measured:
        plan.add(rest)


def _measured(nodes: t.Sequence[str], observations: t.Sequence[Observation]) -> dict[Group, list[float]]:
    """Return all values by group, in the order of the first measurement; a failed job counts as no bandwidth at all."""
    wanted = set(nodes)
    measured: dict[Group, list[float]] = {}
    for observation in observations:
        if set(observation.nodes) <= wanted and len(observation.nodes) > 1:
            measured.setdefault(frozenset(observation.nodes), []).append(observation.value or 0.0)
    return measured


def _good(measured: dict[Group, list[float]], short: t.Sequence[Group], minimum: float) -> set[str]:
    """
    Return the members of groups that reach the minimum.

    A large group may reach a lax minimum with a bad member. So below that of pairs it does not count for a node that
    falls short in a pair, and never for one that falls short with two others of which each has been good in a pair;
    unless the node has been good in a pair itself.
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
    """Return what counts of several measurements: the upper median, because noise only ever takes bandwidth away."""
    return statistics.median_high(values)


def _minimal(cores: t.Sequence[Group]) -> list[Group]:
    """Return the sets that contain no other, smallest first, without overlap in what is taken apart."""
    found: list[Group] = []
    for core in sorted(cores, key=len):
        if not any(smaller <= core for smaller in found):
            found.append(core)
    return found


def _noise(repeated: t.Sequence[t.Sequence[float]]) -> float:
    """Return how far repeated measurements of one group lie apart, as a fraction; at least 2 percent."""
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
