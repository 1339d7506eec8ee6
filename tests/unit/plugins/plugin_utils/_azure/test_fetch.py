"""Routes, gaps and faults, against the stand-in without its network."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import time
import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure import filters, graph, hostvars, slurm
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.client import Client
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.errors import NoAnswerError, ThrottledError
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.fetch import Fetcher, Found
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.settings import (
    AzureInventoryError,
    ConfigError,
    Settings,
    check_filters,
)
from ansible_collections.hpcai.gpucluster.tests.azure_server.service import Direct
from ansible_collections.hpcai.gpucluster.tests.patience import HANGS, LIMITS, within

ONE = "11111111-0000-0000-0000-000000000000"
TWO = "22222222-0000-0000-0000-000000000000"
THREE = "33333333-0000-0000-0000-000000000000"
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

    assert by_graph == by_lists


def test_pages_are_read_to_the_end() -> None:
    azure = Direct(subscriptions=[{"id": ONE, "vms": 2400}])

    found = fetch(azure)

    assert len(found.records) == 2400
    assert len(queries(azure)) == 3 + 1


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
    nobody = {"match": r"virtualMachineScaleSets\\?", "after": 1, "text": '{"value": []}'}
    azure = Direct(subscriptions=[MIXED], faults=[{"match": "ScaleSets/hpc/", "status": 404}, nobody])

    found = fetch(azure, source="arm")

    assert len(found.records) == 8
    assert found.gaps == []


@pytest.mark.parametrize("status", [403, 404])
@pytest.mark.parametrize(("source", "stale", "kept"), [("arm", 0, 8), ("auto", 2, 13), ("graph", 2, 13)])
def test_a_set_that_its_list_names_and_nobody_can_read_is_a_gap_and_what_is_known_stays(
    source: str, stale: int, kept: int, status: int
) -> None:
    azure = Direct(subscriptions=[MIXED], stale=stale, faults=[{"match": "ScaleSets/hpc/virtual", "status": status}])

    found = fetch(azure, source=source)

    assert len(found.records) == kept
    assert any("instances of scale set hpc" in gap and str(status) in gap for gap in found.gaps)
    assert all(record["private_ipv4_addresses"] for record in found.records)


def test_a_set_that_the_fallback_cannot_read_is_a_gap() -> None:
    faults = [{"match": "ResourceGraph", "status": 403}, {"match": "ScaleSets/hpc/", "status": 404}]

    found = fetch(Direct(subscriptions=[MIXED], faults=faults))

    assert len(found.records) == 8
    assert any("instances of scale set hpc" in gap for gap in found.gaps)


NARROW: list[dict[str, t.Any]] = [
    {"filters": check_filters({"tags": {"clustername": "training"}})},
    {"filters": check_filters({"locations": "southcentralus"})},
    {"filters": check_filters({"resource_groups": "hpc-*"})},
    {"filters": check_filters({"scale_sets": "hpc"})},
    {"filters": check_filters({"names": [f"hpc_{number}" for number in range(7)]})},
    {"subscriptions": (), "management_groups": ("m",), "source": "graph"},
]


@pytest.mark.parametrize("narrow", NARROW)
@pytest.mark.parametrize("verify", ["scale_sets", "all"])
def test_a_set_is_compared_with_its_list_however_the_list_is_narrowed(narrow: dict[str, t.Any], verify: str) -> None:
    found = fetch(Direct(subscriptions=[MIXED], stale=2), verify=verify, **narrow)

    kept = filters.keep(found.records, narrow.get("filters", {}))
    assert len([one for one in kept if one["vmss"].get("name") == "hpc"]) == 7
    assert found.gaps == []


def test_sets_that_are_complete_are_not_read_again_because_of_a_filter() -> None:
    azure = Direct(subscriptions=[MIXED])

    found = fetch(azure, filters=check_filters({"tags": {"slurm_role": "compute"}}))

    assert found.notes == []
    assert len([line for line in azure.state.log if "ScaleSets/hpc/" in line]) == 1


def test_graph_where_names_the_instances_and_machines_that_it_cannot_decide_about() -> None:
    azure = Direct(subscriptions=[MIXED], stale=2, unknown=1)

    found = fetch(azure, graph_where="properties.priority =~ 'Spot'", source="graph")

    assert names(found) == ["hpc_4", "vm00004"]
    assert any("2 instances of scale set hpc" in gap and "cannot decide" in gap for gap in found.gaps)
    assert any("1 machines are not in Resource Graph yet" in gap and "cannot decide" in gap for gap in found.gaps)


@pytest.mark.parametrize("verify", ["scale_sets", "all"])
@pytest.mark.parametrize("refused", ["", "GET .*/resources\\?"])
@pytest.mark.parametrize(
    "narrow",
    [
        {},
        {"filters": check_filters({"locations": ["southcentralus", "westeurope"]})},
        {"vm_groups": ("hpc-*",)},
        {"subscriptions": (), "management_groups": ("m",), "source": "graph"},
    ],
)
def test_machines_that_the_graph_does_not_know_yet_are_added_with_their_addresses(
    narrow: dict[str, t.Any], refused: str, verify: str
) -> None:
    faults = [{"match": refused, "status": 404}] if refused else []
    azure = Direct(subscriptions=[{"id": ONE, "vms": 9}], unknown=4, faults=faults)

    found = fetch(azure, verify=verify, **narrow)

    assert len(found.records) == 9
    assert all(one["private_ipv4_addresses"] and one["powerstate"] == "running" for one in found.records)
    assert any(
        "4 machines are not in Resource Graph yet (vm00005, vm00006, vm00007, vm00008)" in n for n in found.notes
    )
    assert found.gaps == []


@pytest.mark.parametrize("verify", ["scale_sets", "all"])
@pytest.mark.parametrize("narrow", [{}, {"filters": check_filters({"tags": {"slurm_role": "compute"}})}, *NARROW[3:]])
def test_members_that_changed_while_their_number_stayed_are_the_new_ones(narrow: dict[str, t.Any], verify: str) -> None:
    late, settled = (
        names(fetch(Direct(subscriptions=[MIXED], lagging=count), verify=verify, **narrow)) for count in (3, 0)
    )

    assert late == settled


@pytest.mark.parametrize("listing", ["/resources\\?", "statusOnly"])
def test_machines_that_one_of_two_lists_lacks_stay(listing: str) -> None:
    azure = Direct(subscriptions=[{"id": ONE, "vms": 4}])
    rows = [{key: one[key] for key in ("id", "name")} for one in azure.state.subscriptions[0].machines[:2]]
    azure.state.faults = [{"match": f"GET .*{listing}", "text": json.dumps({"value": rows}), "seen": 0}]

    assert len(fetch(azure, verify="all").records) == 4


def test_a_machine_that_only_the_list_of_states_has_is_found_with_verify_all() -> None:
    azure = Direct(subscriptions=[{"id": ONE, "vms": 4}], unknown=2)
    rows = [{key: one[key] for key in ("id", "name")} for one in azure.state.subscriptions[0].machines[:2]]
    azure.state.faults = [{"match": "GET .*/resources\\?", "text": json.dumps({"value": rows}), "seen": 0}]

    assert len(fetch(azure, verify="all").records) == 4


def test_a_short_list_of_a_set_drops_no_instance_that_is_known() -> None:
    azure = Direct(subscriptions=[MIXED])
    rows = azure.state.subscriptions[0].instances[next(iter(azure.state.subscriptions[0].instances))][:2]
    azure.state.faults = [{"match": "ScaleSets/hpc/virtual", "text": json.dumps({"value": rows}), "seen": 0}]

    found = fetch(azure)

    assert len(found.records) == 15
    assert any("counts 7 instances and lists 2" in note for note in found.notes)


@pytest.mark.parametrize("refused", ["", "GET .*/resources\\?"])
def test_new_machines_are_held_against_a_filter_on_tags_and_others_are_not_called_new(refused: str) -> None:
    faults = [{"match": refused, "status": 404}] if refused else []
    wanted = check_filters({"tags": {"Slurm_Role": "compute"}})
    azure = Direct(subscriptions=[{"id": ONE, "vms": 9}], unknown=4, faults=faults)

    late, settled = (fetch(one, filters=wanted) for one in (azure, Direct(subscriptions=[{"id": ONE, "vms": 9}])))

    assert len(filters.keep(late.records, wanted)) == len(settled.records) == 7
    assert settled.notes == []
    assert any("4 machines are not in Resource Graph yet" in note for note in late.notes)


def test_new_machines_that_cannot_be_read_are_a_gap_that_names_them() -> None:
    azure = Direct(
        subscriptions=[{"id": ONE, "vms": 9}], unknown=2, faults=[{"match": "/virtualMachines\\?", "status": 403}]
    )

    found = fetch(azure)

    assert len(found.records) == 7
    assert any("2 machines that Resource Graph does not know yet: vm00007, vm00008" in gap for gap in found.gaps)


def test_without_any_list_of_names_a_gap_says_that_nothing_was_compared() -> None:
    faults = [{"match": "GET .*(/resources\\?|statusOnly)", "status": 403}]

    found = fetch(Direct(subscriptions=[{"id": ONE, "vms": 9}], faults=faults))

    assert len(found.records) == 9
    assert any("power states of subscription" in gap for gap in found.gaps)


def test_a_list_of_names_that_contradicts_the_graph_is_not_believed() -> None:
    faults = [{"match": "GET .*/resources\\?", "text": '{"value": []}'}]

    found = fetch(Direct(subscriptions=[{"id": ONE, "vms": 9}], unknown=4, faults=faults))

    assert len(found.records) == 9


def test_members_of_a_flexible_set_that_no_list_of_names_has_are_found_by_its_capacity() -> None:
    azure = Direct(subscriptions=[{"id": ONE, "vms": 3, "flexible": [["flex", 3]]}], unknown=2)
    rows = [{"id": one["id"], "name": one["name"]} for one in azure.state.subscriptions[0].machines[:4]]
    azure.state.faults = [{"match": "GET .*/resources\\?", "text": json.dumps({"value": rows}), "seen": 0}]

    found = fetch(azure)

    assert len(found.records) == 6
    assert any("flexible scale sets (flex)" in note for note in found.notes)


def test_a_resource_group_that_does_not_exist_is_an_error_that_names_those_there_are() -> None:
    azure = Direct(subscriptions=[{**MIXED, "groups": ["empty-rg"]}])

    for source in ("graph", "arm", "auto"):
        for option in ("vm_groups", "vmss_groups"):
            with pytest.raises(ConfigError, match=r"no resource group fits 'hcp-rg'; did you mean 'hpc-rg'.*empty-rg"):
                fetch(azure, source=source, **{option: ("hpc-rg", "hcp-rg")})
        with pytest.raises(ConfigError, match=r"filters.resource_groups: no resource group fits 'x\*'"):
            fetch(azure, source=source, filters=check_filters({"resource_groups": "x*"}))
    # One that is there and has no machine is no fault.
    assert len(fetch(azure, vm_groups=("empty-rg",)).records) == 7


@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize("source", ["graph", "arm", "auto"])
def test_resource_groups_may_be_patterns(source: str, listed: bool) -> None:
    faults = [] if listed else [{"match": "/resourcegroups\\?", "status": 403}]
    other = {"id": TWO, "group": "rg-hpc-2", "vms": 2, "uniform": [["two", 2]]}
    azure = Direct(subscriptions=[{**MIXED, "group": "rg-hpc-1"}, other, {"id": THREE, "vms": 4}], faults=faults)
    wanted: dict[str, t.Any] = {"subscriptions": (ONE, TWO, THREE), "source": source}

    assert len(fetch(azure, vm_groups=("rg-hpc-*",), vmss_groups=("RG-HPC-?",), **wanted).records) == 15 + 4
    assert len(fetch(azure, vm_groups=(), vmss_groups=("rg-hpc-[2]",), **wanted).records) == 2
    assert len(fetch(azure, vm_groups=("rg-hpc-2",), vmss_groups=(), **wanted).records) == 2


@pytest.mark.parametrize("source", ["graph", "arm"])
def test_a_group_that_nobody_can_check_and_nothing_lies_in_is_a_gap(source: str) -> None:
    azure = Direct(subscriptions=[MIXED], faults=[{"match": "/resourcegroups\\?", "status": 403}])

    found = fetch(azure, source=source, vm_groups=("hpc-rg", "hcp-*"), vmss_groups=())

    assert len(found.records) == 8
    assert any("names 'hcp-*', nothing lies in it" in gap for gap in found.gaps)


def test_a_scale_set_that_the_filter_names_and_nobody_has_is_told() -> None:
    found = fetch(Direct(subscriptions=[MIXED]), filters=check_filters({"scale_sets": ["hpc", "hcp"]}))

    assert any("there is no scale set hcp" in note for note in found.notes)


BROKEN: list[dict[str, t.Any]] = [
    {"text": "<html>gateway</html>"},
    {"text": '{"totalRecords": 5, "data": [{"id": "/a"'},
    {"text": "{}"},
    {"text": '{"data": null}'},
    {"text": '{"totalRecords": 2, "data": [{"id": "/a"}, null]}'},
    {"text": '{"totalRecords": 1, "data": [{"name": "a"}]}'},
    {"text": "[]"},
    {"status": 302, "headers": {"Location": "https://elsewhere.test/"}},
    {"status": 308, "body": "moved"},
    {"status": 418, "body": {}},
    {"status": 500, "body": {}},
]


@pytest.mark.parametrize("fault", BROKEN)
@pytest.mark.parametrize("match", ["ResourceGraph", "ResourceGraph.*ComputeResources"])
def test_whatever_resource_graph_answers_leads_to_the_lists(fault: dict[str, t.Any], match: str) -> None:
    found = fetch(Direct(subscriptions=[MIXED], faults=[{"match": match, **fault}]))

    assert len(found.records) == 15
    assert found.gaps == []
    assert any("read instead" in note or "set by set" in note for note in found.notes)


LOOP = '{"value": [], "nextLink": "https://azure.test%s?x=1"}'


def test_a_list_of_scale_sets_that_loops_is_named_and_not_called_resource_graph() -> None:
    path = f"/subscriptions/{ONE}/providers/Microsoft.Compute/virtualMachineScaleSets"
    azure = Direct(subscriptions=[MIXED], faults=[{"match": r"GET .*virtualMachineScaleSets\?", "text": LOOP % path}])

    found = fetch(azure)

    assert len(found.records) == 15
    assert any("scale sets of subscription" in gap and "leads back" in gap for gap in found.gaps)
    assert not any("Resource Graph cannot answer" in note for note in found.notes)


@pytest.mark.parametrize("text", ['{"value": [null]}', "<html>", "{}", '{"value": [{}]}'])
@pytest.mark.parametrize("match", ["networkInterfaces", "publicIPAddresses", "ScaleSets/hpc/network"])
def test_a_list_of_interfaces_or_addresses_that_is_broken_is_a_gap(match: str, text: str) -> None:
    azure = Direct(subscriptions=[MIXED], faults=[{"match": f"GET .*{match}", "text": text}])

    found = fetch(azure, source="arm")

    assert len(found.records) == 15
    assert found.gaps


def test_a_null_among_the_machines_of_a_list_is_a_gap_and_the_others_stay() -> None:
    azure = Direct(subscriptions=[{"id": ONE, "vms": 3}])
    azure.state.subscriptions[0].machines.append(
        {"id": "", "name": "", "type": "", "location": "", "properties": {"instanceView": {}}}
    )

    found = fetch(azure, source="arm")

    assert len(found.records) == 3
    assert any("1 rows of the list" in gap for gap in found.gaps)


class Late:
    """The stand-in, with requests that never end or that ask for too long a pause."""

    def __init__(self, match: str, error: Exception | None = None, **spec: t.Any) -> None:
        self.azure = Direct(**spec)
        self.state = self.azure.state
        self._match = match
        self._error = error

    def __call__(self, method: str, url: str, body: t.Any) -> t.Any:
        if re.search(self._match, f"{method} {url} {body}"):
            if self._error:
                raise self._error
            time.sleep(HANGS)  # fault: hangs
        return self.azure(method, url, body)


def complete(azure: Late, **options: t.Any) -> t.Any:
    """Return what is found within the shortest deadline in which all machines are."""
    for deadline in LIMITS[1:]:
        with contextlib.suppress(AzureInventoryError):
            found = fetch(t.cast("Direct", azure), deadline=deadline, **options)
            if len(found.records) == 15:
                return found
    raise AssertionError("not all machines were found")


PAUSE = ThrottledError("GET /x: Azure answered 429 and asks to wait 1200 s; max_wait allows 300 s", 429)


@pytest.mark.parametrize(("source", "match"), [("arm", "GET .*networkInterfaces"), ("arm", "GET .*publicIPAddresses")])
@pytest.mark.parametrize("error", [PAUSE, NoAnswerError("GET /x: Azure cannot be reached: reset"), None])
def test_one_list_that_is_throttled_or_hangs_is_a_gap(source: str, match: str, error: Exception | None) -> None:
    azure = Late(match, error, subscriptions=[MIXED])

    found = complete(azure, source=source)

    assert len(found.records) == 15
    assert found.gaps
    assert all("network interfaces of" in gap or "public addresses of" in gap for gap in found.gaps)


@pytest.mark.parametrize("error", [PAUSE, NoAnswerError("POST /x: Azure cannot be reached: reset"), None])
def test_a_resource_graph_that_is_throttled_or_hangs_leads_to_the_lists_in_time(error: Exception | None) -> None:
    found = complete(Late("^POST", error, subscriptions=[MIXED]))

    assert len(found.records) == 15
    assert any("read instead" in note for note in found.notes)
    assert found.gaps == []


@pytest.mark.parametrize("match", [r"GET .*virtualMachines\?api", r"GET .*virtualMachineScaleSets\?", "^"])
def test_the_deadline_ends_everything_and_names_the_request(match: str) -> None:
    azure = Late(match, subscriptions=[MIXED])

    with within("the lists"), pytest.raises(AzureInventoryError, match=r"deadline is 1 s"):
        fetch(t.cast("Direct", azure), source="arm", deadline=1)


@pytest.mark.parametrize("source", ["graph", "arm"])
def test_a_machine_is_called_by_the_name_that_it_says_from_inside(source: str) -> None:
    azure = Direct(subscriptions=[{"id": ONE, "vms": 1, "uniform": [["hpc", 2]], "guest": "ccw"}])

    found = fetch(azure, source=source)

    named = {one["computer_name"]: (one["guest_computer_name"], one["os_computer_name"]) for one in found.records}
    assert named["ccw-hpc-1"] == ("ccw-hpc-1", "hpc000000")
    assert named["vm00000"] == ("vm00000", "vm00000")


def test_the_lists_say_so_where_they_know_no_name_from_inside() -> None:
    azure = Direct(subscriptions=[{"id": ONE, "vms": 2}])
    for one in azure.state.subscriptions[0].machines:
        del one["properties"]["instanceView"]["computerName"]

    found = fetch(azure, source="arm")

    assert {one["computer_name"] for one in found.records} == {"vm00000", "vm00001"}
    assert any("no names from inside" in note for note in found.notes)


@pytest.mark.parametrize("source", ["graph", "arm"])
@pytest.mark.parametrize("verify", ["none", "scale_sets"])
def test_default_names_may_be_those_of_azure_rm(source: str, verify: str) -> None:
    azure = Direct(subscriptions=[MIXED])
    ids = [one["id"] for one in azure.state.subscriptions[0].machines]
    ids += [one["id"] for some in azure.state.subscriptions[0].instances.values() for one in some]
    expected = sorted(hashlib.sha1(one.encode()).hexdigest()[:4] for one in ids)
    for one in azure.state.tables(None)["resources"]:
        one["id"] = one["id"].replace("HPC-RG", "hpc-rg")

    found = fetch(azure, source=source, verify=verify, exact_ids=True)

    assert sorted(one["default_inventory_hostname"][-4:] for one in found.records) == expected
    assert all(one["private_ipv4_addresses"] for one in found.records)
    assert found.gaps == []


def test_ten_thousand_machines_of_all_kinds_take_no_more_than_the_quota() -> None:
    sets = {"uniform": [[f"u{n}", 50] for n in range(16)], "flexible": [[f"f{n}", 50] for n in range(4)]}
    azure = Direct(subscriptions=[{"id": ONE, "vms": 9000, **sets}])

    found = fetch(azure)

    assert len(found.records) == 10000
    assert len(queries(azure)) <= 15
    assert found.notes == found.gaps == []


@pytest.mark.parametrize(
    "fault",
    [
        {},
        {"text": '{"totalRecords": 5200, "data": [{"id": "/a"}], "$skipToken": "x"}'},
        {"status": 400, "body": {"error": {"code": "InvalidQuery", "message": "no $skip"}}},
        {"text": '{"totalRecords": 5201, "data": []}', "after": 1},
    ],
)
def test_many_pages_are_read_side_by_side_and_in_turn_where_that_does_not_work(fault: dict[str, t.Any]) -> None:
    azure = Direct(
        subscriptions=[{"id": ONE, "vms": 5200}], faults=[{"match": r'"\$skip": ', **fault}] if fault else []
    )

    found = fetch(azure)

    assert len(found.records) == 5200
    assert found.notes == []
    skipped = [line for line in queries(azure) if '"$skip": ' in line]
    assert len(skipped) == (4 if "after" in fault or not fault else 1)
    assert len(queries(azure)) <= 15


def test_one_request_at_a_time_reads_page_after_page() -> None:
    azure = Direct(subscriptions=[{"id": ONE, "vms": 4200}])

    assert len(fetch(azure, concurrency=1).records) == 4200
    assert not [line for line in queries(azure) if '"$skip": ' in line]


def test_addresses_come_from_the_lists_where_they_would_use_up_the_quota(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph, "QUOTA", 1)
    azure = Direct(subscriptions=[{"id": ONE, "vms": 4}])

    found = fetch(azure)

    assert [one["public_ipv4_address"] for one in found.records if one["public_ipv4_address"]] == [["203.0.0.1"]]
    assert len(queries(azure)) == 1


def test_machines_and_interfaces_are_asked_for_apart_where_azure_cannot_join_them() -> None:
    refused = {"error": {"code": "BadRequest", "details": [{"code": "InvalidQuery", "message": "no join"}]}}
    azure = Direct(subscriptions=[MIXED], faults=[{"match": "join", "status": 400, "body": refused}])

    found = fetch(azure)

    assert len(found.records) == 15
    assert all(one["private_ipv4_addresses"] for one in found.records)
    assert found.notes == []


def test_tags_are_left_to_the_client_where_azure_cannot_look_them_up() -> None:
    refused = {"error": {"code": "BadRequest", "details": [{"code": "InvalidQuery", "message": "no parse_json"}]}}
    azure = Direct(subscriptions=[MIXED], stale=1, faults=[{"match": "parse_json", "status": 400, "body": refused}])
    wanted = check_filters({"tags": {"ClusterName": "training"}})

    found = fetch(azure, filters=wanted, source="graph")

    assert len(filters.keep(found.records, wanted)) == 3 + 7
    assert found.gaps == []


def test_an_interface_that_does_not_name_its_machine_is_found_by_the_machine() -> None:
    azure = Direct(subscriptions=[MIXED])
    del azure.state.subscriptions[0].nics[2]["properties"]["virtualMachine"]

    found = fetch(azure)

    assert all(one["private_ipv4_addresses"] for one in found.records)
    assert len([line for line in queries(azure) if "where id in~" in line]) == 1


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
    assert all("where name in~" in line for line in queries(azure))


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
    assert len([line for line in azure.state.log if "ScaleSets/hpc/networkInterfaces" in line]) == 1


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


@pytest.mark.parametrize("source", ["graph", "arm", "auto"])
@pytest.mark.parametrize(
    "match", [r"GET .*virtualMachines\?", "GET .*networkInterfaces", r"GET .*/resources\?", "^POST"]
)
def test_an_answer_with_an_error_beside_no_rows_does_not_lose_hosts_in_silence(match: str, source: str) -> None:
    text = json.dumps({"value": [], "data": [], "totalRecords": 0, "error": {"code": "Partial", "message": "no"}})
    azure = Direct(subscriptions=[MIXED], faults=[{"match": match, "text": text}])

    try:
        found = fetch(azure, source=source)
    except AzureInventoryError:
        return
    assert len(found.records) == 15
    assert found.gaps or all(record["private_ipv4_addresses"] for record in found.records)


@pytest.mark.parametrize(("match", "kept"), [(r"virtualMachines\?.*skiptoken", 200), ("Interfaces.*skiptoken", 250)])
def test_an_empty_second_page_of_a_list_is_a_gap(match: str, kept: int) -> None:
    azure = Direct(subscriptions=[{"id": ONE, "vms": 250}], faults=[{"match": match, "text": '{"value": []}'}])

    found = fetch(azure, source="arm")

    assert len(found.records) == kept
    assert any("rows may be missing" in gap for gap in found.gaps)


def test_a_set_that_no_list_has_any_more_keeps_what_the_graph_knows_and_is_named() -> None:
    nobody = {"match": r"virtualMachineScaleSets\?", "after": 1, "text": '{"value": []}'}
    azure = Direct(subscriptions=[MIXED], faults=[{"match": "ScaleSets/hpc/", "status": 404}, nobody])

    found = fetch(azure)

    assert len(found.records) == 15
    assert any("instances of scale set hpc" in gap for gap in found.gaps)


@pytest.mark.parametrize("source", ["graph", "arm"])
def test_a_machine_with_ipv6_only_has_its_addresses(source: str) -> None:
    azure = Direct(subscriptions=[{"id": ONE, "vms": 1, "uniform": [["hpc", 1]]}])
    own = azure.state.subscriptions[0]
    for nic in [*own.nics, *(one for some in own.instance_nics.values() for one in some)]:
        for one in nic["properties"]["ipConfigurations"]:
            one["properties"]["privateIPAddress"] = "fd00::4"

    found = fetch(azure, source=source)

    assert [one["private_ipv6_addresses"] for one in found.records] == [["fd00::4"], ["fd00::4"]]
    emitted = [hostvars.Names("azure_", None).emitted({**one, **slurm.facts(one)}) for one in found.records]
    assert [one["azure_private_ipv6_addresses"] for one in emitted] == [["fd00::4"], ["fd00::4"]]
