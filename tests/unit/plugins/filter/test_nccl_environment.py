# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The environment of jobs."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.filter.nccl_environment import FilterModule
from ansible_collections.hpcai.gpucluster.plugins.module_utils._nccl import conf
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue import records

nccl_environment = FilterModule().filters()["nccl_environment"]


@pytest.mark.parametrize("name", records.names())
def test_every_record_gives_settings_that_nccl_conf_takes(name: str) -> None:
    found = nccl_environment(records.find(name), "/opt/topo.xml")

    assert conf.problems(found) == []
    assert found["NCCL_TOPO_FILE"] == "/opt/topo.xml"


def test_relaxed_ordering_is_for_nd_sizes_with_a_fabric() -> None:
    ordered = {
        name for name in records.names() if "NCCL_IB_PCI_RELAXED_ORDERING" in nccl_environment(records.find(name))
    }

    assert ordered == {
        "Standard_ND96asr_v4",
        "Standard_ND96amsr_A100_v4",
        "Standard_ND96isr_H100_v5",
        "Standard_ND96isr_H200_v5",
    }


def test_single_node_job_hides_the_file_of_nccl_conf() -> None:
    record = records.find("Standard_ND96isr_H100_v5")

    assert nccl_environment(record, "/opt/topo.xml", nodes=1)["NCCL_TOPO_FILE"] == ""
    assert "NCCL_TOPO_FILE" not in nccl_environment(record)


def test_kinds_are_apart() -> None:
    record = records.find("Standard_ND96isr_H100_v5")
    nccl, other = nccl_environment(record), nccl_environment(record, kind="other")

    assert all(name.startswith("NCCL_") for name in nccl)
    assert other["UCX_NET_DEVICES"] == "mlx5_ib0:1"
    assert not set(nccl) & set(other)
    assert nccl_environment(record, kind="all") == {**other, **nccl}
    assert all(isinstance(value, str) for value in {**other, **nccl}.values())


@pytest.mark.parametrize(("record", "kind"), [("lab", "nccl"), (records.find("lab"), "mpi")])
def test_bad_input_is_an_error_of_ansible(record: object, kind: str) -> None:
    with pytest.raises(AnsibleFilterError, match="nccl_environment: "):
        nccl_environment(record, kind=kind)
