# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""What Azure says about the VM sizes that a set of nodes can have: C(sizes.yml), beside the hardware catalogue."""

from __future__ import annotations

import functools
import typing as t
from pathlib import Path

from ansible.module_utils.common.yaml import yaml_load

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue import records

FILE = Path(__file__).with_name("sizes.yml")


class Size(t.NamedTuple):
    """One VM size: temporary disk in GiB, and what machines of the size can have."""

    name: str
    temp_gib: int
    infiniband: bool
    # How many machines NVLink joins, and what gpu_imex must say then.
    rack: int
    imex: str
    # The day after which Azure makes no machine of it, or empty.
    retired: str
    reservation: bool
    # The SKU of the image that the user must name, or empty where the pinned image is usable.
    image_sku: str


@functools.cache
def load() -> dict[str, Size]:
    """Return the sizes by name in lower case, because Azure compares names of sizes without case."""
    sizes = _file()["sizes"]
    return {name.lower(): _size(name, facts) for name, facts in sizes.items()}


def names() -> list[str]:
    """Return the names of all sizes of which Azure makes machines."""
    return [size.name for size in load().values() if not size.retired]


def find(name: str) -> Size:
    """Return one size; KeyError if it is unknown."""
    return load()[name.lower()]


def image() -> str:
    """Return the pinned image of all machines."""
    return str(_file()["image"])


def image_gib() -> int:
    """Return the size of the system disk of the pinned image, in GiB."""
    return int(_file()["image_gib"])


def _size(name: str, facts: t.Mapping[str, t.Any]) -> Size:
    record = records.find(name)
    return Size(
        name=name,
        temp_gib=facts["temp_gib"],
        infiniband=bool(record["infiniband"]["hcas"]),
        rack=records.machines_of_nvlink(record),
        imex=records.imex(record),
        retired=facts.get("retired", ""),
        reservation=facts.get("reservation", False),
        image_sku=str(facts.get("image_sku", "")),
    )


@functools.cache
def _file() -> dict[str, t.Any]:
    return t.cast("dict[str, t.Any]", yaml_load(FILE.read_text(encoding="utf-8")))
