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
from ansible_collections.hpcai.gpucluster.tests.unit.support.places import expect_none, place

nccl_environment = FilterModule().filters()["nccl_environment"]


@pytest.mark.parametrize("name", records.names())
def test_every_record_gives_settings_that_nccl_conf_takes(name: str) -> None:
    found = nccl_environment(records.find(name), "/opt/topo.xml")

    assert conf.problems(found) == []
    assert found["NCCL_TOPO_FILE"] == "/opt/topo.xml"


def test_relaxed_ordering_is_for_nd_sizes_with_a_fabric() -> None:
    variable = "NCCL_IB_PCI_RELAXED_ORDERING"
    unordered = {"Standard_ND40rs_v2", "Standard_ND128isr_NDR_GB200_v6", "Standard_ND128isr_GB300_v6"}
    found = {name: records.find(name) for name in records.names()}
    wanted = {
        name
        for name, record in found.items()
        if name.startswith("Standard_ND") and record["infiniband"]["hcas"] and name not in unordered
    }
    ordered = {name for name, record in found.items() if variable in nccl_environment(record)}

    expect_none(
        f"{place(records.DIRECTORY / f'{name.lower()}.yml', 'environment:')}: "
        f"{'add' if name in wanted else 'remove'} `{variable}: 1`, "
        f"or change `unordered` in {place(__file__, 'unordered =')}"
        for name in sorted(wanted ^ ordered)
    )


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
