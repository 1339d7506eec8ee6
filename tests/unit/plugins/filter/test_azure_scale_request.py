# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter azure_scale_request: what a person asks of a set, as Python types or as all faults at once."""

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError
from ansible.module_utils.common.yaml import yaml_load

from ansible_collections.hpcai.gpucluster.plugins.filter import azure_scale_request as module

CLUSTER = {
    "name": "hpc",
    "subscription_id": "s-1",
    "gpu_sets": [{"name": "h100", "instances_per_group": 20}, {"name": "h200"}],
}
ask = module.FilterModule().filters()["azure_scale_request"]


def test_strings_of_the_command_line_become_numbers() -> None:
    found = ask(CLUSTER, set="h100", count="16", wait_for_jobs="60")

    assert found == {
        "subscription_id": "s-1",
        "resource_group": "hpc",
        "cluster": "hpc",
        "set": "h100",
        "limit": 20,
        "count": 16,
        "nodes": [],
        "wait_for_jobs": 60,
    }
    assert set(found) == set(yaml_load(module.RETURN)["_value"]["contains"])


@pytest.mark.parametrize("nodes", ["a, b,", ["a", "b"], ("a", "b")])
def test_nodes_are_a_list_or_a_string_with_commas(nodes: t.Any) -> None:
    found = ask({**CLUSTER, "resource_group": "rg"}, set="h200", nodes=nodes)

    assert (found["nodes"], found["count"], found["resource_group"], found["limit"]) == (["a", "b"], None, "rg", 100)


def test_a_set_may_shrink_to_no_machine() -> None:
    assert ask(CLUSTER, set="h100", count=0)["count"] == 0


@pytest.mark.parametrize(
    ("cluster", "words", "named"),
    [
        (CLUSTER, {"set": "h10"}, "set: found 'h10'; allowed: h100, h200"),
        (CLUSTER, {"set": "h100"}, "set count"),
        (CLUSTER, {"set": "h100", "count": 4, "nodes": "a"}, "set count"),
        (CLUSTER, {"set": "h100", "count": "many"}, "count: found 'many'; allowed: a whole number"),
        (CLUSTER, {"set": "h100", "count": -1}, "count: found '-1'"),
        (CLUSTER, {"set": "h100", "count": 4, "wait_for_jobs": "1.5"}, "wait_for_jobs: found '1.5'"),
        ({"name": "hpc"}, {"set": "h100", "count": 4}, "none, because azure_cluster has no gpu_sets"),
        (
            {**CLUSTER, "gpu_sets": [{"name": "h100", "elastic": True}]},
            {"set": "h100", "count": 4},
            "set: h100 is elastic; Slurm starts and deletes its machines",
        ),
        (None, {"set": "h100", "count": 4}, "azure_cluster is not defined"),
        ("hpc", {"set": "h100", "count": 4}, "azure_cluster is not defined"),
    ],
)
def test_what_is_wrong_is_refused(cluster: t.Any, words: dict[str, t.Any], named: str) -> None:
    with pytest.raises(AnsibleFilterError, match=r"Nothing was changed") as refused:
        ask(cluster, **words)
    assert named in str(refused.value)


def test_all_faults_are_named_at_once() -> None:
    with pytest.raises(AnsibleFilterError, match=r"set: found 'x'.*count: found 'y'.*wait_for_jobs: found 'z'"):
        ask(CLUSTER, set="x", count="y", wait_for_jobs="z")
