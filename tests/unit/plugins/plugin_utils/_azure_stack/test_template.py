# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Literal templates: what is refused, and the ID of each resource."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.settings import ConfigError
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_stack import template as module

GROUP = "/subscriptions/s/resourceGroups/g"


def resource(kind: str = "A.B/c", name: str = "n", **more: t.Any) -> dict[str, t.Any]:
    return {"type": kind, "apiVersion": "1", "name": name, **more}


@pytest.mark.parametrize(
    ("template", "text"),
    [
        (None, "must be a mapping with a list resources"),
        ({"resources": {}}, "must be a mapping with a list resources"),
        ({"resources": ["x"]}, r"template.resources\[0\] must be a mapping"),
        ({"resources": [{**resource(), "apiVersion": None}]}, r"resources\[0\].apiVersion is None"),
        ({"resources": [resource(name="[guid('x')]")]}, r"name is \"\[guid\('x'\)\]\""),
        ({"resources": [resource(copy={"count": 2})]}, "has copy; a literal template has none"),
        ({"resources": [resource(resources=[{"type": "c"}])]}, r"resources\[0\].resources\[0\].apiVersion"),
        ({"resources": [], "parameters": {"a": {}}}, "template has parameters"),
        ({"resources": [resource(a=["[resourceId('x')]"])]}, r"template.resources\[0\].a\[0\] is the expression"),
    ],
)
def test_what_is_not_literal_is_refused_with_its_place(template: t.Any, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        module.check(template)


def test_reference_and_escaped_brackets_are_allowed() -> None:
    module.check({"resources": [resource(a="[reference('x', '1').principalId]", b="[[literal]", c="[1] x")]})


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (resource(), f"{GROUP}/providers/A.B/c/n"),
        (resource("A.B/c/d", "n/m"), f"{GROUP}/providers/A.B/c/n/d/m"),
        (resource("A.R/a", "1", scope="A.B/c/n"), f"{GROUP}/providers/A.B/c/n/providers/A.R/a/1"),
        (resource("A.R/a", "1", scope="/subscriptions/s/x/y"), "/subscriptions/s/x/y/providers/A.R/a/1"),
    ],
)
def test_ids(body: dict[str, t.Any], found: str) -> None:
    assert module.resources({"resources": [body]}, GROUP)[0].id == found


def test_resources_inside_others_are_found() -> None:
    found = module.resources({"resources": [resource(resources=[resource("d", "m")])]}, GROUP)

    assert [(one.id.removeprefix(GROUP), one.type, one.name) for one in found] == [
        ("/providers/A.B/c/n", "A.B/c", "n"),
        ("/providers/A.B/c/n/d/m", "A.B/c/d", "n/m"),
    ]


def test_the_digest_depends_on_all_but_the_capacity() -> None:
    kind = "Microsoft.Compute/virtualMachineScaleSets"

    def digest(size: str, capacity: int, kind: str = kind) -> str:
        return module.digest({"resources": [resource(kind, sku={"name": size, "capacity": capacity})]})

    assert digest("a", 1) == digest("a", 2) != digest("b", 1)
    assert digest("a", 1, "A.B/c") != digest("a", 2, "A.B/c")


def test_capacities_replace_those_of_scale_sets_only() -> None:
    kind = "Microsoft.Compute/virtualMachineScaleSets"
    template = {"resources": [resource(kind, "H", sku={"name": "a", "capacity": 1}), resource(name="h", sku={})]}

    made = module.with_capacities(template, {"h": 7})

    assert [one["sku"] for one in made["resources"]] == [{"name": "a", "capacity": 7}, {}]
    assert template["resources"][0]["sku"]["capacity"] == 1
