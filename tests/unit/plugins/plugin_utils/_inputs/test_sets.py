# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs.sets import Distinct
from ansible_collections.hpcai.gpucluster.tests.patience import cheap

SHARED = [{"name": f"user{number}", "uid": 2000 + number} for number in range(1000)]


def sets(hosts: dict[str, dict[str, t.Any]]) -> list[list[str]]:
    distinct = Distinct(lambda name: name.startswith("slurm_"))
    for host, variables in hosts.items():
        distinct.add(host, {**variables, "inventory_hostname": host})
    return distinct.members


@pytest.mark.parametrize(
    ("first", "second", "equal"),
    [
        ({"slurm_a": [1]}, {"slurm_a": [1]}, True),
        ({"slurm_a": 1}, {"slurm_a": 2}, False),
        ({"slurm_a": 1}, {"slurm_a": "1"}, False),
        ({"slurm_a": 1}, {}, False),
        ({"slurm_a": 1, "other": 1}, {"slurm_a": 1, "other": 2}, True),
        ({"slurm_a": "{{ x }}", "x": 1}, {"slurm_a": "{{ x }}", "x": 1}, True),
        ({"slurm_a": "{{ x }}", "x": 1}, {"slurm_a": "{{ x }}", "x": 2}, False),
        ({"slurm_a": "{{ x }}", "x": "{{ y }}", "y": 1}, {"slurm_a": "{{ x }}", "x": "{{ y }}", "y": 2}, False),
        ({"slurm_a": ["{% if x %}1{% endif %}"], "x": 1}, {"slurm_a": ["{% if x %}1{% endif %}"], "x": 0}, False),
        ({"slurm_a": "{{ inventory_hostname }}"}, {"slurm_a": "{{ inventory_hostname }}"}, False),
        ({"slurm_a": "{{ slurm_a }}"}, {"slurm_a": "{{ slurm_a }}"}, True),
    ],
)
def test_hosts_are_equal_if_all_that_their_inputs_say_is_equal(
    first: dict[str, t.Any], second: dict[str, t.Any], equal: bool
) -> None:
    assert len(sets({"a": first, "b": second})) == (1 if equal else 2)


def test_ten_thousand_equal_hosts_are_put_together_quickly() -> None:
    with cheap(2):
        members = sets({f"gpu{number}": {"slurm_users": SHARED, "x": number} for number in range(10_000)})

    assert len(members) == 1
    assert len(members[0]) == 10_000
