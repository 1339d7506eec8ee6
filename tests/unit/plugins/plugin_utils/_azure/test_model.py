"""Answers in the form of Microsoft's REST specifications (compute 2025-04-01, network 2025-05-01), and odd ones."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure import model

FIXTURES = Path(__file__).parents[3] / "fixtures" / "azure"
NONE = model.networks([], [])


def load(name: str) -> list[dict[str, t.Any]]:
    return t.cast("list[dict[str, t.Any]]", json.loads((FIXTURES / name).read_text(encoding="utf-8"))["value"])


def records() -> dict[str, dict[str, t.Any]]:
    networks = model.networks(
        map(model.flat_nic, load("network_interfaces.json")), map(model.flat_address, load("public_ip_addresses.json"))
    )
    return {one["name"]: model.record(model.flat_machine(one), networks, None) for one in load("virtual_machines.json")}


def test_a_machine_has_the_variables_of_azure_rm() -> None:
    found = records()["gpu-1"]

    assert found["vm_size"] == "Standard_ND96isr_H100_v5"
    assert found["resource_group"] == "hpc-rg"
    assert found["powerstate"] == "running"
    assert found["provisioning_state"] == "succeeded"
    assert found["computer_name"] == "gpu-1"
    assert found["os_profile"] == {"system": "linux"}
    assert found["image"] == {"publisher": "microsoft-dsvm", "offer": "ubuntu-hpc", "sku": "2204", "version": "latest"}
    assert found["availability_zone"] == ["1"]
    assert found["priority"] == "Spot"
    assert found["identity"] == "SystemAssigned"
    assert found["vmss"] == {}
    assert found["tags"] == {"slurm_role": "compute", "note": "{{ 1 + 1 }}"}
    assert found["facts_missing"] == []


def test_the_primary_interface_comes_first_then_the_order_of_the_machine() -> None:
    found = records()["gpu-1"]

    assert found["network_interface"] == ["z-primary", "b-second", "a-third"]
    assert found["private_ipv4_addresses"] == ["10.1.0.4", "10.1.0.5", "10.2.0.4", "10.3.0.4"]
    assert found["private_ipv6_addresses"] == ["fd00::4"]
    assert found["public_ipv4_address"] == ["203.0.113.7"]
    assert found["public_dns_hostnames"] == ["gpu-1.eastus.cloudapp.azure.com"]
    assert found["mac_address"] == ["00-0D-3A-00-00-01", "00-0D-3A-00-00-02"]
    assert found["accelerated_networking"] is True


def test_no_secret_of_the_answer_is_in_a_record() -> None:
    text = json.dumps(records())

    for secret in ("hpcadmin", "AAAAB3Nza", "custom-data", "user-data", "sig="):
        assert secret not in text


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({}, {"powerstate": "unknown", "vm_size": None, "computer_name": None, "provisioning_state": "unknown"}),
        ({"hardwareProfile": {}}, {"vm_size": "Standard_Old"}),
        ({"storageProfile": {"imageReference": None}}, {"image": {}}),
        ({"storageProfile": {"imageReference": {"id": "/i"}}}, {"image": {"id": "/i"}}),
        (
            {"storageProfile": {"osDisk": {"vhd": {"uri": "u"}}}},
            {"os_disk": {"name": None, "operating_system_type": None, "id": None}},
        ),
        ({"networkProfile": {}}, {"private_ipv4_addresses": [], "facts_missing": []}),
        ({"networkProfile": {"networkInterfaces": [{"id": "/gone"}]}}, {"facts_missing": ["network"]}),
        ({"instanceView": {"statuses": [{"code": "ProvisioningState/creating"}]}}, {"powerstate": "unknown"}),
        ({"instanceView": {"statuses": "?", "powerState": None}}, {"powerstate": "unknown"}),
        ({"osProfile": {"windowsConfiguration": {}}}, {"os_profile": {"system": "windows"}}),
        ({"provisioningState": "Creating"}, {"provisioning_state": "creating"}),
    ],
)
def test_every_property_may_be_missing(properties: dict[str, t.Any], expected: dict[str, t.Any]) -> None:
    sku = {"sku": {"name": "Standard_Old"}} if "hardwareProfile" in properties else {}
    found = model.record(
        model.flat_machine({"id": "/subscriptions/s/x/vm", "properties": properties, **sku}), NONE, None
    )

    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize("tags", [None, {}, "odd"])
def test_tags_are_always_a_mapping(tags: t.Any) -> None:
    assert model.record(model.flat_machine({"id": "/a/b", "tags": tags}), NONE, None)["tags"] == {}


def test_an_interface_without_address_keeps_the_host() -> None:
    nic = model.flat_nic({"id": "/NIC", "properties": {"ipConfigurations": [{"properties": {}}, None]}})
    row = model.flat_machine({"id": "/vm", "properties": {"networkProfile": {"networkInterfaces": [{"id": "/nic"}]}}})

    found = model.record(row, model.networks([nic], []), None)

    assert found["private_ipv4_addresses"] == []
    assert found["facts_missing"] == []


def test_a_public_address_without_a_number_leaves_no_none_behind() -> None:
    ip = {"properties": {"privateIPAddress": "10.0.0.4", "publicIPAddress": {"id": "/IP"}}}
    nic = model.flat_nic({"id": "/nic", "properties": {"ipConfigurations": [ip]}})
    address = model.flat_address({"id": "/ip", "name": "ip", "properties": {}})
    row = model.flat_machine({"id": "/vm", "properties": {"networkProfile": {"networkInterfaces": [{"id": "/nic"}]}}})

    found = model.record(row, model.networks([nic], [address]), None)

    assert found["public_ipv4_address"] == []
    assert found["public_ip_address"] == [{"id": "/ip", "name": "ip", "ipv4_address": None}]


def test_an_instance_of_a_uniform_set_knows_its_set() -> None:
    instance = load("scale_set_vms.json")[0]
    nics = [model.flat_nic(one) for one in load("scale_set_nics.json")]
    scale_set = model.flat_scale_set(load("scale_sets.json")[0])

    found = model.record(model.flat_machine(instance), model.networks(nics, []), scale_set, inherit_tags=True)

    assert found["vmss"] == {"id": scale_set["id"], "name": "hpc", "mode": "Uniform", "instance_id": "17"}
    assert found["vm_size"] == "Standard_ND96isr_H100_v5"
    assert found["placement_group_id"] == "f79e82f0-3480-4eb3-a893-5cf9bd74daad"
    assert found["private_ipv4_addresses"] == ["10.1.4.5"]
    assert found["computer_name"] == "hpc000017"
    assert found["tags"] == {
        "ClusterName": "training",
        "CycleCloudNodeArray": "/sites/1/clusters/training/nodearrays/hpc",
    }


def test_interfaces_of_an_instance_are_found_without_references() -> None:
    instance = load("scale_set_vms.json")[0]
    del instance["properties"]["networkProfile"]
    nics = [model.flat_nic(one) for one in load("scale_set_nics.json")]

    found = model.record(model.flat_machine(instance), model.networks(nics, []), None)

    assert found["private_ipv4_addresses"] == ["10.1.4.5"]


def test_a_member_of_a_flexible_set_is_a_machine_with_a_set() -> None:
    found = records()["flex_1a2b3c4d"]

    assert found["vmss"]["name"] == "flex"
    assert found["vmss"]["mode"] == "Flexible"
    assert found["instance_id"] is None


def test_a_scale_set_without_a_mode_is_uniform() -> None:
    assert model.flat_scale_set({"id": "/s", "name": "s", "properties": {}})["mode"] == "Uniform"


def test_the_default_name_does_not_depend_on_the_case_of_the_id() -> None:
    assert model.default_name("vm", "/RG/vm") == model.default_name("vm", "/rg/VM")
    assert len(model.default_name("vm", "/rg/vm")) == len("vm_") + 4
