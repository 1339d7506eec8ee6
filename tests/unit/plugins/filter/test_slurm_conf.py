# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.filter.slurm_conf import FilterModule, slurm_conf


def test_lines_follow_in_the_order_that_slurm_wants() -> None:
    text = slurm_conf(
        {"ClusterName": "lab"},
        partitions=[{"PartitionName": "p", "Nodes": "s"}],
        nodesets=[{"NodeSet": "s", "Nodes": "gpu1"}],
        nodes=[{"CPUs": 2, "NodeName": "gpu1"}],
    )

    assert text.splitlines() == [
        "ClusterName=lab",
        "NodeName=gpu1 CPUs=2",
        "NodeSet=s Nodes=gpu1",
        "PartitionName=p Nodes=s",
    ]


def test_another_file_has_lines_of_its_own() -> None:
    line = {"NodeName": "gpu[1-2]", "Name": "gpu", "File": "/dev/nvidia[0-7]"}

    assert slurm_conf({"AutoDetect": "off"}, lines=[line], file="gres.conf") == (
        "AutoDetect=off\nNodeName=gpu[1-2] Name=gpu File=/dev/nvidia[0-7]\n"
    )


@pytest.mark.parametrize(
    ("config", "nodes", "message"),
    [
        (["ClusterName"], [], "items"),
        ({}, [{"CPUs": 1}], "a NodeName line has no NodeName"),
        ({"A": "x\ny"}, [], "more than one line"),
    ],
)
def test_refusal_names_the_filter(config: t.Any, nodes: t.Any, message: str) -> None:
    with pytest.raises(AnsibleFilterError, match=rf"hpcai\.gpucluster\.slurm_conf: .*{message}"):
        slurm_conf(config, nodes=nodes)


def test_the_filter_has_its_name() -> None:
    assert list(FilterModule().filters()) == ["slurm_conf"]
