# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The template of each cluster: right by the models of Microsoft's SDK, literal, complete, and the same in each run."""

from __future__ import annotations

import base64
import json
import re
import typing as t
from pathlib import Path

import pytest

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_cluster import (
    inputs,
    machines,
    network,
    rights,
    scope,
    template,
)
from ansible_collections.hpcai.gpucluster.tests.unit.support import arm_schema
from ansible_collections.hpcai.gpucluster.tests.unit.support.azure_clusters import EVERYTHING, cluster, gpu_set

MANAGER = "https://management.azure.com"
END = "2027-03-01T18:00:00+01:00"
# No SDK of the tests has the models of Logic Apps.
WORKFLOWS = "Microsoft.Logic/workflows"
Resources = list[dict[str, t.Any]]


def of(given: dict[str, t.Any], existing: t.Collection[str] = ()) -> Resources:
    filled = inputs.read(given)
    if "expires" in given:
        filled["expires"] = END
    return template.resources(scope.Scope(filled), existing, MANAGER)


def kind(found: Resources, name: str) -> Resources:
    return [one for one in found if one["type"].endswith(f"/{name}")]


def names(found: Resources) -> list[str]:
    return [one["name"] for one in kind(found, "virtualMachines")]


@pytest.fixture(params=EVERYTHING)
def rendered(request: pytest.FixtureRequest) -> Resources:
    return of(EVERYTHING[request.param])


def test_each_resource_is_right_by_the_models_of_the_sdk(rendered: Resources) -> None:
    judged = [one for one in rendered if one["type"] != WORKFLOWS]

    assert arm_schema.faults({"resources": judged}) == []


def test_each_reference_is_to_a_resource_that_comes_before(rendered: Resources) -> None:
    known = set()
    place = scope.Scope(inputs.read(cluster()))
    for one in rendered:
        known.add(place.id(one["type"], one["name"]))
    for one in rendered:
        body = json.dumps({key: value for key, value in one.items() if key not in ("dependsOn", "properties")})
        used = re.findall(rf"{place.group_id}/providers/[^\"']+", json.dumps(one.get("properties", 0)) + body)
        used = [re.sub("/subnets/.*", "", name) for name in used]
        assert set(used) <= known, one["name"]
        assert set(used) <= set(one.get("dependsOn", [])), f"{one['name']} does not wait for what it uses"


def test_no_two_resources_have_one_name_and_all_have_the_tag(rendered: Resources) -> None:
    assert len({(one["type"], one["name"]) for one in rendered}) == len(rendered)
    assert {one["tags"]["gpucluster_cluster"] for one in rendered if "tags" in one} == {"hpc"}
    assert {one["type"] for one in rendered if "tags" not in one} <= {
        "Microsoft.Authorization/roleAssignments",
        "Microsoft.Authorization/roleDefinitions",
    }


def test_the_group_is_part_of_the_stack_and_the_rest_is_inside_it() -> None:
    place = scope.Scope(inputs.read(cluster(resource_group="rg-hpc")))
    whole = template.template(place, [{"name": "x"}])

    group, deployment = whole["resources"]
    assert (group["type"], group["name"], group["location"]) == (
        "Microsoft.Resources/resourceGroups",
        "rg-hpc",
        "eastus",
    )
    assert deployment["resourceGroup"] == "rg-hpc"
    assert deployment["dependsOn"] == [place.group_id]
    assert deployment["properties"]["template"]["resources"] == [{"name": "x"}]
    assert template.digest(whole) == template.digest(template.template(place, [{"name": "x"}]))
    assert template.digest(whole) != template.digest(template.template(place, [{"name": "y"}]))


@pytest.mark.parametrize(
    ("count", "existing", "expected"),
    [
        (2, [], [1, 2]),
        (3, ["hpc-h100-1", "hpc-h100-3", "hpc-h100-4"], [1, 3, 4]),
        (4, ["hpc-h100-1", "hpc-h100-3"], [1, 2, 3, 4]),
        (2, ["hpc-h100-12", "hpc-controller", "hpc-h100-2-1"], [1, 12]),
        (0, [], []),
    ],
    ids=["new", "a gap stays", "the lowest free numbers", "only this set", "none"],
)
def test_nodes_keep_their_names(count: int, existing: list[str], expected: list[int]) -> None:
    found = [name for name in names(of(gpu_set(count=count), existing)) if "h100" in name]

    assert found == [f"hpc-h100-{number}" for number in expected]


@pytest.mark.parametrize(("there", "is_refused"), [(1, False), (2, False), (3, True)])
def test_a_lower_count_than_exists_is_refused_with_what_to_do(there: int, is_refused: bool) -> None:
    existing = [f"hpc-h100-{number}" for number in range(1, there + 1)]
    found = machines.too_many(scope.Scope(inputs.read(cluster())), existing)

    assert bool(found) is is_refused
    for text in ("the set h100 has count 2, but 3 machines exist", "node_remove.yml", "azure_scale.yml -e nodes="):
        assert not found or text in found[0]


def test_a_machine_is_named_as_its_host_and_the_inventory_finds_its_group() -> None:
    found = kind(of(cluster(login={"count": 1}, gpu_sets=gpu_set()["gpu_sets"])), "virtualMachines")

    assert [one["properties"]["osProfile"]["computerName"] for one in found] == [one["name"] for one in found]
    assert {one["name"]: one["tags"]["slurm_role"] for one in found} == {
        "hpc-controller": "controller,database,build,nfs_server",
        "hpc-login-1": "login",
        "hpc-h100-1": "compute",
        "hpc-h100-2": "compute",
    }
    assert [one["tags"].get("gpucluster_set") for one in found] == [None, None, "h100", "h100"]


