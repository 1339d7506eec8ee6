# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the MPI program counts and checks; MPI itself is tested by the scenario validate."""

from __future__ import annotations

import array
import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.roles.validate.files import mpi_bandwidth

NAMES = ("all_reduce", "all_gather", "reduce_scatter", "alltoall")


class World:
    """Ranks that do not speak."""

    def __init__(self, rank: int, ranks: int) -> None:
        self.rank, self.ranks = rank, ranks


def collective(name: str, rank: int = 1, ranks: int = 4, wanted: int = 4096) -> mpi_bandwidth.Collective:
    return mpi_bandwidth.Collective(t.cast("t.Any", World(rank, ranks)), name, wanted)


# https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md
@pytest.mark.parametrize(
    ("name", "two", "four"),
    [("all_reduce", 1.0, 1.5), ("all_gather", 0.5, 0.75), ("reduce_scatter", 0.5, 0.75), ("alltoall", 0.5, 0.75)],
)
def test_bus_bandwidth_is_that_of_nccl_tests(name: str, two: float, four: float) -> None:
    assert collective(name, ranks=2).factor() == two
    assert collective(name, ranks=4).factor() == four
    assert collective(name, rank=0, ranks=1).factor() == 1


@pytest.mark.parametrize("name", NAMES)
def test_the_buffers_hold_what_is_asked_for(name: str) -> None:
    one = collective(name)

    assert one.bytes == 4096
    assert len(one.send) * 4 == (1024 if name == "all_gather" else 4096)
    assert len(one.receive) * 4 == (1024 if name == "reduce_scatter" else 4096)


def _exchange(name: str, ranks: int = 4) -> list[mpi_bandwidth.Collective]:
    """Do what MPI does, by hand."""
    all_of = [collective(name, rank, ranks) for rank in range(ranks)]
    for rank, one in enumerate(all_of):
        size = one.block
        if name == "all_reduce":
            values = [sum(column) for column in zip(*(other.send for other in all_of))]
        elif name == "all_gather":
            values = [value for other in all_of for value in other.send]
        elif name == "reduce_scatter":
            parts = [other.send[rank * size : (rank + 1) * size] for other in all_of]
            values = [sum(column) for column in zip(*parts)]
        else:
            values = [value for other in all_of for value in other.send[rank * size : (rank + 1) * size]]
        one.receive[:] = array.array("f", values)
    return all_of


@pytest.mark.parametrize("name", NAMES)
def test_what_arrives_is_known_and_a_wrong_value_is_found(name: str) -> None:
    for one in _exchange(name):
        assert one.wrong() == 0
        one.receive[-1] += 1
        assert one.wrong() == 1


@pytest.mark.parametrize(("text", "bytes_"), [("64", 64), ("8K", 8192), ("1m", 2**20), ("2G", 2**31)])
def test_sizes_are_read(text: str, bytes_: int) -> None:
    assert mpi_bandwidth.size(text) == bytes_
