"""Query texts: nothing from the user gets out of its quotes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils import _azure_graph as graph
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_settings import ConfigError, check_filters
from ansible_collections.hpcai.gpucluster.tests.azure_server import kql

TEXT = st.text(st.characters(blacklist_categories=["Cs", "Cc"]), max_size=20)


@settings(max_examples=60, deadline=None)
@given(value=TEXT, tag=TEXT)
def test_any_text_stays_one_literal(value: str, tag: str) -> None:
    conditions = graph.conditions({"tags": {tag: (value,)}}, ())
    query = graph.query(graph.VM, "id, tags", conditions)
    row = {"type": graph.VM, "id": "/a", "tags": {tag: value}}

    assert kql.run(query.text, {"resources": [row, {**row, "tags": {tag: value + "x"}}]}) == [
        {"id": "/a", "tags": {tag: value}}
    ]


@pytest.mark.parametrize("text", ["a\nb", "a\x00", "\x7f"])
def test_control_characters_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="control character"):
        graph.literal(text)


def test_quotes_and_backslashes_are_escaped() -> None:
    assert graph.literal("it's \\ here") == "'it\\'s \\\\ here'"


def test_a_star_asks_for_every_group() -> None:
    assert graph.conditions({}, ("*",)) == []
    assert graph.conditions({}, ("a", "b")) == ["resourceGroup in~ ('a', 'b')"]


def test_only_the_interfaces_of_the_wanted_machines_are_asked_for() -> None:
    where = graph.conditions(check_filters({"names": "x"}), ())

    assert "join" not in graph.nic_query(graph.NIC, graph.VM, []).text
    assert "join kind=inner" in graph.nic_query(graph.NIC, graph.VM, where).text
    assert "join" not in graph.nic_query(graph.NIC, graph.VM, where).plain


def test_every_query_has_an_id_and_an_order_or_pages_would_lose_rows() -> None:
    for kind, columns in ((graph.VM, graph.MACHINE), (graph.ADDRESS, graph.ADDRESS_COLUMNS)):
        text = graph.query(kind, columns).text
        assert "| project id," in text
        assert text.endswith("| order by id asc")


def test_secrets_of_a_machine_are_never_asked_for() -> None:
    for word in ("adminUsername", "ssh", "customData", "userData", "secrets", "diagnostics"):
        assert word not in graph.MACHINE
