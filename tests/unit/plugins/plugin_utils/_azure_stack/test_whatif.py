# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers of what-if, in the form of the models WhatIfOperationResult, WhatIfChange and WhatIfPropertyChange."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_stack import template as templates
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_stack import whatif

GROUP = "/subscriptions/s/resourceGroups/g"
VNET = f"{GROUP}/providers/Microsoft.Network/virtualNetworks/v"
SET = f"{GROUP}/providers/Microsoft.Compute/virtualMachineScaleSets/h100"
IDENTITY = f"{GROUP}/providers/Microsoft.ManagedIdentity/userAssignedIdentities/nodes"


def vnet(**properties: t.Any) -> dict[str, t.Any]:
    kind = {"type": "Microsoft.Network/virtualNetworks", "apiVersion": "1", "name": "v", "location": "South Central US"}
    return {**kind, "tags": {"a.b": "x"}, "properties": {"subnets": [{"name": "n"}], **properties}}


def scale_set(capacity: int = 2, data: str = "AAAA") -> dict[str, t.Any]:
    kind = {"type": "Microsoft.Compute/virtualMachineScaleSets", "apiVersion": "1", "name": "h100"}
    profile = {"osProfile": {"customData": data}}
    return {**kind, "sku": {"name": "ND", "capacity": capacity}, "properties": {"virtualMachineProfile": profile}}


def delta(path: str, kind: str, before: t.Any = None, after: t.Any = None, children: t.Any = None) -> dict[str, t.Any]:
    return {"path": path, "propertyChangeType": kind, "before": before, "after": after, "children": children}


def read(
    body: dict[str, t.Any],
    *rows: dict[str, t.Any],
    last: dict[str, t.Any] | None = None,
    before: dict[str, t.Any] | None = None,
    keep: bool = True,
    kind: str = "Modify",
) -> whatif.Reading:
    """Return the reading of one resource with these rows."""
    now = templates.resources({"resources": [body]}, GROUP)
    old = templates.resources({"resources": [last]}, GROUP) if last else []
    change = {"resourceId": now[0].id.upper(), "changeType": kind, "before": before or {}, "delta": list(rows)}
    answer = {"status": "Succeeded", "properties": {"changes": [change]}}
    return whatif.read(answer, whatif.Templates(now, old, last is not None), keep)


def paths(reading: whatif.Reading) -> list[str]:
    return [entry["path"] for one in reading.changes for entry in one["properties"]]


NOISE = [
    pytest.param(delta("properties.enableDdosProtection", "Delete", False), id="default of the service"),
    pytest.param(delta("properties.resourceGuid", "NoEffect", "1-2"), id="read-only"),
    pytest.param(delta("location", "Modify", "southcentralus", "South Central US"), id="location"),
    pytest.param(delta("properties.x", "Modify", GROUP.upper().replace("/SUB", "/sub"), GROUP.lower()), id="id"),
    pytest.param(delta("properties.x", "Create", None, []), id="empty list"),
    pytest.param(delta("properties.x", "Modify", "4", 4), id="number as a string"),
    pytest.param(delta("properties.x", "Modify", "True", True), id="boolean as a string"),
    pytest.param(delta("properties.x", "Modify", {"a": 1, "b": 2}, {"a": 1}), id="mapping with a default"),
    pytest.param(delta("properties.x", "Modify", "1-2", "[reference('x').principalId]"), id="reference"),
    pytest.param(delta("tags.createdBy", "Delete", "policy"), id="tag of a policy"),
    pytest.param(
        delta(
            "properties.subnets",
            "Array",
            children=[delta("0", "Modify", children=[delta("properties.delegations", "Delete", [])])],
        ),
        id="default in a list",
    ),
]


@pytest.mark.parametrize("row", NOISE)
def test_noise_is_no_change(row: dict[str, t.Any]) -> None:
    assert read(vnet(), row).changes == []


CHANGES = [
    pytest.param(delta("properties.x", "Modify", 1, 2), "properties.x", id="value"),
    pytest.param(delta("properties.x", "Modify", "a", "A"), "properties.x", id="letter case of a value"),
    pytest.param(delta("tags.a.b", "Modify", "w", "x"), "tags.a.b", id="tag with a dot"),
    pytest.param(delta("properties.x", "Create", None, 1), "properties.x", id="new property"),
    pytest.param(
        delta("properties.subnets", "Array", children=[delta("1", "Delete", {"name": "m"})]),
        "properties.subnets[1]",
        id="element that the template lacks",
    ),
    pytest.param(
        delta("properties.subnets", "Array", children=[delta("0", "Modify", children=[delta("name", "Modify", 1, 2)])]),
        "properties.subnets[0].name",
        id="value in a list",
    ),
]


