# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""A node as Slurm sees it, from the output of `scontrol show node`."""

from __future__ import annotations

import re
import typing as t
from datetime import datetime

from ansible_collections.hpcai.gpucluster.plugins.module_utils._health import marker

MINE = "repair:"  # the first word of the reason of a node in repair
_SAME_BOOT = 10  # seconds
_FIELD = r"\b{}=(\S+)"
_AWAY = {"REBOOT_ISSUED", "REBOOT_REQUESTED", "REBOOT"}
_NEVER = {"FUTURE", "POWERED_DOWN", "POWERING_DOWN", "POWERING_UP", "POWER_DOWN"}
_BUSY = {"ALLOCATED", "MIXED", "COMPLETING"}


class Node(t.NamedTuple):
    """A node as Slurm sees it."""

    name: str
    flags: frozenset[str]
    reason: str
    answers: bool = True
    boot: str = ""
    gpus: int = 0
    partition: str = ""
    address: str = ""

    @property
    def drained(self) -> bool:
        """Return whether the node accepts no new jobs."""
        return any(flag.startswith("DRAIN") for flag in self.flags)

    @property
    def mine(self) -> bool:
        """Return whether this program drained the node."""
        return self.drained and self.reason.startswith(MINE)

    @property
    def sick(self) -> bool:
        """Return whether the health check drained the node; nobody powers it or has set it to FAIL."""
        return (
            self.drained
            and bool(marker.named(self.reason))
            and not self.flags & (_AWAY | _NEVER)
            and not any(flag.startswith("FAIL") for flag in self.flags)
        )

    @property
    def slurms(self) -> bool:
        """Return whether Slurm drained the node after a failed prolog."""
        return marker.Node(self.flags, self.reason).slurms

    @property
    def rebooting(self) -> bool:
        """Return whether a reboot is requested or issued."""
        return bool(self.flags & _AWAY)

    @property
    def free(self) -> bool:
        """Return whether the node is in service and idle."""
        return self.answers and self.flags - {"CLOUD"} == {"IDLE"}

    @property
    def busy(self) -> bool:
        """Return whether the node has a job."""
        return bool(self.flags & _BUSY)

    @property
    def cloud(self) -> bool:
        """Return whether power saving starts and ends the machine of the node."""
        return "CLOUD" in self.flags

    @property
    def starting(self) -> bool:
        """Return whether power saving starts the machine of the node."""
        return bool(self.flags & {"POWER_UP", "POWERING_UP"})


def parse(text: str) -> list[Node]:
    """Return the nodes in the output of `scontrol show node`."""
    # A node has a blank line before its reason.
    return [_node(block) for block in re.split(r"^(?=NodeName=)", text, flags=re.MULTILINE) if block.strip()]


def _node(block: str) -> Node:
    state = marker.node(block)
    return Node(
        field(block, "NodeName"),
        state.flags,
        state.reason,
        "*" not in field(block, "State"),
        field(block, "BootTime"),
        sum(int(count) for count in re.findall(r"gpu(?::[^:(,\s]+)?:(\d+)", field(block, "Gres"))),
        field(block, "Partitions").partition(",")[0],
        field(block, "NodeAddr"),
    )


def field(block: str, name: str) -> str:
    """Return the value of a field that has no space; empty if there is none."""
    found = re.search(_FIELD.format(name), block)
    return found[1] if found else ""


def same_boot(one: str, other: str) -> bool:
    """
    Return whether two boot times are those of one boot.

    slurmctld computes them from the uptime in each registration, so they differ by the time of a message.
    """
    try:
        apart = datetime.fromisoformat(one) - datetime.fromisoformat(other)
    except ValueError:  # None before the first registration
        return one == other
    return abs(apart.total_seconds()) <= _SAME_BOOT
