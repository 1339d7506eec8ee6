# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import copy
import difflib
import functools
import json
import operator
import os
import re
import typing as t
from pathlib import Path

import pytest

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_cluster import scope, sizes, template
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_stack import template as stack_template
from ansible_collections.hpcai.gpucluster.tests.unit.support import arm_schema, azure_clusters

GOLDEN = Path(__file__).parents[3] / "fixtures/azure_templates"
# One size has a whole template. Of each other one, the lines that differ from it are in one file.
WHOLE = "standard_nd96isr_h100_v5"
DIFFERENCES = GOLDEN / "differences.txt"
SIZES = sizes.names()
# Rewrites the golden templates: review the difference before you commit it.
REGENERATE = "GPUCLUSTER_WRITE_TEMPLATES"


def _rendered(name: str) -> dict[str, t.Any]:
    return t.cast("dict[str, t.Any]", template.rendered(azure_clusters.EVERYTHING[name])["template"])


def _of(rendered: t.Mapping[str, t.Any], kind: str) -> list[dict[str, t.Any]]:
    return [resource for resource in rendered["resources"] if resource["type"] == f"Microsoft.{kind}"]


def _text(value: t.Any) -> str:
    """Return JSON with each smallest mapping or list, such as a tag list or a rule, in one line."""
    text = json.dumps(value, indent=1)
    return re.sub(r"(?<=[\[{])\n[^\[\]{}]*(?=[\]}])", lambda inner: " ".join(inner[0].split()), text) + "\n"


@pytest.mark.parametrize("name", azure_clusters.EVERYTHING)
def test_every_property_passes_the_models_of_the_sdk(name: str) -> None:
    assert arm_schema.faults(_rendered(name)) == []


def test_every_type_of_the_schema_is_rendered() -> None:
    rendered = {resource["type"] for name in azure_clusters.EVERYTHING for resource in _rendered(name)["resources"]}

    assert rendered == set(arm_schema.MODELS)


def _scale_set() -> dict[str, t.Any]:
    return copy.deepcopy(_of(_rendered("spot"), "Compute/virtualMachineScaleSets")[0])


_PROFILE = ("properties", "virtualMachineProfile")


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("properties", "singlePlacmentGroup"), True, "singlePlacmentGroup: unknown"),
        ((*_PROFILE, "evictionPolicy"), "Remove", "'Remove' is none of Deallocate, Delete"),
        ((*_PROFILE, "osProfile", "disablePasswordAuthentication"), True, "disablePasswordAuthentication: unknown"),
        (("sku", "capacity"), "2", "'2' is not a int"),
        (("properties", "overprovision"), "false", "'false' is not a bool"),
        (("properties", "uniqueId"), "x", "uniqueId: read-only"),
        ((*_PROFILE, "networkProfile", "networkInterfaceConfigurations", 0, "name"), None, "name: required"),
        ((*_PROFILE, "osProfile", "adminUsername"), "[parameters('admin')]", "is an expression"),
        (("apiVersion",), "2019-03-01", "apiVersion"),
    ],
)
def test_the_schema_catches(path: tuple[t.Any, ...], value: t.Any, words: str) -> None:
    """Plant a fault in a scale set; None removes a key."""
    resource = _scale_set()
    assert arm_schema.faults({"resources": [resource]}) == []
    *parents, key = path
    place = functools.reduce(operator.getitem, parents, resource)
    place[key] = value
    if value is None:
        del place[key]

    [fault] = arm_schema.faults({"resources": [resource]})

    assert words in fault


def test_the_schema_catches_a_fault_in_a_role_assignment() -> None:
    assignment = copy.deepcopy(_of(_rendered("smallest"), "Authorization/roleAssignments")[0])
    assignment["properties"]["roleId"] = assignment["properties"].pop("roleDefinitionId")

    assert [fault.rpartition(".")[2] for fault in arm_schema.faults({"resources": [assignment]})] == [
        "roleId: unknown to RoleAssignmentCreateParameters",
        "roleDefinitionId: required by RoleAssignmentCreateParameters",
    ]


def _ids(value: t.Any) -> t.Iterator[str]:
    """Yield the ids that a resource names outside dependsOn, with the one in its expression."""
    if isinstance(value, dict):
        for key, item in value.items():
            if key != "dependsOn":
                yield from _ids(item)
                yield from _ids(key)
    elif isinstance(value, list):
        for item in value:
            yield from _ids(item)
    elif isinstance(value, str) and ("/providers/Microsoft." in value):
        yield value.partition("'")[2].partition("'")[0] if value.startswith("[") else value