def test_cloud_init_prepares_ssh_and_python_only() -> None:
    data = {one["properties"]["osProfile"]["customData"] for one in kind(of(cluster()), "virtualMachines")}

    assert [base64.b64decode(one).decode() for one in data] == [
        "#cloud-config\nssh_pwauth: false\npackages: [openssh-server, python3]\n"
    ]


@pytest.mark.parametrize(("name", "placed"), [("smallest", True), ("without InfiniBand", False), ("racks", False)])
def test_the_nodes_of_a_set_with_infiniband_have_one_placement(name: str, placed: bool) -> None:
    found = of(EVERYTHING[name])
    inside = [one for one in kind(found, "virtualMachines") if "availabilitySet" in one["properties"]]

    assert len(kind(found, "availabilitySets")) == placed
    assert [one["name"] for one in inside] == (["hpc-h100-1", "hpc-h100-2"] if placed else [])


def test_homes_are_on_disks_that_outlive_the_controller() -> None:
    found = of(EVERYTHING["disks"])
    controller = next(one for one in found if one["type"] == machines.MACHINE and one["name"] == "hpc-controller")
    disks = controller["properties"]["storageProfile"]["dataDisks"]

    assert [one["managedDisk"]["id"].rpartition("/")[2] for one in disks] == ["hpc-data-0", "hpc-data-1"]
    assert {(one["createOption"], one["deleteOption"]) for one in disks} == {("Attach", "Detach")}
    assert [one["properties"]["diskSizeGB"] for one in kind(found, "disks")] == [1024, 512]


@pytest.mark.parametrize(
    ("name", "addresses", "sources"),
    [
        ("smallest", {"hpc-nat", "hpc-bastion"}, ["10.10.0.64/26"]),
        ("public", {"hpc-nat", "hpc-controller"}, ["203.0.113.0/24", "198.51.100.7/32"]),
        ("private", {"hpc-nat"}, ["VirtualNetwork"]),
    ],
)
def test_there_is_one_way_in(name: str, addresses: set[str], sources: list[str]) -> None:
    found = of(EVERYTHING[name])
    rules = next(one for one in found if one["name"] == "hpc-head")["properties"]["securityRules"]
    ssh = next(rule["properties"] for rule in rules if rule["name"] == "ssh")

    assert {one["name"] for one in kind(found, "publicIPAddresses")} == addresses
    assert ssh.get("sourceAddressPrefixes", [ssh.get("sourceAddressPrefix")]) == sources
    for one in found:
        if one["type"].endswith("networkSecurityGroups") and "bastion" not in one["name"]:
            assert one["properties"]["securityRules"][-1]["properties"]["access"] == "Deny"


def test_only_a_controller_with_elastic_sets_has_an_identity_and_it_can_start_and_deallocate() -> None:
    assert [one for one in of(cluster()) if "identity" in one or "Authorization" in one["type"]] == []
    found = of(EVERYTHING["elastic"])

    assert [one["name"] for one in found if "identity" in one] == ["hpc-controller"]
    (role,) = kind(found, "roleDefinitions")
    assert role["properties"]["permissions"] == [{"actions": list(rights.ELASTIC), "notActions": []}]
    assert {action.removeprefix("Microsoft.Compute/virtualMachines/") for action in rights.ELASTIC} == {
        "read",
        "instanceView/read",
        "start/action",
        "deallocate/action",
    }
    (assignment,) = kind(found, "roleAssignments")
    assert role["name"] in assignment["properties"]["roleDefinitionId"]
    assert role["properties"]["assignableScopes"] == [scope.Scope(inputs.read(cluster())).group_id]


def test_the_cluster_is_deleted_at_its_time_by_a_workflow_of_azure() -> None:
    found = of(EVERYTHING["expires"])
    (workflow,) = kind(found, "workflows")
    definition = workflow["properties"]["definition"]

    assert workflow["identity"] == {"type": "SystemAssigned"}
    assert definition["triggers"]["at_its_time"]["recurrence"]["startTime"] == "2027-03-01T17:00:00Z"
    action = definition["actions"]["delete_the_group"]
    group = scope.Scope(inputs.read(cluster())).group_id
    assert action["inputs"]["method"] == "DELETE"
    assert action["inputs"]["uri"] == f"{MANAGER}{group}?api-version=2021-04-01"
    assert action["inputs"]["authentication"]["type"] == "ManagedServiceIdentity"
    (role,) = kind(found, "roleDefinitions")
    assert role["properties"]["permissions"][0]["actions"] == [
        "Microsoft.Resources/subscriptions/resourceGroups/delete"
    ]
    assert "identity.principalId" in kind(found, "roleAssignments")[0]["properties"]["principalId"]


def test_the_ports_are_those_of_the_inventory() -> None:
    path = Path(scope.__file__).parents[3] / "inventories/azure/group_vars/all/azure.yml"

    assert f"SrunPortRange: {network.SRUN}" in path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("smallest", "az network bastion ssh --name hpc-bastion"),
        ("public", "ssh azureuser@$(az network public-ip show -g hpc -n hpc-controller"),
        ("private", "ssh azureuser@hpc-login-1"),
        ("disks", "devices: [/dev/disk/azure/scsi1/lun0, /dev/disk/azure/scsi1/lun1]"),
    ],
)
def test_the_summary_says_how_to_go_on(name: str, text: str) -> None:
    assert text in "\n".join(template.summary(scope.Scope(inputs.read(EVERYTHING[name]))))
