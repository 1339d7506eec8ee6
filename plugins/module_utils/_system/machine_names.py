# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""The rules for names of machines: which names can be used, and which mean something else to Ansible or Slurm."""

from __future__ import annotations

import re
import typing as t

if t.TYPE_CHECKING:
    from collections.abc import Container

# A name that Ansible cannot read as a pattern.
HOST = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?")
# What hostname -s prints, in lower case.
_SHORT = re.compile(r"[a-z0-9]([a-z0-9_-]*[a-z0-9])?")
# The control node, for Ansible: tasks that are delegated to localhost run on a machine of this name.
CONTROL_NODE = ("localhost", "127.0.0.1", "::1")
# Further names of the own machine, the groups that every inventory has, and the words of Slurm for all nodes and for
# defaults.
_MEANING = (*CONTROL_NODE, "localhost.localdomain", "ip6-localhost", "ip6-loopback", "all", "ungrouped", "default")


def has_meaning(name: str) -> bool:
    """Return whether a name means something else than one machine."""
    return name.lower() in _MEANING


def usable(name: t.Any, groups: Container[str] = ()) -> bool:
    """Return whether a value can be the name of a machine in an inventory with these groups."""
    return isinstance(name, str) and bool(HOST.fullmatch(name)) and not has_meaning(name) and name not in groups


def is_short(name: str, said: bool = False) -> bool:
    """Return whether slurmd finds a name in its configuration; I(said): the cloud gave it to the machine."""
    short = (said and "." not in name) or bool(_SHORT.fullmatch(name))
    return short and not name.isdigit() and not has_meaning(name)
