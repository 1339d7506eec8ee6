"""From the lists of Resource Manager to records: no machine is lost in silence."""

from __future__ import annotations

import time
import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure import lists
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.client import Client, RequestError
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.settings import ConfigError, Settings
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.sign_in import AzureError
from ansible_collections.hpcai.gpucluster.tests.azure_server.service import Direct

SUBSCRIPTION = "11111111-0000-0000-0000-000000000000"
OTHER = "33333333-0000-0000-0000-000000000000"
FLEET = {"id": SUBSCRIPTION, "vms": 250, "uniform": [["hpc", 5]], "flexible": [["flex", 3]]}
SETS: dict[str, t.Any] = {"vmss_groups": ("*",)}
MACHINES = "virtualMachines[?]api-version=[0-9-]+"  # the list of a subscription, and its second page
Run = tuple[dict[str, dict[str, t.Any]], lists.Work]


def read(server: Direct, seconds: float = 60, **options: t.Any) -> Run:
    end = time.monotonic() + seconds
    work = lists.Work(8, lambda: max(0.0, end - time.monotonic()))
    settings = Settings(**{"subscriptions": (SUBSCRIPTION,), **options})
    records = lists.read(work, Client(server, "https://azure.test"), settings)
    return {one["name"]: one for one in records}, work


def test_all_kinds_of_machines_with_their_facts() -> None:
    found, work = read(Direct(subscriptions=[FLEET]), **SETS)

    assert len(found) == 258
    assert work.gaps == work.notes == []
    assert {one["powerstate"] for one in found.values()} == {"running"}
    assert all(one["private_ipv4_addresses"] and not one["facts_missing"] for one in found.values())
    assert found["vm00001"]["public_ipv4_address"] == ["203.0.0.1"]
    assert found["hpc_4"]["vmss"]["instance_id"] == "4"
    assert [one["vmss"]["name"] for name, one in found.items() if name.startswith("flex_")] == ["flex"] * 3
    assert "hpc_4" not in read(Direct(subscriptions=[FLEET]))[0]


@pytest.mark.parametrize(
    ("fault", "hosts", "gap"),
    [
        ({"match": f"{MACHINES}.*skiptoken", "shift": -1, "times": 1}, 258, ""),
        ({"match": f"{MACHINES}.*skiptoken", "shift": -1}, 258, "vm00199 is there twice in the list"),
        # A machine was deleted before the second page: nothing is there twice, and the list of states has one more.
        ({"match": f"{MACHINES}&.skiptoken", "shift": 1, "times": 1}, 258, ""),
        ({"match": f"{MACHINES}&.skiptoken", "shift": 1}, 257, "have a power state and are in no list: vm00200"),
        ({"match": f"{MACHINES}.*skiptoken", "cut": True, "times": 2}, 258, ""),
        ({"match": "statusOnly", "status": 403}, 258, "power states of subscription"),
        ({"match": "subscriptions/[^/]+/.*networkInterfaces", "text": "<html>"}, 258, "network interfaces of subscr"),
        ({"match": "publicIPAddresses", "text": '{"error": {}}'}, 258, "public addresses of subscription"),
        ({"match": "ScaleSets/hpc/networkInterfaces", "status": 500}, 258, "network interfaces of scale set hpc"),
        ({"match": "ScaleSets/hpc/virtualMachines", "status": 404}, 253, "instances of scale set hpc"),
        ({"match": "ScaleSets[?]", "status": 403}, 253, "scale sets of subscription"),
        ({"match": "ScaleSets/hpc/virt", "text": '{"value": [null, {"id": ""}]}'}, 253, "2 rows are empty or have no"),
    ],
    ids=lambda value: value.get("match", "") if isinstance(value, dict) else None,
)
def test_what_a_list_lacks_is_a_gap_that_names_it(fault: dict[str, t.Any], hosts: int, gap: str) -> None:
    found, work = read(Direct(subscriptions=[FLEET], faults=[fault]), **SETS)

    assert len(found) == hosts
    assert bool(work.gaps) is bool(gap)
    assert gap in "; ".join(work.gaps)


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ({"match": f"{MACHINES}.*skiptoken", "cut": True}, "the answer is not a list in JSON"),
        ({"match": f"{MACHINES}$", "text": '{"value": [], "nextLink": "https://evil.test/x"}'}, "at https://evil.test"),
        ({"match": f"{MACHINES}$", "text": '{"value": [], "nextLink": "http://azure.test/x"}'}, "at http://azure.test"),
        ({"match": f"{MACHINES}.*skiptoken", "status": 500, "body": {"code": "Busy"}}, "answered 500 Busy"),
        ({"match": f"{MACHINES}", "status": 401}, "answered 401"),
        ({"match": "ScaleSets/hpc/virtualMachines", "status": 500}, "answered 500"),
        ({"match": "ScaleSets[?]", "text": "[]"}, "virtualMachineScaleSets: the answer is not a list"),
        ({"match": f"{MACHINES}$", "silence": 3}, "virtual machines of subscription .*not read within the deadline"),
        ({"match": "^GET", "status": 403, "body": {"error": {"code": "No"}}}, "no machine could be read: .*403 No"),
    ],
)
def test_a_list_of_machines_that_ends_badly_is_an_error(fault: dict[str, t.Any], text: str) -> None:
    server = Direct(subscriptions=[FLEET], faults=[fault])
    with pytest.raises(AzureError, match=text):
        read(server, seconds=1 if "silence" in fault else 60, **SETS)