@pytest.mark.parametrize(("row", "path"), CHANGES)
def test_a_change_is_named_by_its_path(row: dict[str, t.Any], path: str) -> None:
    assert paths(read(vnet(), row)) == [path]


def test_a_property_that_the_template_lost_is_a_change_if_the_last_one_had_it() -> None:
    row = delta("properties.enableDdosProtection", "Delete", True)

    assert paths(read(vnet(), row, last=vnet(enableDdosProtection=True))) == ["properties.enableDdosProtection"]
    assert paths(read(vnet(), row, last=vnet())) == []


def test_the_capacity_of_a_scale_set_stays_unless_the_template_rules() -> None:
    row = delta("sku.capacity", "Modify", 16, 2)
    there = {"sku": {"capacity": 16}}

    kept = read(scale_set(), row, before=there)
    ruled = read(scale_set(), row, before=there, keep=False)

    assert (kept.changes, kept.capacities) == ([], {"h100": 16})
    assert (paths(ruled), ruled.capacities) == (["sku.capacity"], {})


def test_custom_data_is_compared_between_templates_and_never_shown() -> None:
    row = delta("properties.virtualMachineProfile.osProfile.customData", "Create", None, "AAAA")

    assert read(scale_set(), row).changes == []
    assert read(scale_set(), row, last=scale_set()).changes == []
    edited = read(scale_set(), row, last=scale_set(data="BBBB")).changes
    assert "AAAA" not in str(edited)
    assert "BBBB" not in str(edited)
    assert edited[0]["properties"][0]["before"] != edited[0]["properties"][0]["after"]


def test_a_new_identity_is_a_change_and_one_in_other_letters_is_none() -> None:
    body = {**scale_set(), "identity": {"userAssignedIdentities": {IDENTITY: {}}}}
    loud = IDENTITY.replace("/g/", "/G/")
    there = {"identity": {"userAssignedIdentities": {loud: {"principalId": "1"}}}}
    create = delta(f"identity.userAssignedIdentities['{IDENTITY}']", "Create", None, {})
    delete = delta(f"identity.userAssignedIdentities['{loud}']", "Delete", {"principalId": "1"})

    assert read(body, create, delete, before=there).changes == []
    assert len(paths(read(body, create, before={"identity": {"userAssignedIdentities": {}}}))) == 1


def test_what_cannot_be_judged_is_a_doubt_and_a_change_only_after_an_edit() -> None:
    same = read(vnet(), kind="Unsupported")
    edited = read(vnet(), kind="Unsupported", last=vnet(x=1))

    assert same.changes == []
    assert same.doubts == ["Microsoft.Network/virtualNetworks v: what-if answers Unsupported"]
    assert [one["change"] for one in edited.changes] == ["Unsupported"]


def test_an_answer_that_does_not_name_a_resource_is_a_doubt() -> None:
    now = templates.resources({"resources": [vnet()]}, GROUP)

    answers: list[dict[str, t.Any]] = [{}, {"properties": None}, {"properties": {"changes": []}}]
    for answer in answers:
        assert whatif.read(answer, whatif.Templates(now)).doubts


def test_a_potential_change_is_read_like_any_other() -> None:
    now = templates.resources({"resources": [vnet()]}, GROUP)
    row = {"resourceId": VNET, "changeType": "Modify", "delta": [delta("properties.x", "Modify", 1, 2)]}

    assert paths(whatif.read({"properties": {"potentialChanges": [row], "changes": None}}, whatif.Templates(now)))


def test_what_others_own_in_the_group_is_ignored() -> None:
    now = templates.resources({"resources": [vnet()]}, GROUP)
    other = {"resourceId": f"{GROUP}/providers/Microsoft.Compute/disks/d", "changeType": "Ignore"}
    none = {"resourceId": VNET, "changeType": "NoChange", "delta": []}

    assert whatif.read({"properties": {"changes": [other, none]}}, whatif.Templates(now)) == (
        [],
        {},
        [],
        [whatif.Existing(now[0], None)],
    )


def test_a_diff_has_a_line_for_each_property() -> None:
    modify = read(vnet(), delta("properties.x", "Modify", 1, [2])).changes
    create = read(scale_set(), kind="Create").changes

    shown = whatif.diff([*modify, *create])

    assert shown["before"] == "Microsoft.Network/virtualNetworks v\n  properties.x: 1\n"
    assert shown["after"].startswith("Microsoft.Network/virtualNetworks v\n  properties.x: [2]\n")
    assert "  sku.capacity: 2\n" in shown["after"]
    assert "AAAA" not in shown["after"]


def test_every_rule_has_a_reason() -> None:
    for rule in (*whatif.WRITE_ONLY, *whatif.IGNORED):
        assert rule.reason
        assert rule.type == rule.type.lower()
