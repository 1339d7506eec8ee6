"""The lists of Resource Manager."""

from __future__ import annotations

import pytest

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.arm import Lists
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.client import Client
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.settings import Settings
from ansible_collections.hpcai.gpucluster.tests.azure_server.service import Direct

ONE = "11111111-0000-0000-0000-000000000000"


@pytest.fixture
def azure() -> Direct:
    return Direct(subscriptions=[{"id": ONE, "name": "hpc", "vms": 450, "uniform": [["set", 3]]}])


def lists(azure: Direct, **versions: str) -> Lists:
    return Lists(Client(azure, "https://azure.test"), Settings(api_versions=versions), lambda gap: None)


def test_every_page_of_a_list_is_read(azure: Direct) -> None:
    assert len(lists(azure).machines(ONE)) == 450
    assert len([line for line in azure.state.log if "virtualMachines?" in line]) == 3


def test_power_states_come_from_a_second_list_or_with_a_group(azure: Direct) -> None:
    assert not any(machine["instanceView"] for machine in lists(azure).machines(ONE))
    assert all(machine["instanceView"] for machine in lists(azure).machines(ONE, "hpc-rg"))
    assert len(lists(azure).power_states(ONE)) == 450


def test_every_list_asks_for_its_own_version(azure: Direct) -> None:
    set_id = str(lists(azure, compute="2024-07-01").scale_sets(ONE)[0]["id"])
    lists(azure).instance_nics(set_id)
    lists(azure).nics(ONE)

    asked = azure.state.log
    assert "api-version=2024-07-01" in asked[0]
    assert "api-version=2018-10-01" in asked[1]
    assert "api-version=2025-05-01" in asked[2]


def test_subscriptions_have_an_id_in_lower_case_and_a_name(azure: Direct) -> None:
    assert lists(azure).subscriptions() == [{"id": ONE, "name": "hpc", "state": "Enabled"}]
