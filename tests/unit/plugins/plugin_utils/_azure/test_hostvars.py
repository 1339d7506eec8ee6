"""Names of variables, and the address to connect to."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure import hostvars, model
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.settings import ConfigError


def record(**changes: t.Any) -> dict[str, t.Any]:
    made = model.record(model.flat_machine({"id": "/subscriptions/s/vm", "name": "vm"}), model.networks([], []), None)
    return {**made, "slurm_switch": None, **changes}


ADDRESSES = record(
    private_ipv4_addresses=["10.1.0.4", "10.9.0.4"],
    public_ipv4_address=["203.0.113.7"],
    public_dns_hostnames=["vm.test"],
)


def test_the_standard_variables_have_the_prefix() -> None:
    found = hostvars.Names("azure_", None).emitted(record(vm_size="Standard_X"))

    assert found["azure_vm_size"] == "Standard_X"
    assert set(found) == {f"azure_{name}" for name in hostvars.STANDARD}


def test_an_empty_prefix_gives_the_names_of_azure_rm() -> None:
    found = hostvars.Names("", None).emitted(record(vm_size="Standard_X"))

    assert found["virtual_machine_size"] == "Standard_X"
    for name in ("os_disk", "network_interface", "mac_address", "security_group", "vmid", "license_type", "os_profile"):
        assert name in found


@pytest.mark.parametrize("chosen", [["name", "vm_size"], ["azure_name", "virtual_machine_size"]])
def test_variables_can_be_chosen_by_either_name(chosen: list[str]) -> None:
    assert set(hostvars.Names("azure_", chosen).emitted(record())) == {"azure_name", "azure_vm_size"}


def test_an_unknown_variable_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"unknown name 'colour'; allowed: standard, all, .*vm_size"):
        hostvars.Names("azure_", ["standard", "colour"]).check(record())


def test_expressions_read_every_variable_by_either_name() -> None:
    found = hostvars.Names("az_", ["name"]).readable(record(vm_size="S"))

    assert (
        found["vm_size"]
        == found["az_vm_size"]
        == found["virtual_machine_size"]
        == found["az_virtual_machine_size"]
        == "S"
    )


def test_missing_facts_are_said_whatever_was_chosen() -> None:
    found = hostvars.Names("azure_", ["name"]).emitted(record(facts_missing=["network"]))

    assert found["azure_facts_missing"] == ["network"]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (["public", "private"], "203.0.113.7"),
        (["private"], "10.1.0.4"),
        (["10.9.0.0/16", "private"], "10.9.0.4"),
        (["fd00::/8", "203.0.113.0/24"], "203.0.113.7"),
        (["fqdn"], "vm.test"),
        (["192.168.0.0/16"], None),
        ([], None),
    ],
)
def test_the_first_rule_that_finds_an_address_wins(wanted: list[str], expected: str | None) -> None:
    assert hostvars.address_rule(wanted)(ADDRESSES) == expected


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (["private", "public"], "10.1.0.4"),
        (["fqdn", "public"], "vm.test"),
        # The network has both of its addresses: inside of it nobody takes the way round.
        (["0.0.0.0/0"], "10.1.0.4"),
        (["::/0"], "fd00::4"),
    ],
)
def test_the_private_address_of_a_network_comes_before_the_public(wanted: list[str], expected: str) -> None:
    both = {**ADDRESSES, "private_ipv6_addresses": ["fd00::4"], "public_ipv6_address": ["2001:db8::7"]}

    assert hostvars.address_rule(wanted)(both) == expected


@pytest.mark.parametrize("kind", ["public", "private"])
def test_an_address_of_version_4_comes_first(kind: str) -> None:
    both = {**ADDRESSES, "private_ipv6_addresses": ["fd00::4"], "public_ipv6_address": ["2001:db8::7"]}

    assert hostvars.address_rule([kind])(both) in ("203.0.113.7", "10.1.0.4")


def test_a_machine_without_addresses_gets_none() -> None:
    assert hostvars.address_rule(["public", "private", "fqdn", "10.0.0.0/8"])(record()) is None


@pytest.mark.parametrize("wanted", ["10.1.0.0/99", "somewhere", ""])
def test_a_wrong_rule_is_refused(wanted: str) -> None:
    with pytest.raises(ConfigError, match="allowed: public, private, fqdn or a network"):
        hostvars.address_rule([wanted])
