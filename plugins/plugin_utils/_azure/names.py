# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Assign a unique host name to every machine."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.model import default_name

if t.TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Record = dict[str, t.Any]


def choose(records: Sequence[Record], wanted: Callable[[Record], str], warn: Callable[[str], None]) -> list[str]:
    """
    Return one name per record.

    Of several machines with the same name, the oldest keeps it, so that a new machine never takes a name in use;
    the others get the default name, or a longer name if the default name is in use.
    """
    names = [""] * len(records)
    taken: set[str] = set()
    claimed: dict[str, list[int]] = {}
    for position, record in enumerate(records):
        claimed.setdefault(wanted(record), []).append(position)
    renamed = []
    for name, positions in claimed.items():
        first, *others = sorted(positions, key=lambda one: _age(records[one])) if len(positions) > 1 else positions
        names[first] = name
        taken.add(name)
        renamed += [(name, one) for one in others]
    for name, position in renamed:
        names[position] = _free(records[position], taken)
        taken.add(names[position])
        warn(f"two machines want the host name {name}; {records[position]['id']} is named {names[position]} instead")
    return names


def _age(record: Record) -> tuple[str, str]:
    return (str(record["creation_time"] or "9"), record["id"].lower())


def _free(record: Record, taken: set[str]) -> str:
    return next(
        name
        for digits in (4, 8, 16, 40)
        if (name := default_name(record["name"], record["id"], digits)) not in taken or digits == 40
    )
