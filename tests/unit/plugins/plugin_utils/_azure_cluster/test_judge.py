# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each kind of change on each kind of resource that people would lose."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_cluster import judge

GROUP = "/subscriptions/1/resourceGroups/hpc"
TYPES = {
    "controller": "Microsoft.Compute/virtualMachines/hpc-controller",
    "node": "Microsoft.Compute/virtualMachines/hpc-h100-1",
    "disk": "Microsoft.Compute/disks/hpc-data-0",
    "network": "Microsoft.Network/virtualNetworks/hpc",
    "rules": "Microsoft.Network/networkSecurityGroups/hpc-head",
    "address": "Microsoft.Network/publicIPAddresses/hpc-nat",
    "workflow": "Microsoft.Logic/workflows/hpc-expiry",
    "role": "Microsoft.Authorization/roleAssignments/4d06",
}
Row = dict[str, t.Any]


def title(what: str) -> str:
    return "/".join(TYPES[what].lower().split("/")[-2:])


def identity(what: str) -> str:
    return f"{GROUP}/providers/{TYPES[what]}"


def row(what: str, kind: str, *delta: Row, **more: t.Any) -> Row:
    changes = {"before": {"tags": {"gpucluster_cluster": "hpc"}}, "delta": list(delta)}
    return {"id": identity(what), "changeType": kind, "resourceConfigurationChanges": changes, **more}


def prop(path: str, kind: str = "modify", before: t.Any = "a", after: t.Any = "b", **more: t.Any) -> Row:
    return {"path": path, "changeType": kind, "before": before, "after": after, **more}


def judged(*rows: Row, **changes: t.Any) -> judge.Judgement:
    known: dict[str, t.Any] = {"cluster": "hpc", "wanted": {}, "managed": (), "is_new": False, "gone": (), "allow": ()}
    answer = {"properties": {"changes": {"resourceChanges": list(rows)}, **changes.pop("answer", {})}}
    return judge.judge(answer, judge.Known(**{**known, **changes}))


@pytest.mark.parametrize("what", TYPES)
@pytest.mark.parametrize("kind", ["delete", "detach", "Delete"])
def test_nothing_is_deleted_unless_it_is_named(what: str, kind: str) -> None:
    other = f"identities/{title(what).rpartition('/')[2]}"

    assert len(judged(row(what, kind)).refusals) == 1
    assert title(what) in judged(row(what, kind)).refusals[0].lower()
    assert len(judged(row(what, kind), allow={other}).refusals) == 1, "another resource of the same name"
    assert judged(row(what, kind), allow={title(what)}).refusals == []


DISK = {"lun": 0, "managedDisk": {"id": identity("disk")}}
DATA_DISKS = "properties.storageProfile.dataDisks"
FOREIGN = {"name": "theirs", "properties": {"addressPrefix": "10.10.9.0/24"}}
# A change of an existing resource that somebody would lose something by.
REFUSED: dict[str, tuple[str, Row]] = {
    "homes are detached, as a list": ("controller", prop(DATA_DISKS, before=[DISK], after=[])),
    "homes are detached, as a key": ("controller", prop(DATA_DISKS, "delete", [DISK], None)),
    "homes are detached, as an element": (
        "controller",
        prop(DATA_DISKS, "array", None, None, children=[prop("0", "delete", DISK, None)]),
    ),
    "a disk is attached": (
        "controller",
        prop(DATA_DISKS, "array", None, None, children=[prop("0", "create", None, DISK)]),
    ),
    "the size of the controller": ("controller", prop("properties.hardwareProfile.vmSize")),
    "the size of a node": ("node", prop("properties.hardwareProfile.vmSize")),
    "another image": ("node", prop("properties.storageProfile.imageReference.version")),
    "a larger disk": ("disk", prop("properties.diskSizeGB", before=1024, after=2048)),
    "another kind of disk": ("disk", prop("sku.name", before="Premium_LRS", after="StandardSSD_LRS")),
    "a foreign subnet": (
        "network",
        prop("properties.subnets", "array", None, None, children=[prop("2", "delete", FOREIGN, None)]),
    ),
    "foreign subnets, as a list": (
        "network",
        prop("properties.subnets", before=[FOREIGN, {"name": "head"}], after=[{"name": "head"}]),
    ),
    "a foreign subnet before ours": (
        "network",
        prop(
            "properties.subnets",
            "array",
            None,
            None,
            children=[prop("0", "array", None, None, children=[prop("name")])],
        ),
    ),
    "a peering": ("network", prop("properties.virtualNetworkPeerings", "delete", [{"name": "hub"}], None)),
    "foreign addresses": (
        "network",
        prop(
            "properties.addressSpace.addressPrefixes",
            "array",
            None,
            None,
            children=[prop("1", "delete", "10.9.0.0/16", None)],
        ),
    ),
    "other addresses of a subnet": ("network", prop("properties.subnets[0].properties.addressPrefix")),
    "a route table": ("network", prop("properties.subnets[0].properties.routeTable", "delete", {"id": "/x"}, None)),
    "a foreign rule": (
        "rules",
        prop("properties.securityRules", "array", None, None, children=[prop("5", "delete", FOREIGN, None)]),
    ),
}


@pytest.mark.parametrize(("what", "delta"), REFUSED.values(), ids=list(REFUSED))
def test_what_people_would_lose_is_refused_unless_it_is_named(what: str, delta: Row) -> None:
    found = judged(row(what, "modify", delta))

    assert len(found.refusals) == 1
    assert TYPES[what].rpartition("/")[2] in found.refusals[0]
    assert found.changes[0]["change"] == "Modify"
    assert judged(row(what, "modify", delta), allow={title(what)}).refusals == []