def test_a_next_link_that_leads_back_is_refused() -> None:
    answer = '{"value": [{"id": "/a"}], "nextLink": "https://azure.test/x?api-version=1"}'
    pages = Client(Direct(faults=[{"match": "/x", "text": answer}]), "https://azure.test").pages

    with pytest.raises(RequestError, match="leads back to a page already read"):
        list(pages("/x", {"api-version": "1"}))


def test_one_of_two_subscriptions_that_is_refused_is_a_gap() -> None:
    two = [{"id": SUBSCRIPTION, "vms": 3}, {"id": OTHER, "vms": 3}]

    both, work = read(Direct(subscriptions=two), subscriptions=(SUBSCRIPTION, OTHER))
    assert (len(both), work.gaps) == (3, [])  # both have machines of the same names
    one, work = read(Direct(subscriptions=two, hidden=[OTHER]), subscriptions=(SUBSCRIPTION, OTHER))

    assert {record["subscription_id"] for record in one.values()} == {SUBSCRIPTION}
    assert any(f"virtual machines of subscription {OTHER}" in gap for gap in work.gaps)


@pytest.mark.parametrize(
    ("options", "hosts", "text"),
    [
        ({"vm_groups": ("HPC-*",)}, 253, ""),
        ({"vm_groups": ("hpc-rg",), "vmss_groups": ("h?c-rg",)}, 258, ""),
        ({"vm_groups": (), "vmss_groups": ("*",)}, 5, ""),
        ({"vm_groups": ("hcp-rg",)}, 0, "no resource group fits 'hcp-rg'; did you mean 'hpc-rg'"),
        ({"filters": {"resource_groups": ("nowhere",)}}, 0, "filters.resource_groups: no resource group fits"),
        ({"subscriptions": ("HPC",)}, 253, ""),
        ({"subscriptions": ("all",)}, 253, ""),
        ({"subscriptions": ()}, 253, ""),
        ({"subscriptions": ("hpcc",)}, 0, "the name 'hpcc' fits no subscription"),
    ],
)
def test_subscriptions_and_resource_groups(options: dict[str, t.Any], hosts: int, text: str) -> None:
    if text:
        with pytest.raises(ConfigError, match=text):
            read(Direct(subscriptions=[FLEET]), **options)
        return
    found, work = read(Direct(subscriptions=[FLEET]), **options)

    assert len(found) == hosts
    assert work.gaps == []


def test_groups_that_cannot_be_listed_are_matched_by_the_machines() -> None:
    server = Direct(subscriptions=[FLEET], faults=[{"match": "/resourcegroups[?]", "status": 403}])

    found, work = read(server, vm_groups=("hpc-*", "typo-*"))

    assert len(found) == 253
    assert ["'typo-*'" in gap for gap in work.gaps] == [True]


def test_a_short_set_and_an_unknown_set_are_said() -> None:
    answer = '{"value": []}'
    server = Direct(subscriptions=[FLEET], faults=[{"match": "ScaleSets/hpc/virtualMachines", "text": answer}])

    _found, work = read(server, filters={"scale_sets": ("hpc", "hcp")}, **SETS)

    assert "scale set hpc counts 5 instances and lists 0" in work.notes
    assert "filters.scale_sets: there is no scale set hcp" in work.notes
