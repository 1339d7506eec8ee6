"""Routes, gaps and faults, against the stand-in without its network."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_client import Client
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_fetch import Fetcher, Found
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_settings import (
    AzureInventoryError,
    ConfigError,
    Settings,
    check_filters,
)
from ansible_collections.hpcai.gpucluster.tests.azure_server.service import Direct

ONE = "11111111-0000-0000-0000-000000000000"
TWO = "22222222-0000-0000-0000-000000000000"
MIXED = {"id": ONE, "vms": 5, "uniform": [["hpc", 7]], "flexible": [["flex", 3]]}


def fetch(azure: Direct, **settings: t.Any) -> Found:
    given: dict[str, t.Any] = {"subscriptions": (ONE,), "vmss_groups": ("*",), **settings}
    client = Client(azure, "https://azure.test", renew=lambda: None)
    return Fetcher(client, Settings(**given)).run()


def names(found: Found) -> list[str]:
    return sorted(record["name"] for record in found.records)


def queries(azure: Direct) -> list[str]:
    return [line for line in azure.state.log if line.startswith("POST")]


@pytest.mark.parametrize("source", ["graph", "arm", "auto"])
def test_every_route_finds_every_machine_with_its_address(source: str) -> None:
    found = fetch(Direct(subscriptions=[MIXED]), source=source)

    assert len(found.records) == 15
    assert all(record["private_ipv4_addresses"] for record in found.records)
    assert {record["powerstate"] for record in found.records} == {"running"}
    assert (found.gaps, found.notes) == ([], [])


def test_both_routes_give_the_same_records() -> None:
    by_graph, by_lists = (fetch(Direct(subscriptions=[MIXED]), source=source).records for source in ("graph", "arm"))

    for record in by_graph + by_lists:
        record["resource_type"] = record["resource_type"].lower()
    assert by_graph == by_lists


def test_pages_are_read_to_the_end() -> None:
    azure = Direct(subscriptions=[{"id": ONE, "vms": 2400}])

    found = fetch(azure)

    assert len(found.records) == 2400
    assert len(queries(azure)) == 3 + 3 + 1


def test_without_resource_graph_the_lists_are_read_and_a_note_says_so() -> None:
    azure = Direct(subscriptions=[MIXED], faults=[{"match": "ResourceGraph", "status": 403, "body": {}}])

    found = fetch(azure)

    assert len(found.records) == 15
    assert any("the lists of Resource Manager are read instead" in note for note in found.notes)


def test_source_graph_does_not_fall_back() -> None:
    azure = Direct(subscriptions=[MIXED], faults=[{"match": "ResourceGraph", "status": 403, "body": {}}])

    with pytest.raises(AzureInventoryError, match="Resource Graph cannot answer"):
        fetch(azure, source="graph")


def test_a_cloud_without_instances_in_the_graph_reads_them_set_by_set() -> None:
    found = fetch(Direct(subscriptions=[MIXED], no_compute_resources=True))

    assert len(found.records) == 15
    assert any("set by set" in note for note in found.notes)


def test_china_does_not_even_ask_for_them() -> None:
    azure = Direct(subscriptions=[MIXED])

    assert len(fetch(azure, cloud="AzureChinaCloud").records) == 15
    assert not [line for line in queries(azure) if "ComputeResources" in line]


def test_a_set_that_the_graph_does_not_know_fully_is_read_again() -> None:
    azure = Direct(subscriptions=[MIXED], stale=2)

    found = fetch(azure)

    assert len(found.records) == 15
    assert any("behind for 1 scale sets (hpc)" in note for note in found.notes)
    assert len(fetch(Direct(subscriptions=[MIXED], stale=2), verify="none").records) == 13


def test_a_query_that_azure_does_not_know_is_asked_in_its_plain_form() -> None:
    refused = {"code": "BadRequest", "details": [{"code": "InvalidQuery", "message": "no"}]}
    azure = Direct(
        subscriptions=[MIXED],
        faults=[{"match": "hardwareProfile", "status": 400, "body": {"error": refused}}],
    )

    found = fetch(azure)

    assert len(found.records) == 15
    assert all(record["vm_size"] and record["powerstate"] == "running" for record in found.records)
    assert found.notes == []


def test_an_answer_that_is_too_large_is_asked_in_smaller_pages() -> None:
    large = {"error": {"code": "ResponsePayloadTooLarge", "message": "too large"}}
    azure = Direct(
        subscriptions=[{"id": ONE, "vms": 900}],
        faults=[{"match": r'virtualmachines\'.*"\$top": 1000', "status": 400, "body": large}],
    )

    assert len(fetch(azure).records) == 900
    assert any('"$top": 500' in line for line in queries(azure))


def test_a_skip_token_that_repeats_is_not_followed_for_ever() -> None:
    circle = '{"totalRecords": 9, "data": [{"id": "/a"}], "$skipToken": "again"}'
    azure = Direct(subscriptions=[MIXED], faults=[{"match": "virtualmachines'", "text": circle}])

    with pytest.raises(AzureInventoryError, match="circle"):
        fetch(azure, source="graph")
    assert len(fetch(azure).records) == 15


@pytest.mark.parametrize(
    "text",
    [
        '{"totalRecords": 9, "data": [{"id": "/a"}]}',
        '{"totalRecords": 2, "data": [{"id": "/a"}, {"id": "/A"}]}',
        '{"totalRecords": 1, "data": [{"id": "/a"}], "resultTruncated": "true"}',
    ],
)
def test_an_answer_that_lacks_rows_is_not_believed(text: str) -> None:
    azure = Direct(subscriptions=[MIXED], faults=[{"match": "virtualmachines'", "text": text, "times": 1}])

    assert len(fetch(azure).records) == 15


def test_a_cut_page_is_asked_for_again() -> None:
    azure = Direct(
        subscriptions=[MIXED],
        faults=[
            {"match": "virtualmachines'", "cut": True, "times": 1},
            {"match": "ScaleSets", "text": "<p>", "times": 1},
        ],
    )

    assert len(fetch(azure).records) == 15


def test_a_subscription_that_is_refused_is_a_gap_and_the_other_stays() -> None:
    azure = Direct(subscriptions=[MIXED, {"id": TWO, "vms": 2}], hidden=[TWO])

    for source in ("graph", "arm"):
        found = fetch(azure, subscriptions=(ONE, TWO), source=source)
        assert len(found.records) == 15
        assert any(TWO in gap and "Reader" in gap for gap in found.gaps)


def test_no_subscription_at_all_is_an_error() -> None:
    azure = Direct(subscriptions=[{"id": ONE}, {"id": TWO}], hidden=[TWO])

    with pytest.raises(AzureInventoryError, match="cannot see subscription"):
        fetch(azure, subscriptions=(TWO,))
    with pytest.raises(AzureInventoryError, match="can see no subscription"):
        fetch(Direct(subscriptions=[]), subscriptions=())


@pytest.mark.parametrize(("wanted", "count"), [(("all",), 17), (("Two",), 2), ((ONE, "two"), 17), ((TWO.upper(),), 2)])
def test_subscriptions_by_id_by_name_and_all(wanted: tuple[str, ...], count: int) -> None:
    azure = Direct(subscriptions=[{**MIXED, "name": "one"}, {"id": TWO, "name": "two", "vms": 2}])

    assert len(fetch(azure, subscriptions=wanted).records) == count


def test_several_subscriptions_and_no_choice_is_a_question() -> None:
    azure = Direct(subscriptions=[{"id": ONE, "name": "one"}, {"id": TWO, "name": "two"}])

    with pytest.raises(ConfigError, match=r"set subscription_id, or subscriptions: \[all\].*two"):
        fetch(azure, subscriptions=())
    with pytest.raises(ConfigError, match="'three' fits no subscription"):
        fetch(azure, subscriptions=("three",))


@pytest.mark.parametrize("kind", ["networkInterfaces", "publicIPAddresses"])
def test_a_list_that_is_refused_leaves_the_hosts_and_says_what_is_missing(kind: str) -> None:
    azure = Direct(subscriptions=[{"id": ONE, "vms": 4}], faults=[{"match": f"GET .*Network/{kind}", "status": 403}])

    found = fetch(azure, source="arm")

    assert len(found.records) == 4
    assert any("403" in gap for gap in found.gaps)
    assert any(record["facts_missing"] == ["network"] for record in found.records)


@pytest.mark.parametrize(
    "match", ["Compute/virtualMachines\\?", "virtualMachineScaleSets\\?", "ScaleSets/hpc/virtualMachines"]
)
def test_a_list_of_machines_that_breaks_is_an_error_not_a_smaller_cluster(match: str) -> None:
    azure = Direct(subscriptions=[MIXED], faults=[{"match": match, "status": 500}])

    with pytest.raises(AzureInventoryError, match="500"):
        fetch(azure, source="arm")


def test_power_states_that_are_refused_are_named_and_do_not_hide_the_host() -> None:
    azure = Direct(subscriptions=[{"id": ONE, "vms": 2}], faults=[{"match": "statusOnly", "status": 403}])

    found = fetch(azure, source="arm")

    assert [record["facts_missing"] for record in found.records] == [["powerstate"], ["powerstate"]]
    assert len(found.gaps) == 1


def test_a_scale_set_that_goes_away_between_two_calls_is_no_fault() -> None:
    azure = Direct(subscriptions=[MIXED], faults=[{"match": "ScaleSets/hpc/", "status": 404}])

    found = fetch(azure, source="arm")

    assert len(found.records) == 8
    assert not [gap for gap in found.gaps if "instances" in gap]


def test_a_resource_group_that_does_not_exist_is_a_gap() -> None:
    azure = Direct(subscriptions=[MIXED], faults=[{"match": "resourceGroups/nowhere/", "status": 404}])

    found = fetch(azure, source="arm", vm_groups=("hpc-rg", "nowhere"))

    assert len(found.records) == 15
    assert any("resource group nowhere" in gap for gap in found.gaps)


def test_a_token_that_is_refused_twice_is_an_error() -> None:
    azure = Direct(
        subscriptions=[MIXED], faults=[{"match": "POST", "status": 401, "body": {"error": {"code": "Expired"}}}]
    )

    with pytest.raises(AzureInventoryError, match="401 Expired"):
        fetch(azure)


def test_filters_are_applied_by_the_server() -> None:
    azure = Direct(subscriptions=[MIXED])
    filters = check_filters(
        {"tags": {"slurm_role": "compute"}, "locations": "westeurope", "names": ["vm00003", "it's"]}
    )

    found = fetch(azure, filters=filters, vmss_groups=())

    assert names(found) == ["vm00003"]
    assert found.records[0]["private_ipv4_addresses"] == ["10.0.0.3"]
    assert any("join kind=inner" in line for line in queries(azure))


def test_resource_groups_and_scale_sets_are_chosen() -> None:
    two = {"id": TWO, "group": "other-rg", "vms": 2, "uniform": [["a", 2], ["b", 3]]}
    azure = Direct(subscriptions=[MIXED, two])

    assert len(fetch(azure, subscriptions=(ONE, TWO), vm_groups=("OTHER-rg",), vmss_groups=()).records) == 2
    chosen = fetch(azure, subscriptions=(ONE, TWO), vm_groups=(), filters=check_filters({"scale_sets": "b"}))
    assert names(chosen) == ["b_0", "b_1", "b_2"]


def test_instances_of_a_set_that_the_list_does_not_have_yet_are_kept() -> None:
    azure = Direct(subscriptions=[{"id": ONE, "uniform": [["old", 2], ["new", 3]]}])
    azure.state.subscriptions[0].scale_sets.pop()

    assert names(fetch(azure)) == ["new_0", "new_1", "new_2", "old_0", "old_1"]


def test_graph_where_narrows_the_query() -> None:
    found = fetch(Direct(subscriptions=[MIXED]), graph_where="properties.priority =~ 'Spot'", source="graph")

    assert {record["priority"] for record in found.records} == {"Spot"}


def test_graph_where_holds_for_sets_that_are_read_again() -> None:
    azure = Direct(subscriptions=[{**MIXED, "spread": True}])

    found = fetch(azure, graph_where="properties.priority =~ 'Spot'", source="graph", placement_groups=True)

    assert names(found) == ["hpc_4", "vm00004"]
    assert [record["single_placement_group"] for record in found.records] == [None, False]


def test_graph_where_is_refused_where_the_graph_has_no_instances() -> None:
    azure = Direct(subscriptions=[MIXED])
    where = {"graph_where": "properties.priority =~ 'Spot'", "source": "graph", "cloud": "AzureChinaCloud"}

    with pytest.raises(ConfigError, match="graph_where cannot pick instances of uniform scale sets in AzureChinaCloud"):
        fetch(azure, **where)
    assert names(fetch(azure, **where, vmss_groups=())) == ["vm00004"]


def test_management_groups_need_no_subscription() -> None:
    azure = Direct(subscriptions=[MIXED, {"id": TWO, "vms": 2}])

    found = fetch(azure, subscriptions=(), management_groups=("hpc",), source="graph")

    assert len(found.records) == 17


def test_sets_that_spread_over_placement_groups_are_read_with_them() -> None:
    azure = Direct(subscriptions=[{**MIXED, "spread": True}])

    plain, spread = fetch(azure), fetch(azure, placement_groups=True)

    assert names(plain) == names(spread)
    assert {record["single_placement_group"] for record in spread.records} == {None, True, False}
    assert len([line for line in azure.state.log if "ScaleSets/hpc/virtualMachines" in line]) == 1


def test_verify_all_takes_the_power_state_from_resource_manager() -> None:
    stopped = [{"code": "PowerState/deallocated"}]
    change = {"machine": "vm00002", "path": ["properties", "instanceView", "statuses"], "value": stopped}
    azure = Direct(subscriptions=[{**MIXED, "changes": [change]}])

    found = fetch(azure, verify="all")

    assert {record["name"] for record in found.records if record["powerstate"] == "deallocated"} == {"vm00002"}
    assert any("statusOnly=true" in line for line in azure.state.log)


@pytest.mark.parametrize("status", [403, 503])
def test_verify_all_keeps_the_machines_of_a_subscription_whose_power_states_are_refused(status: int) -> None:
    azure = Direct(
        subscriptions=[MIXED, {"id": TWO, "group": "two-rg", "vms": 2}],
        faults=[{"match": f"{TWO}.*statusOnly", "status": status}],
    )

    found = fetch(azure, subscriptions=(ONE, TWO), verify="all")

    assert len(found.records) == 17
    assert any(f"power states of subscription {TWO}" in gap for gap in found.gaps)


def test_verify_all_drops_a_machine_that_resource_manager_does_not_have() -> None:
    azure = Direct(subscriptions=[MIXED, {"id": TWO, "group": "two-rg", "vms": 2}])
    azure.state.tables(None)
    azure.state.subscriptions[0].machines.pop(0)

    assert "vm00000" not in names(fetch(azure, verify="all"))


@pytest.mark.parametrize("status", [403, 404, 405])
def test_scale_sets_that_the_list_refuses_come_from_the_graph(status: int) -> None:
    azure = Direct(
        subscriptions=[MIXED, {"id": TWO, "group": "two-rg", "uniform": [["two", 2]]}],
        faults=[{"match": f"{ONE}/.*virtualMachineScaleSets\\?", "status": status}],
    )

    for chosen, count in (((ONE,), 15), ((ONE, TWO), 17)):
        found = fetch(azure, subscriptions=chosen)
        assert len(found.records) == count
        assert {"hpc", "flex"} <= {record["vmss"].get("name") for record in found.records}
        assert found.gaps == []
        assert any(f"scale sets of subscription {ONE}" in note and str(status) in note for note in found.notes)


def test_a_set_that_may_not_be_read_again_keeps_what_the_graph_knows() -> None:
    azure = Direct(subscriptions=[MIXED], stale=2, faults=[{"match": "ScaleSets/hpc/", "status": 403}])

    found = fetch(azure)

    assert len(found.records) == 13
    assert all(record["private_ipv4_addresses"] for record in found.records)
    assert any("instances of hpc" in gap for gap in found.gaps)