@pytest.mark.parametrize("name", azure_clusters.EVERYTHING)
def test_what_a_resource_names_is_there_before_it(name: str) -> None:
    rendered = _rendered(name)
    group = scope.group_id(azure_clusters.cluster()["subscription_id"], "hpc")
    own = {scope.resource_id(group, item["type"], *item["name"].split("/")) for item in rendered["resources"]}

    for resource in rendered["resources"]:
        named = {found for found in _ids(resource) if found.startswith(group)}
        networks = {found.partition("/subnets/")[0] for found in named if "/subnets/" in found}
        used = {found for found in named if "/subnets/" not in found} | networks
        assert used <= own, resource["name"]
        assert set(resource.get("dependsOn", ())) <= own
        assert used <= set(resource.get("dependsOn", ())), resource["name"]


@pytest.mark.parametrize("name", azure_clusters.EVERYTHING)
def test_names_of_resources_are_unique(name: str) -> None:
    found = [(item["type"], item["name"].lower()) for item in _rendered(name)["resources"]]

    assert len(found) == len(set(found))


def test_the_template_is_literal() -> None:
    for name in azure_clusters.EVERYTHING:
        rendered = _rendered(name)
        assert set(rendered) - {"outputs"} == {"$schema", "contentVersion", "resources"}
        assert not any({"copy", "condition"} & set(resource) for resource in rendered["resources"])


def _golden(size: str) -> str:
    rendered = template.rendered(azure_clusters.set_of(size))["template"]
    assert arm_schema.faults(rendered) == []
    return _text(rendered)


def test_golden_templates() -> None:
    """To write them again: GPUCLUSTER_WRITE_TEMPLATES=yes pytest tests/unit/.../test_template.py -k golden."""
    texts = {size.lower(): _golden(size) for size in SIZES}
    lines = {size: text.splitlines(keepends=True) for size, text in texts.items()}
    differences = [line for size in texts for line in difflib.unified_diff(lines[WHOLE], lines[size], WHOLE, size, n=0)]
    wanted = {GOLDEN / f"{WHOLE}.json": texts[WHOLE], DIFFERENCES: "".join(differences)}
    for path, text in wanted.items() if os.environ.get(REGENERATE) == "yes" else ():
        path.write_text(text, encoding="utf-8")

    for path, text in wanted.items():
        again = f"{path}: {REGENERATE}=yes pytest {__file__} -k golden writes it again; review the difference"
        assert path.read_text(encoding="utf-8") == text, again
    assert sorted(GOLDEN.iterdir()) == sorted(wanted)


@pytest.mark.parametrize("size", SIZES)
def test_what_hpc_needs_is_the_default(size: str) -> None:
    rendered = template.rendered(azure_clusters.set_of(size))["template"]
    (scale_set,) = _of(rendered, "Compute/virtualMachineScaleSets")
    properties = scale_set["properties"]
    profile = properties["virtualMachineProfile"]
    (interface,) = profile["networkProfile"]["networkInterfaceConfigurations"]

    assert properties["orchestrationMode"] == "Uniform"
    assert properties["singlePlacementGroup"] is ("GB" not in size)
    assert properties["platformFaultDomainCount"] == 1
    assert properties["overprovision"] is False
    assert properties["upgradePolicy"] == {"mode": "Manual"}
    assert interface["properties"]["enableAcceleratedNetworking"] is True
    assert "latest" not in json.dumps(profile["storageProfile"]["imageReference"])
    assert "publicIPAddress" not in json.dumps(interface)
    assert profile["osProfile"]["linuxConfiguration"]["disablePasswordAuthentication"] is True
    assert scale_set["identity"]["type"] == "UserAssigned"
    assert scale_set["tags"]["slurm_role"] == "compute"
    assert scale_set["tags"]["slurm_cluster"] == "hpc"
    assert "proximityPlacementGroup" not in properties


def test_a_proximity_placement_group_is_made_where_it_is_wanted() -> None:
    sets = _of(_rendered("split"), "Compute/virtualMachineScaleSets")

    assert all("proximityPlacementGroup" in one["properties"] for one in sets)


def test_an_elastic_set_in_a_network_elsewhere_needs_a_right_on_its_subnet() -> None:
    [entry] = azure_clusters.gpu_set(elastic=True)["gpu_sets"]
    existing = azure_clusters.EVERYTHING["existing network"]
    own = {**existing["network"], "resource_group": "HPC"}

    def told(**changes: t.Any) -> bool:
        return any("subnets/join/action" in one for one in template.rendered({**existing, **changes})["messages"])

    assert told(gpu_sets=[entry])
    assert not told()
    assert not told(gpu_sets=[entry], network=own)


