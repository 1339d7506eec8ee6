# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.filter.slurm_conf_problems import FilterModule, slurm_conf_problems


def test_messages_begin_with_the_variable() -> None:
    (message,) = slurm_conf_problems({"Clustername": "a", "ClusterNam": "b"}, variable="my_config", version="24.11.5")

    assert message == "my_config (slurm.conf): unknown key 'ClusterNam'; did you mean ClusterName?"


@pytest.mark.parametrize("options", [{"file": "other.conf"}, {"version": "newest"}, {"nodes": [{"CPUs": 1}]}])
def test_what_cannot_be_judged_is_a_problem_and_not_a_pass(options: dict[str, object]) -> None:
    (message,) = slurm_conf_problems({"ClusterName": "lab"}, **options)  # type: ignore[arg-type]

    assert message.startswith("slurm_config: ")


def test_a_wrong_call_is_an_error() -> None:
    with pytest.raises(AnsibleFilterError, match=r"hpcai\.gpucluster\.slurm_conf_problems: "):
        slurm_conf_problems({"ClusterName": "lab"}, wrong=1)


def test_the_filter_has_its_name() -> None:
    assert list(FilterModule().filters()) == ["slurm_conf_problems"]
