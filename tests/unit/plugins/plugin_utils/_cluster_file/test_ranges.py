# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ranges of names, addresses and racks."""

from __future__ import annotations

import pytest

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._cluster_file import ranges


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ("10.0.0.1", ["10.0.0.1"]),
        ("node.example.com", ["node.example.com"]),
        ("my-node", ["my-node"]),
        ("10.0.0.[9-11]", ["10.0.0.9", "10.0.0.10", "10.0.0.11"]),
        ("10.0.[0-1].[1-2]", ["10.0.0.1", "10.0.0.2", "10.0.1.1", "10.0.1.2"]),
        ("10.0.0.254-10.0.1.1", ["10.0.0.254", "10.0.0.255", "10.0.1.0", "10.0.1.1"]),
        ("fd00::1-fd00::2", ["fd00::1", "fd00::2"]),
        ("spine1/leaf[1-2]", ["spine1/leaf1", "spine1/leaf2"]),
        ("{{ net }}.[1-2]", ["{{ net }}.1", "{{ net }}.2"]),
        ("{{ nets[0] }}.1", ["{{ nets[0] }}.1"]),
    ],
)
def test_values(expression: str, found: list[str]) -> None:
    assert ranges.values(expression) == found


@pytest.mark.parametrize(
    "expression", ["10.0.0.[2-1]", "10.0.0.2-10.0.0.1", "10.0.0.1-fd00::1", "10.[0-999].[0-999].1"]
)
def test_a_wrong_range_is_refused(expression: str) -> None:
    with pytest.raises(ranges.RangeError):
        ranges.values(expression)


@pytest.mark.parametrize("expression", ["gpu[1-", "gpu[2-1]", "gpu 1", "gpu[a]"])
def test_a_wrong_name_is_refused(expression: str) -> None:
    with pytest.raises(ranges.RangeError):
        ranges.names(expression)


def test_networks_contain_exactly_the_addresses() -> None:
    found = ranges.networks([f"10.0.0.{number}" for number in range(8, 17)] + ["fd00::1"])

    assert found == ["10.0.0.8/29", "10.0.0.16", "fd00::1"]


@pytest.mark.parametrize("found", [["10.0.0.1", "gpu1"], ["10.0.0.1", ""], ["{{ a }}"]])
def test_a_name_has_no_network(found: list[str]) -> None:
    assert ranges.networks(found) == []
