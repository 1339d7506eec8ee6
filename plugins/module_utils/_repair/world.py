# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""What steps share: the access to machine and network, their results, and a node without a job."""

from __future__ import annotations

import socket
import typing as t

if t.TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from . import slurm

_JOB_END_SECONDS = 20
_LONGEST = 200


class Waiting(Exception):  # noqa: N818 - not an error: the next run goes on
    """The step is not over; the message says what it waits for."""


class Done(t.NamedTuple):
    """The result of a step."""

    ok: bool
    text: str


class World(t.NamedTuple):
    """All access to the machine and the network; tests pass a substitute."""

    run: slurm.Run
    clock: Callable[[], float]  # seconds since the epoch, for what people read
    uptime: Callable[[], float]  # seconds since the boot of this machine, for periods
    boot: Callable[[], str]  # the ID of this boot of this machine
    pause: Callable[[float], None]
    post: Callable[[str, Mapping[str, t.Any]], str]  # sends a ticket to a URL; returns an error or nothing
    address: Callable[[str], str]  # of a node; nodes need not know the names of others


def address(name: str) -> str:
    """Return the IPv4 address that this machine knows for a name, or the name."""
    try:
        return str(socket.getaddrinfo(name, None, socket.AF_INET)[0][4][0])
    except OSError:
        return name


def free(cluster: slurm.Slurm, world: World, node: str) -> None:
    """Cancel the own job on a node; wait until neither the list of jobs nor the node itself shows one."""
    for _second in range(_JOB_END_SECONDS):
        if cluster.cancel(node) and not cluster.node(node).busy:
            return
        world.pause(1)
    raise Waiting("the end of a job")


def short(text: str) -> str:
    """Return a text in one line, without its begin if it is long."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"...{line[-_LONGEST:]}"
