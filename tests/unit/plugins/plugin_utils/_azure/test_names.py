"""No machine is lost by its name."""

from __future__ import annotations

import typing as t

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import machine_names
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure import names
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.model import default_name

MEANING = ["localhost", "LocalHost", "127.0.0.1", "::1", "all", "ungrouped", "default", "ip6-localhost"]


def record(number: int, name: str, created: str | None = None) -> dict[str, t.Any]:
    return {"id": f"/subscriptions/s/{number}", "name": name, "creation_time": created}


def test_the_oldest_keeps_the_name() -> None:
    warnings: list[str] = []
    machines = [record(1, "a", "2026-02"), record(2, "a", "2026-01"), record(3, "a"), record(4, "b")]

    found = names.choose(machines, lambda one: str(one["name"]), warnings.append)

    assert found[1] == "a"
    assert found[3] == "b"
    assert found[0].startswith("a_")
    assert len(set(found)) == 4
    assert len(warnings) == 2


def test_a_hash_that_is_the_same_becomes_longer() -> None:
    first: dict[str, int] = {}
    for number in range(2000):
        other = first.setdefault(default_name("a", f"/subscriptions/s/{number}"), number)
        if other != number:
            break
    machines = [record(9999, "a", "2026-01"), record(other, "a"), record(number, "a")]

    found = names.choose(machines, lambda one: str(one["name"]), lambda _text: None)

    assert len(set(found)) == 3
    assert sorted(map(len, found)) == [1, 6, 10]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from(["a", "b", "a_0000"]), max_size=30))
def test_every_machine_has_a_name_of_its_own(wanted: list[str]) -> None:
    machines = [record(number, name) for number, name in enumerate(wanted)]

    found = names.choose(machines, lambda one: str(one["name"]), lambda _text: None)

    assert len(set(found)) == len(machines)
    assert "" not in found


@pytest.mark.parametrize("name", ["a", "vm-1", "hpc_17", "n1.example.org", "1"])
def test_names_that_can_be_hosts(name: str) -> None:
    assert machine_names.usable(name)


@pytest.mark.parametrize(
    "name", ["", "a b", "a,b", "!x", "-x", "{{ x }}", "a:22", "[a]", "ü", None, 7, "a\n", *MEANING]
)
def test_names_that_could_be_something_else(name: t.Any) -> None:
    assert not machine_names.usable(name)
