# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import math
import random
import statistics
import typing as t

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import isolation

MINIMUM = 150.0


class Fabric:
    """A simulated cluster: groups with a bad node or over a bad link get half of the bandwidth."""

    def __init__(self, size: int, bad: t.Collection[int] = (), *, noise: float = 0.0, seed: int = 0) -> None:
        self.nodes = [f"gpu{number}" for number in range(1, size + 1)]
        self.bad = {self.nodes[number] for number in bad}
        self.links: set[frozenset[str]] = set()
        self.noise = noise
        self.glitches = 0.0
        self.level = 0.5  # what is left over something bad
        self.large = 1.0  # what is left for more than two nodes
        self.random = random.Random(seed)
        self.seen: list[isolation.Observation] = []
        self.rounds = 0

    def measure(self, groups: t.Iterable[t.Sequence[str]]) -> None:
        for group in groups:
            slow = set(group) & self.bad or any(link <= set(group) for link in self.links)
            value = 190.0 * (self.level if slow or self.random.random() < self.glitches else 1.0)
            value *= self.large if len(group) > 2 else 1.0
            self.seen.append(isolation.Observation(tuple(group), value * (1 + self.random.gauss(0, self.noise))))

    def isolate(self, minimum: float = MINIMUM, many: float | None = None) -> dict[str, t.Any]:
        while groups := isolation.next_groups(self.nodes, self.seen, minimum, many=many):
            assert len({node for group in groups for node in group}) == sum(map(len, groups)), "a node is busy twice"
            self.rounds += 1
            assert self.rounds < 60, "the search does not end"
            self.measure(groups)
        return isolation.verdict(self.nodes, self.seen, minimum, many=many)


def named(outcome: dict[str, t.Any]) -> set[str]:
    return {finding["name"] for finding in outcome["bad"]}


