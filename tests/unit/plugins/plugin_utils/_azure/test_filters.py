"""Which machines stay."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure import filters
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.settings import check_filters


def record(**changes: t.Any) -> dict[str, t.Any]:
    return {
        "name": "Vm1",
        "resource_group": "rg",
        "location": "eastus",
        "vm_size": "Standard_ND96",
        "powerstate": "running",
        "provisioning_state": "succeeded",
        "vmss": {"name": "Hpc"},
        "tags": {"role": "a", "n": "1"},
        "facts_missing": [],
        **changes,
    }


@pytest.mark.parametrize(
    ("given", "stays"),
    [
        ({}, True),
        ({"names": "vm1"}, True),
        ({"names": ["x"]}, False),
        ({"vm_sizes": "STANDARD_ND96", "locations": ["EastUS", "x"]}, True),
        ({"scale_sets": "hpc"}, True),
        ({"scale_sets": "other"}, False),
        ({"powerstates": ["stopped"]}, False),
        ({"tags": {"role": "a"}}, True),
        ({"tags": {"role": ["b", "a"], "n": 1}}, True),
        ({"tags": {"role": "A"}}, False),
        ({"tags": {"gone": None}}, False),
        ({"tags": {"role": None}}, True),
        ({"locations": None, "tags": None}, True),
    ],
)
def test_structured_filters(given: dict[str, t.Any], stays: bool) -> None:
    assert bool(filters.keep([record()], check_filters(given))) is stays


def test_a_size_that_is_not_known_does_not_match() -> None:
    assert filters.keep([record(vm_size=None)], check_filters({"vm_sizes": "none"})) == []


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, None),
        ({"powerstate": "deallocated"}, "off"),
        ({"powerstate": "stopped"}, "off"),
        ({"powerstate": "starting"}, "power state starting"),
        ({"powerstate": "unknown"}, "power state unknown"),
        ({"powerstate": "unknown", "facts_missing": ["powerstate"]}, None),
        ({"provisioning_state": "failed"}, "provisioning state failed"),
    ],
)
def test_the_default_rules_say_why(changes: dict[str, t.Any], reason: str | None) -> None:
    assert filters.hidden_by_default(record(**changes)) == reason