# A change that a run makes without a question.
ALLOWED: dict[str, tuple[str, Row]] = {
    "tags of a machine": ("controller", prop("tags.owner")),
    "an identity": ("controller", prop("identity.userAssignedIdentities", "create", None, {"/x": {}})),
    "a new subnet": (
        "network",
        prop("properties.subnets", "array", None, None, children=[prop("2", "create", None, FOREIGN)]),
    ),
    "who may log in": (
        "rules",
        prop(
            "properties.securityRules[0].properties.sourceAddressPrefixes",
            "array",
            None,
            None,
            children=[prop("1", "delete", "203.0.113.0/24", None)],
        ),
    ),
    "another end": ("workflow", prop("properties.definition.triggers.at_its_time.recurrence.startTime")),
    "tags of a disk": ("disk", prop("tags.owner")),
}


@pytest.mark.parametrize(("what", "delta"), ALLOWED.values(), ids=list(ALLOWED))
def test_other_changes_are_made(what: str, delta: Row) -> None:
    found = judged(row(what, "modify", delta))

    assert (found.refusals, len(found.changes)) == ([], 1)


# What what-if reports in every run although nothing changes.
NOISE: dict[str, tuple[str, Row]] = {
    "custom data is never returned": ("node", prop("properties.osProfile.customData", "create", None, "I2Ns")),
    "a default of the service": ("node", prop("properties.osProfile.allowExtensionOperations", "delete", True, None)),
    "the name of a system disk": ("node", prop("properties.storageProfile.osDisk.name", "delete", "x", None)),
    "an empty list": ("network", prop("properties.virtualNetworkPeerings", "delete", [], None)),
    "no effect": ("controller", prop("properties.vmId", "noEffect")),
    "letters of an ID": (
        "node",
        prop("properties.availabilitySet.id", before=GROUP.upper().replace("/SUB", "/sub"), after=GROUP),
    ),
    "a number as a text": ("disk", prop("properties.diskSizeGB", before="1024", after=1024)),
    "a key that only Azure has": ("node", prop("properties.x", before={"a": 1, "etag": "y"}, after={"A": 1})),
}


@pytest.mark.parametrize(("what", "delta"), NOISE.values(), ids=list(NOISE))
def test_noise_is_no_change(what: str, delta: Row) -> None:
    assert judged(row(what, "modify", delta)) == ([], [], [])


def test_new_resources_are_made() -> None:
    found = judged(row("node", "create"), row("disk", "noChange"))

    assert [(one["name"], one["change"]) for one in found.changes] == [("hpc-h100-1", "Create")]
    assert (found.refusals, found.doubts) == ([], [])


@pytest.mark.parametrize("kind", ["modify", "noChange"])
def test_what_somebody_else_made_is_not_taken_over(kind: str) -> None:
    foreign = row("network", kind, prop("tags.x"))
    foreign["resourceConfigurationChanges"]["before"] = {"tags": {"gpucluster_cluster": "other"}}

    assert "this stack did not make it" in judged(foreign).refusals[0]
    assert judged(foreign, managed={identity("network").lower()}).refusals == []
    assert judged(foreign, allow={title("network")}).refusals == []


@pytest.mark.parametrize("what", TYPES)
@pytest.mark.parametrize("seen", [True, False], ids=["unsupported", "no row"])
def test_what_nobody_can_tell_is_refused_or_said(what: str, seen: bool) -> None:
    kind = TYPES[what].rpartition("/")[0].lower()
    rows = [row(what, "unsupported", unsupportedReason="no read")] if seen else []
    wanted = {identity(what).lower(): kind}
    found = judged(*rows, wanted=wanted)

    assert len(found.refusals) == (what not in ("workflow", "role"))
    assert "unknown" in [*found.refusals, *found.doubts][0]
    assert judged(*rows, wanted=wanted, allow={title(what)}).refusals == []
    assert judged(*rows, wanted=wanted, is_new=True).refusals == [], "a new stack has nothing to lose"


@pytest.mark.parametrize("what", ["controller", "disk", "network"])
def test_what_left_the_template_and_the_answer_is_refused(what: str) -> None:
    """An incomplete answer of the what-if would let the stack delete it."""
    found = judged(managed={identity(what).lower()})

    assert len(found.refusals) == 1
    assert "left the template" in found.refusals[0]
    assert judged(managed={identity(what).lower()}, gone={identity(what).lower()}).refusals == []


@pytest.mark.parametrize("what", ["controller", "disk", "network"])
def test_a_change_that_is_not_described_is_refused(what: str) -> None:
    assert "does not say what changes" in judged(row(what, "modify")).refusals[0]


def test_a_value_that_azure_makes_is_said_and_no_change() -> None:
    found = judged(
        row("role", "modify", prop("properties.principalId", before="4d06", after="[reference('x').principalId]"))
    )

    assert (found.changes, found.refusals) == ([], [])
    assert "known only after the run" in found.doubts[0]


def test_diagnostics_are_said() -> None:
    found = judged(answer={"diagnostics": [{"level": "warning", "code": "ShortCircuited", "message": "too deep"}]})

    assert found.doubts == ["warning: ShortCircuited: too deep"]


def test_a_machine_that_a_person_deleted_is_no_deletion() -> None:
    assert judged(row("node", "delete"), gone={identity("node").lower()}) == ([], [], [])


def test_the_diff_has_a_line_for_each_property() -> None:
    found = judged(row("node", "modify", prop("tags.owner")), row("disk", "delete"), row("network", "create"))

    node = "microsoft.compute/virtualmachines hpc-h100-1"
    assert judge.diff(found.changes) == {
        "before": f'{node}\n  tags.owner: "a"\nmicrosoft.compute/disks hpc-data-0\n',
        "after": f'{node}\n  tags.owner: "b"\nmicrosoft.network/virtualnetworks hpc\n',
    }
