"""Which scale sets are read, and which are read again."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure import scale_sets
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.scope import Groups


def scale_set(name: str, mode: str = "Uniform", capacity: int | None = 2, group: str = "RG") -> dict[str, t.Any]:
    set_id = f"/subscriptions/s/resourceGroups/{group}/providers/Microsoft.Compute/virtualMachineScaleSets/{name}"
    return {"id": set_id, "name": name, "mode": mode, "capacity": capacity, "location": "eastus"}


def instance(owner: dict[str, t.Any], number: int) -> dict[str, t.Any]:
    return {"id": f"{owner['id'].upper()}/virtualMachines/{number}"}


@pytest.mark.parametrize(
    ("groups", "filters", "expected"),
    [
        (("*",), {}, ["a", "b"]),
        (("rg",), {}, ["a"]),
        (("r*",), {}, ["a"]),
        (("*",), {"scale_sets": ("b",)}, ["b"]),
        (("*",), {"locations": ("westus",)}, []),
        ((), {}, []),
    ],
)
def test_uniform_sets_of_the_wanted_groups(
    groups: tuple[str, ...], filters: dict[str, t.Any], expected: list[str]
) -> None:
    have = Groups("o", groups, {})
    known = [scale_set("a"), scale_set("b", group="other"), scale_set("c", mode="Flexible")]

    assert [one["name"] for one in scale_sets.wanted(known, have.have, filters)] == expected


def test_the_instances_of_other_sets_stay() -> None:
    full, short = scale_set("full"), scale_set("short")
    machines = [instance(full, 0), instance(full, 5), instance(short, 0)]

    assert scale_sets.without(machines, [short]) == machines[:2]


def test_a_flexible_member_names_its_set() -> None:
    assert scale_sets.set_of({"id": "/vm", "vmssId": "/SET"}) == "/set"
    assert scale_sets.set_of({"id": "/vm", "vmssId": None}) == ""
