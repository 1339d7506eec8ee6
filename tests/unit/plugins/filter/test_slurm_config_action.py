# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.filter.slurm_config_action import FilterModule, slurm_config_action


def test_the_result_is_plain_data() -> None:
    assert slurm_config_action("NodeName=gpu1\n", "NodeName=gpu[1-2]\n", "slurm.conf", "24.11.5") == {
        "action": "reconfigure",
        "restart": [],
        "reconfigure": ["slurmctld"],
        "jobs_at_risk": False,
        "reasons": ["nodes added: gpu2"],
        "warnings": [],
    }


def test_no_file_on_disk_is_no_error() -> None:
    assert slurm_config_action(None, "A=1\n")["action"] == "restart"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "arguments", [("A=1 x y\n",), ("A=1\n", "other.conf"), ("A=1\n", "slurm.conf", "new"), (None,)]
)
def test_what_cannot_be_judged_is_an_error_and_not_nothing(arguments: tuple[t.Any, ...]) -> None:
    with pytest.raises(AnsibleFilterError, match=r"hpcai\.gpucluster\.slurm_config_action: "):
        slurm_config_action("B=2\n", *arguments)


def test_the_filter_has_its_name() -> None:
    assert list(FilterModule().filters()) == ["slurm_config_action"]
