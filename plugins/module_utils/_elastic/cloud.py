# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""The machines of elastic sets: what a cloud can do, and the configuration of the program."""

from __future__ import annotations

import json
import typing as t

if t.TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .slurm import Node

# Seconds that an unexpected machine, or a node without a machine, must last before something is done about it.
GRACE = 60.0
# Seconds between two observations that count as one period. After a longer gap the period starts again.
GAP = 300.0
# Seconds after a failure of a cloud during which the same set makes no new request.
RETRY = 60.0


class ElasticError(Exception):
    """Something cannot be done now. The message contains the reason; the next pass tries again."""


class Machine(t.NamedTuple):
    """
    One machine of a cloud.

    C(node) is its name in Slurm, or empty; C(gone) tells that the cloud is deleting it; C(host) is its host name if it
    differs from the node; C(absent) tells that only earlier lists had it.
    """

    id: str
    node: str
    gone: bool = False
    host: str = ""
    absent: bool = False


class Set(t.NamedTuple):
    """
    One elastic set: names of its nodes, how many of them always run, and the settings of its cloud.

    C(end_limit) is how many machines and nodes one pass may end without a request of Slurm, C(start_limit) after how
    many starts without a registration the set starts no more machines.
    """

    name: str
    nodes: tuple[str, ...]
    provider: str
    min_count: int
    options: dict[str, t.Any]
    end_limit: int
    start_limit: int


class Config(t.NamedTuple):
    """What the program reads from its configuration file."""

    sets: tuple[Set, ...]
    directory: str


class Cloud(t.Protocol):
    """The machines of one set. Each method raises ElasticError if the cloud does not answer."""

    def machines(self, nodes: Mapping[str, Node]) -> list[Machine]:
        """Return all machines of the set, with those that are starting or being deleted; O(nodes) are Slurm's."""

    def start(self, nodes: Sequence[str]) -> dict[str, str]:
        """Request machines for nodes and return the nodes that get none, each with the reason."""

    def stop(self, machines: Sequence[Machine]) -> None:
        """Request the deletion of machines by their names."""


def read_config(text: str, path: str) -> Config:
    """Return the configuration; raise ElasticError if it is not usable."""
    try:
        found = json.loads(text)
        return Config(tuple(_set(one) for one in found["sets"]), str(found["directory"]))
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        raise ElasticError(f"{path} is not a valid configuration: {exc!r}") from None


def _set(found: dict[str, t.Any]) -> Set:
    return Set(
        name=str(found["name"]),
        nodes=tuple(str(node) for node in found["nodes"]),
        provider=str(found["provider"]),
        min_count=int(found["min_count"]),
        options=dict(found["options"]),
        end_limit=int(found["end_limit"]),
        start_limit=int(found["start_limit"]),
    )