def test_only_the_entrance_has_a_public_address() -> None:
    interfaces = _of(_rendered("public"), "Network/networkInterfaces")

    public = [item["name"] for item in interfaces if "publicIPAddress" in json.dumps(item["properties"])]
    assert public == ["hpc-login-1"]
    assert [item["name"] for item in _of(_rendered("public"), "Network/publicIPAddresses")] == [
        "hpc-nat",
        "hpc-login-1",
    ]


def test_machines_leave_through_nat_only() -> None:
    (network,) = _of(_rendered("smallest"), "Network/virtualNetworks")
    parts = {part["name"]: part["properties"] for part in network["properties"]["subnets"]}

    assert set(parts) == {"head", "nodes", "AzureBastionSubnet"}
    for name in ("head", "nodes"):
        assert parts[name]["defaultOutboundAccess"] is False
        assert parts[name]["natGateway"]["id"].endswith("/natGateways/hpc-nat")


def test_every_subnet_has_a_security_group_because_landing_zones_require_it() -> None:
    (network,) = _of(_rendered("storage"), "Network/virtualNetworks")
    groups = {
        part["name"]: part["properties"]["networkSecurityGroup"]["id"].rpartition("/")[2]
        for part in network["properties"]["subnets"]
    }

    assert groups == {
        "head": "hpc-head",
        "nodes": "hpc-nodes",
        "AzureBastionSubnet": "hpc-bastion",
        "anf": "hpc-anf",
        "amlfs": "hpc-amlfs",
    }
    assert {(one["direction"], one["access"]) for one in _rules("storage", "hpc-bastion").values()} == {
        ("Inbound", "Allow"),
        ("Outbound", "Allow"),
    }
    assert _rules("storage", "hpc-anf") == _rules("storage", "hpc-amlfs") == {}


def _rules(name: str, group: str) -> dict[str, dict[str, t.Any]]:
    groups = {item["name"]: item for item in _of(_rendered(name), "Network/networkSecurityGroups")}
    return {rule["name"]: rule["properties"] for rule in groups[group]["properties"]["securityRules"]}


@pytest.mark.parametrize("group", ["hpc-head", "hpc-nodes"])
def test_a_security_group_ends_with_a_refusal(group: str) -> None:
    rules = list(_rules("smallest", group).values())

    assert rules[-1]["access"] == "Deny"
    assert rules[-1]["priority"] == 4096
    assert rules[-1]["sourceAddressPrefix"] == "*"
    assert len({rule["priority"] for rule in rules}) == len(rules)
    assert all(
        rule["access"] == "Allow"
        and rule["sourceAddressPrefix" if "sourceAddressPrefix" in rule else "sourceAddressPrefixes"]
        not in ("*", "Internet", ["*"])
        for rule in rules[:-1]
    )


@pytest.mark.parametrize(
    ("name", "sources"),
    [
        ("smallest", "10.10.0.64/26"),
        ("public", ["203.0.113.0/24", "198.51.100.7/32"]),
        ("private", "VirtualNetwork"),
        ("existing network", "VirtualNetwork"),
    ],
)
def test_ssh_comes_from(name: str, sources: t.Any) -> None:
    rule = _rules(name, "hpc-head")["ssh"]

    assert rule.get("sourceAddressPrefix", rule.get("sourceAddressPrefixes")) == sources


@pytest.mark.parametrize("group", ["hpc-head", "hpc-nodes"])
@pytest.mark.parametrize(
    ("name", "source"), [("storage", "10.10.0.192/26"), ("existing network", "VirtualNetwork"), ("smallest", None)]
)
def test_servers_of_lustre_reach_their_clients(name: str, source: str | None, group: str) -> None:
    rule = _rules(name, group).get("lustre", {})

    assert rule.get("sourceAddressPrefix") == source
    assert rule.get("destinationPortRanges") == (["988", "1019-1023"] if source else None)


@pytest.mark.parametrize(
    ("kind", "head", "nodes"),
    [
        ("none", {}, {}),
        ("metrics", {"monitoring": ["9100", "9400"]}, {"monitoring": ["9100", "9400"]}),
        ("logs", {"monitoring": ["9100", "9400"], "logs": "19532"}, {"monitoring": ["9100", "9400"]}),
    ],
)
def test_the_ports_of_the_monitoring_are_open_where_it_is_on(
    kind: str, head: dict[str, t.Any], nodes: dict[str, t.Any]
) -> None:
    rendered = template.rendered(azure_clusters.cluster(monitoring=kind))["template"]
    found = {
        group["name"]: {
            rule["name"]: rule["properties"].get(
                "destinationPortRanges", rule["properties"].get("destinationPortRange")
            )
            for rule in group["properties"]["securityRules"]
            if rule["name"] in ("monitoring", "logs")
        }
        for group in _of(rendered, "Network/networkSecurityGroups")[:2]
    }

    assert found == {"hpc-head": head, "hpc-nodes": nodes}


