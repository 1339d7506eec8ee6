# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter slurm_topology_problems: a sentence for each fault, and never an exception."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.filter.slurm_topology_problems import slurm_topology_problems

PLACES = {"gpu[1-8]": "leaf1"}


@pytest.mark.parametrize(
    ("places", "kind", "known", "words"),
    [
        (PLACES, "tree", ["gpu[1-8]"], []),
        (PLACES, "", ["other"], []),
        (PLACES, "tree", ["gpu[1-4]"], ["gpu"]),
        ({"gpu[1-": "leaf1"}, "tree", ["gpu1"], ["slurm_topology"]),
    ],
)
def test_each_fault_of_a_topology_is_a_sentence(
    places: dict[str, t.Any], kind: str, known: list[str], words: list[str]
) -> None:
    problems = slurm_topology_problems(places, kind, known=known)

    assert bool(problems) == bool(words)
    assert all(problem.startswith("slurm_topology: ") for problem in problems)
    assert all(word in " ".join(problems) for word in words)