@settings(max_examples=40, deadline=None)
@given(size=st.integers(2, 70))
def test_tournament_plays_every_pair_once_and_no_node_twice_in_a_round(size: int) -> None:
    nodes = [str(number) for number in range(size)]
    rounds = isolation.tournament(nodes)

    assert len(rounds) == (size if size % 2 else size - 1)
    assert len({frozenset(pair) for pairs in rounds for pair in pairs}) == size * (size - 1) // 2
    assert all(len({node for pair in pairs for node in pair}) == 2 * (size // 2) for pairs in rounds)


@pytest.mark.parametrize("bad", [1, 2])
@pytest.mark.parametrize("size", [4, 5, 7, 8, 16, 31, 64, 100, 333, 1000])
def test_search_is_near_the_optimum(size: int, bad: int, capsys: pytest.CaptureFixture[str]) -> None:
    jobs, rounds = [], []
    for seed in range(8):
        fabric = Fabric(size, random.Random(seed).sample(range(size), bad), noise=0.03, seed=seed)
        fabric.measure([fabric.nodes])
        outcome = fabric.isolate()
        assert named(outcome) == fabric.bad
        assert outcome["complete"]
        assert not outcome["links"]
        jobs.append(len(fabric.seen))
        rounds.append(fabric.rounds)

    # Pass-or-fail measurements that tell one set of bad nodes from all others.
    bound = math.ceil(math.log2(math.comb(size, bad)))
    with capsys.disabled():
        print(
            f"\n{size:5} nodes, {bad} bad: {statistics.mean(jobs):.1f} jobs (at most {max(jobs)}) in at most"
            f" {max(rounds)} rounds; no method can do with less than {bound}, confirmation not counted",
            end="",
        )
    # The first measurement of all nodes and one confirmation for each bad node are on top of the search itself.
    assert statistics.mean(jobs) <= bound + 1 + 4 * bad


# As long as one pair of the round has only good nodes.
@pytest.mark.parametrize(
    ("size", "bad"), [(4, 1), (5, 1), (5, 2), *((size, bad) for size in (9, 16, 101) for bad in (1, 2, 3))]
)
def test_one_round_of_pairs_needs_one_round_more(size: int, bad: int) -> None:
    fabric = Fabric(size, range(0, 2 * bad - 1, 2), seed=size)
    fabric.measure(isolation.tournament(fabric.nodes)[0])
    outcome = fabric.isolate()

    assert named(outcome) == fabric.bad
    assert outcome["complete"]
    assert len(fabric.seen) <= size // 2 + 4 * bad + 2


def test_three_nodes_are_enough_for_one_bad_one() -> None:
    for bad in range(3):
        fabric = Fabric(3, [bad])
        fabric.measure([fabric.nodes])

        assert named(fabric.isolate()) == fabric.bad


def test_two_bad_of_three_are_not_guessed() -> None:
    fabric = Fabric(3, [0, 2])
    fabric.measure([fabric.nodes])
    outcome = fabric.isolate()

    assert not outcome["bad"]
    assert not outcome["good"]
    assert {node for group in outcome["undecided"] for node in group} == set(fabric.nodes)


def test_a_bad_link_is_no_bad_node() -> None:
    fabric = Fabric(8)
    fabric.links = {frozenset({"gpu1", "gpu8"})}
    fabric.measure(isolation.tournament(fabric.nodes)[0])
    outcome = fabric.isolate()

    assert not outcome["bad"]
    assert [link["nodes"] for link in outcome["links"]] == [["gpu1", "gpu8"]]
    assert outcome["links"][0]["confidence"] == "high"
    assert len(outcome["links"][0]["samples"]) == 2


def test_a_good_cluster_takes_one_job() -> None:
    fabric = Fabric(1000)
    outcome = fabric.isolate()

    assert (len(fabric.seen), outcome["bad"], outcome["complete"]) == (1, [], True)
    assert len(outcome["good"]) == 1000


def test_a_large_group_with_a_lax_minimum_does_not_acquit_a_node() -> None:
    fabric = Fabric(4, [2])
    fabric.measure(pair for games in isolation.tournament(fabric.nodes) for pair in games)
    fabric.measure([fabric.nodes])
    outcome = isolation.verdict(fabric.nodes, fabric.seen, MINIMUM, many=50.0)

    assert named(outcome) == {"gpu3"}
    assert not outcome["links"]


@pytest.mark.parametrize("level", [0.4, 0.6, 0.71, 0.75, 0.8])
@pytest.mark.parametrize("size", [3, 5, 8, 9, 10, 11, 12, 16, 17, 32, 33, 64])
@pytest.mark.parametrize("many", [0.7, 0.85])
def test_a_bad_node_is_no_bad_link_and_the_other_way_round(size: int, many: float, level: float) -> None:
    rounds = isolation.tournament(Fabric(size).nodes, 0 if size <= 8 else 1)
    pairs = [pair for games in rounds for pair in games]
    for place in (0, size // 3, size - 1):
        for bad in ([place], []):
            fabric = Fabric(size, bad, noise=0.005, seed=place)
            fabric.level = level
            fabric.links = set() if bad else {frozenset(pairs[place % len(pairs)])}
            fabric.measure(pairs)
            fabric.measure([fabric.nodes])
            outcome = fabric.isolate(0.85 * 190.0, many * 190.0)

            assert (named(outcome), outcome["complete"]) == (fabric.bad, True)
            assert {frozenset(link["nodes"]) for link in outcome["links"]} == fabric.links
            assert not outcome["shared"]


def test_a_lax_minimum_of_large_groups_ends_the_search_too() -> None:
    fabric = Fabric(33, [10, 11, 18])
    fabric.large = 0.75
    fabric.measure([fabric.nodes])

    assert named(fabric.isolate(many=133.0)) == fabric.bad


def test_a_hung_job_counts_as_no_bandwidth() -> None:
    fabric = Fabric(4)
    seen = [isolation.Observation(("gpu1", "gpu2"), None), isolation.Observation(("gpu3", "gpu4"), 190.0)]

    assert isolation.next_groups(fabric.nodes, seen, MINIMUM) == [("gpu1", "gpu3"), ("gpu2", "gpu4")]


def test_noise_does_not_convict_the_innocent() -> None:
    convicted = 0
    for seed in range(60):
        fabric = Fabric(16, noise=0.03, seed=seed)
        fabric.glitches = 0.05
        fabric.measure(isolation.tournament(fabric.nodes)[0])
        convicted += any(finding["confidence"] == "high" for finding in fabric.isolate()["bad"])

    assert convicted <= 2


def test_a_bad_node_is_measured_with_two_partners_before_it_is_named_for_sure() -> None:
    fabric = Fabric(16, [5], noise=0.01)
    fabric.measure([fabric.nodes])
    outcome = fabric.isolate()
    partners = {o.nodes for o in fabric.seen if len(o.nodes) == 2 and "gpu6" in o.nodes}

    assert outcome["bad"][0]["confidence"] == "high"
    assert outcome["bad"][0]["below_usual"] == pytest.approx(0.5, abs=0.05)
    assert len(partners) >= 2


def test_order_of_measurements_does_not_matter_to_what_is_known() -> None:
    fabric = Fabric(9, [3])
    fabric.measure(isolation.tournament(fabric.nodes)[0])
    fabric.isolate()

    assert named(isolation.verdict(fabric.nodes, fabric.seen[::-1], MINIMUM)) == {"gpu4"}


def _outcome(values: t.Sequence[float], *good: float) -> dict[str, t.Any]:
    """Return what is said of gpu1, measured with a new partner each time, beside a pair of good nodes."""
    seen = [isolation.Observation(("gpu1", f"gpu{number + 2}"), value) for number, value in enumerate(values)]
    seen += [isolation.Observation(("gpu2", "gpu3"), value) for value in good]
    found = isolation.verdict(["gpu1", "gpu2", "gpu3"], seen, MINIMUM)
    return next(finding for finding in found["bad"] if finding["name"] == "gpu1")


@pytest.mark.parametrize(
    ("values", "good", "confidence"),
    [
        ([95.0, 96.0], [190.0], "high"),
        ([95.0], [190.0], "low"),  # once is not enough
        ([140.0, 140.0], [190.0, 165.0], "medium"),  # good pairs differ nearly as much
        ([80.0, 140.0], [190.0], "medium"),  # its own figures do not agree
    ],
)
def test_confidence_grows_with_what_was_seen(values: list[float], good: list[float], confidence: str) -> None:
    assert _outcome(values, *good)["confidence"] == confidence


@pytest.mark.parametrize(
    ("values", "good"), [([100.0, 160.0], True), ([100.0, 110.0, 160.0], False), ([100.0, 160.0, 170.0], True)]
)
def test_noise_only_ever_takes_bandwidth_away(values: list[float], good: bool) -> None:
    seen = [isolation.Observation(("a", "b"), value) for value in values]

    assert isolation.verdict(["a", "b"], seen, MINIMUM)["good"] == (["a", "b"] if good else [])


def test_of_two_low_figures_the_better_one_is_told() -> None:
    assert _outcome([80.0, 140.0], 190.0)["measured"] == 140.0