def test_nodes_admit_the_head_for_ssh_and_slurmd_only() -> None:
    rule = _rules("smallest", "hpc-nodes")["ssh-and-slurmd"]

    assert rule["sourceAddressPrefix"] == "10.10.0.0/26"
    assert rule["destinationPortRanges"] == ["22", "6818"]


def test_nothing_of_an_existing_network_is_written() -> None:
    kinds = {item["type"] for item in _rendered("existing network")["resources"]}

    assert not kinds & {"Microsoft.Network/virtualNetworks", "Microsoft.Network/natGateways"}


def test_the_identity_of_the_nodes_has_no_role() -> None:
    for name in azure_clusters.EVERYTHING:
        assert "hpc-nodes" not in json.dumps(_of(_rendered(name), "Authorization/roleAssignments"))


def _actions(rendered: t.Mapping[str, t.Any]) -> list[str]:
    """Return the actions of the role that the controller has, or the name of a role of Azure."""
    [assignment] = _of(rendered, "Authorization/roleAssignments")
    role = assignment["properties"]["roleDefinitionId"].rpartition("/")[2]
    own = {one["name"]: one["properties"] for one in _of(rendered, "Authorization/roleDefinitions")}
    if role not in own:
        return [role]
    assert any(one.endswith(f"/roleDefinitions/{role}") for one in assignment["dependsOn"])
    [permission] = own[role]["permissions"]
    return t.cast("list[str]", permission["actions"])


READER = "acdd72a7-3385-48ef-bd42-f606fba81ae7"
REMOVAL = ["Microsoft.Resources/subscriptions/resourceGroups/delete", "Microsoft.Resources/tags/write"]
GROWTH = [
    "Microsoft.Compute/virtualMachineScaleSets/delete/action",
    "Microsoft.Compute/virtualMachineScaleSets/write",
    "Microsoft.ManagedIdentity/userAssignedIdentities/assign/action",
    "Microsoft.Network/networkSecurityGroups/join/action",
    "Microsoft.Network/virtualNetworks/subnets/join/action",
]
REPAIR = [f"Microsoft.Compute/virtualMachineScaleSets/{step}/action" for step in ("redeploy", "reimage")]


@pytest.mark.parametrize(
    ("cluster", "actions"),
    [
        (azure_clusters.cluster(), [READER]),
        (azure_clusters.cluster(delete_after="7d"), ["*/read", *REMOVAL]),
        (azure_clusters.gpu_set(elastic=True), ["*/read", *GROWTH]),
        (azure_clusters.cluster(identity={"repair": True}), ["*/read", *REPAIR]),
        (azure_clusters.cluster(delete_after="7d", identity={"controller_role": "reader"}), [READER]),
    ],
)
def test_the_controller_has_the_least_role(cluster: dict[str, t.Any], actions: list[str]) -> None:
    assert _actions(template.rendered(cluster)["template"]) == actions


@pytest.mark.parametrize("wanted", ["Standard", "TrustedLaunch"])
def test_each_machine_has_a_security_type_because_the_default_of_azure_is_secure_boot(wanted: str) -> None:
    given = {} if wanted == "Standard" else {"security_type": wanted}
    rendered = template.rendered(azure_clusters.cluster(login={"count": 1}, **given))["template"]
    profiles = [one["properties"] for one in _of(rendered, "Compute/virtualMachines")]
    profiles += [one["properties"]["virtualMachineProfile"] for one in _of(rendered, "Compute/virtualMachineScaleSets")]

    assert [one["securityProfile"] for one in profiles] == [{"securityType": wanted}] * 3


def test_the_disks_of_the_homes_remain_if_the_controller_is_deleted() -> None:
    [controller] = _of(_rendered("storage"), "Compute/virtualMachines")
    storage = controller["properties"]["storageProfile"]

    assert [one["deleteOption"] for one in storage["dataDisks"]] == ["Detach", "Detach"]
    assert storage["osDisk"]["deleteOption"] == "Delete"


