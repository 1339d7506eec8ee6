"""Query texts: nothing from the user gets out of its quotes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure import graph
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.settings import ConfigError, check_filters
from ansible_collections.hpcai.gpucluster.tests.azure_server import kql

TEXT = st.text(st.characters(blacklist_categories=["Cs", "Cc"]), max_size=20)


@settings(max_examples=60, deadline=None)
@given(value=TEXT, tag=TEXT)
def test_any_text_stays_one_literal(value: str, tag: str) -> None:
    conditions = graph.conditions({"tags": {tag: (value,)}}, ())
    query = graph.query(graph.VM, "id, tags", conditions)
    row = {"type": graph.VM, "id": "/a", "tags": {tag: value}}

    found = kql.run(query.text, {"resources": [row, {**row, "tags": {tag.swapcase(): value + "x"}}]})

    assert {"id": "/a", "tags": {tag: value}} in found
    assert len(found) == 1 or not (value + tag).isascii()  # which only the client decides


@pytest.mark.parametrize("text", ["a\nb", "a\x00", "\x7f"])
def test_control_characters_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="control character"):
        graph.literal(text)


def test_quotes_and_backslashes_are_escaped() -> None:
    assert graph.literal("it's \\ here") == "'it\\'s \\\\ here'"


def test_a_star_asks_for_every_group() -> None:
    assert graph.conditions({}, ("*",)) == []
    assert graph.conditions({}, ("a", "b")) == ["resourceGroup in~ ('a', 'b')"]


def test_tags_are_compared_without_the_case_of_their_names() -> None:
    where = graph.conditions(check_filters({"tags": {"ENV": "Prod", "owner": None}}), ())
    rows = [
        {"type": graph.VM, "id": f"/{n}", "tags": tags} for n, tags in enumerate([{"Env": "Prod", "Owner": "x"}, {}])
    ]

    assert [row["id"] for row in kql.run(graph.ids(graph.VM, where).text, {"resources": rows})] == ["/0"]


@pytest.mark.parametrize(
    ("kind", "owner"), [(graph.VM, "/s/VM"), (graph.INSTANCE, "/s/virtualMachineScaleSets/x/virtualMachines/0")]
)
def test_a_machine_comes_beside_each_of_its_interfaces(kind: str, owner: str) -> None:
    nic_kind = graph.NIC if kind == graph.VM else graph.INSTANCE_NIC
    machines = [{"type": kind, "id": one, "name": "m"} for one in (owner, "/s/virtualMachines/alone")]
    nics = [
        {
            "type": nic_kind,
            "id": f"{owner}/networkInterfaces/{name}",
            "name": name,
            "properties": {"virtualMachine": {"id": owner.upper()}},
        }
        for name in "ba"
    ]

    rows = kql.run(graph.joined(kind, []).text, {"resources": machines + nics, "computeresources": machines + nics})

    found = [(row["id"], (graph.nic_of(row) or {}).get("name")) for row in rows]
    assert sorted(found, key=str) == sorted([(owner, "a"), (owner, "b"), (machines[1]["id"], None)], key=str)
    assert not {"vmKey", "vmKey1"} & set(rows[0])


def test_every_query_has_an_id_and_an_order_or_pages_would_lose_rows() -> None:
    for kind, columns in ((graph.VM, graph.MACHINE), (graph.ADDRESS, graph.ADDRESS_COLUMNS)):
        text = graph.query(kind, columns).text
        assert "| project id," in text
        assert text.endswith("| order by id asc")


def test_secrets_of_a_machine_are_never_asked_for() -> None:
    for word in ("adminUsername", "ssh", "customData", "userData", "secrets", "diagnostics"):
        assert word not in graph.MACHINE
