# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Homes are made once, where they are kept."""

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.filter.cluster_homes import cluster_homes

MOUNTS = [{"path": "/home"}, {"path": "/shared"}]
SERVED = {"slurm_controller": ["head"], "nfs_server": ["nfs1"], "nfs_client": ["gpu1"]}


@pytest.mark.parametrize(
    ("machine", "groups", "expected"),
    [
        ("gpu1", SERVED, ("nfs1", "/home", False)),
        ("nfs1", SERVED, ("nfs1", "", True)),
        ("gpu1", {"slurm_controller": ["head"]}, ("head", "", True)),
        ("gpu1", {"nfs_server": None, "nfs_client": ["gpu1", "gpu2"]}, ("", "/home", True)),
        ("gpu2", {"nfs_client": ["gpu1", "gpu2"]}, ("", "/home", False)),
    ],
)
def test_one_machine_makes_the_homes(machine: str, groups: dict[str, t.Any], expected: tuple[str, str, bool]) -> None:
    assert tuple(cluster_homes(groups, machine, MOUNTS, []).values()) == expected


def test_the_longest_path_wins_and_half_a_name_is_no_path() -> None:
    mounts = [{"path": "/shared/"}, {"path": "/shared/home"}, {"path": "/shared/ho"}, "wrong", {}]

    assert cluster_homes(SERVED, "gpu1", mounts, [], "/shared/home")["storage"] == "/shared/home"
    assert cluster_homes(SERVED, "gpu1", mounts, [], "/shared/homes")["storage"] == "/shared"


def test_what_is_no_list_is_refused() -> None:
    with pytest.raises(AnsibleFilterError, match="cluster_homes"):
        cluster_homes(["gpu1"], "gpu1", MOUNTS, [])  # type: ignore[arg-type]