def test_a_controller_without_a_role_has_none() -> None:
    rendered = _rendered("private")

    assert _of(rendered, "Authorization/roleAssignments") + _of(rendered, "Authorization/roleDefinitions") == []


def test_no_role_can_give_rights_or_change_everything() -> None:
    for name in azure_clusters.EVERYTHING:
        for role in _of(_rendered(name), "Authorization/roleDefinitions"):
            [permission] = role["properties"]["permissions"]
            assert not [one for one in permission["actions"] if "Authorization" in one or one.endswith(("*", "/*"))]
            assert role["properties"]["assignableScopes"] == [
                f"/subscriptions/{azure_clusters.cluster()['subscription_id']}/resourceGroups/hpc"
            ]


def test_machines_of_an_elastic_set_have_no_role_and_the_controller_may_change_them() -> None:
    rendered = template.rendered(azure_clusters.gpu_set(elastic=True))["template"]

    [scale_set] = _of(rendered, "Compute/virtualMachineScaleSets")
    assert "slurm_role" not in scale_set["tags"]
    assert scale_set["tags"]["gpucluster_set"] == "h100"
    assert "Microsoft.Compute/virtualMachineScaleSets/write" in _actions(rendered)


def test_the_addresses_that_azure_chooses_are_outputs() -> None:
    outputs = _rendered("storage")["outputs"]

    assert set(outputs) == {"address_of_anf", "address_of_amlfs"}
    assert outputs["address_of_anf"]["value"].endswith("/volumes/shared', '2026-08-01').mountTargets[0].ipAddress]")
    assert "outputs" not in _rendered("smallest")


@pytest.mark.parametrize("name", azure_clusters.EVERYTHING)
def test_a_stack_takes_the_template(name: str) -> None:
    stack_template.check(_rendered(name))


def test_a_scale_set_is_split_at_the_limit() -> None:
    result = template.rendered(azure_clusters.EVERYTHING["split"])

    assert [(item["scale_set"], item["count"], item["max_count"]) for item in result["sets"]] == [
        ("hpc--h100", 150, 300),
        ("hpc--h100--2", 0, 300),
        ("hpc--h100--3", 0, 100),
    ]
    assert [item["sku"]["capacity"] for item in _of(result["template"], "Compute/virtualMachineScaleSets")] == [
        150,
        0,
        0,
    ]
    assert "3 placement groups of at most 300" in result["messages"][0]
    assert "agreement with Azure" in result["messages"][1]


def test_the_first_placement_group_is_full_before_the_next() -> None:
    result = template.rendered(azure_clusters.gpu_set(count=150, max_count=220))

    assert [item["count"] for item in result["sets"]] == [100, 50, 0]


def test_a_current_number_of_machines_is_kept() -> None:
    result = template.rendered(azure_clusters.gpu_set(max_count=20), {"hpc--h100": "16", "other": 3})

    assert [item["count"] for item in result["sets"]] == [16]
    assert _of(result["template"], "Compute/virtualMachineScaleSets")[0]["sku"]["capacity"] == 16


def test_a_reserved_set_has_no_single_placement_group() -> None:
    (scale_set,) = _of(_rendered("reserved"), "Compute/virtualMachineScaleSets")
    (member,) = _of(_rendered("reserved"), "Compute/capacityReservationGroups/capacityReservations")

    assert scale_set["properties"]["singlePlacementGroup"] is False
    assert member["sku"] == {"name": "Standard_NC96ads_A100_v4", "capacity": 2}


def test_a_spot_set_has_its_policy_and_price() -> None:
    (scale_set,) = _of(_rendered("spot"), "Compute/virtualMachineScaleSets")
    profile = scale_set["properties"]["virtualMachineProfile"]

    assert profile["priority"] == "Spot"
    assert profile["evictionPolicy"] == "Deallocate"
    assert profile["billingProfile"] == {"maxPrice": 12.5}
    assert scale_set["zones"] == ["2"]


def test_the_tags_make_the_groups() -> None:
    machines = {
        item["name"]: item["tags"]["slurm_role"] for item in _of(_rendered("public"), "Compute/virtualMachines")
    }

    assert machines == {
        "hpc-controller": "controller,database,build,nfs_server",
        "hpc-login-1": "login",
        "hpc-login-2": "login",
    }


def test_tags_of_the_user_are_on_every_resource_that_has_tags() -> None:
    tagged = [item for item in _rendered("removal")["resources"] if "tags" in item]

    assert len(tagged) > 8
    assert all(item["tags"]["owner"] == "alice" for item in tagged)
    assert all(item["tags"]["gpucluster_delete_after"] == "7d" for item in tagged)
