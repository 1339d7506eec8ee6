# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Convert records to host variables: prefixed names, names of azure_rm, and the address to connect to."""

from __future__ import annotations

import ipaddress
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.settings import ConfigError

if t.TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    Network = t.Union[ipaddress.IPv4Network, ipaddress.IPv6Network]
    Record = dict[str, t.Any]

# Default variables of every host. Ansible needs about 15 microseconds and half a kilobyte for each string.
STANDARD = (
    "id",
    "name",
    "computer_name",
    "vm_size",
    "location",
    "availability_zone",
    "resource_group",
    "subscription_id",
    "vmss",
    "placement_group_id",
    "proximity_placement_group",
    "powerstate",
    "provisioning_state",
    "tags",
    "private_ipv4_addresses",
    "private_ipv6_addresses",
    "public_ipv4_address",
    "public_ipv6_address",
    "image",
    "priority",
    "identity",
    "slurm_switch",
)

# Names of azure_rm for the same values.
ALIASES = {"virtual_machine_size": "vm_size", "public_ipv4_addresses": "public_ipv4_address"}

# In the variables of azure_rm only if they have a value.
_SILENT_WHEN_EMPTY = ("facts_missing",)


class Names:
    """The variables of a host and their names."""

    def __init__(self, prefix: str, chosen: Sequence[str] | None) -> None:
        self.prefix = prefix
        names = list(chosen or ([] if prefix else ["all"]) or ["standard"])
        self._all = "all" in names
        picked = [name for one in names for name in (STANDARD if one == "standard" else [one]) if one != "all"]
        self._picked = dict.fromkeys(ALIASES.get(self._bare(name), self._bare(name)) for name in picked)

    def check(self, known: Iterable[str]) -> None:
        """Refuse a name that is in no record."""
        unknown = [name for name in self._picked if name not in set(known)]
        if unknown:
            allowed = ", ".join(sorted(known))
            raise ConfigError(f"host_variables has the unknown name {unknown[0]!r}; allowed: standard, all, {allowed}")

    def emitted(self, record: Record) -> Record:
        """Return the variables of a host with their final names."""
        names = record if self._all else self._picked
        prefix = self.prefix
        found = {prefix + name: record[name] for name in names if name not in _SILENT_WHEN_EMPTY}
        if record["facts_missing"]:
            found[prefix + "facts_missing"] = record["facts_missing"]
        if not prefix and self._all:
            found["virtual_machine_size"] = record["vm_size"]
        return found

    def readable(self, record: Record) -> Record:
        """Return the variables for expressions: each one with its bare and its prefixed name."""
        found = {**record, **{alias: record[name] for alias, name in ALIASES.items()}}
        if self.prefix:
            found.update({self.prefix + name: value for name, value in found.items()})
        return found

    def _bare(self, name: str) -> str:
        return name[len(self.prefix) :] if self.prefix and name.startswith(self.prefix) else name


def address_rule(wanted: Sequence[str]) -> Callable[[Record], str | None]:
    """Return a function that selects ansible_host: the first of public, private or a network that has an address."""
    rules = [_one_rule(str(one).strip()) for one in wanted]

    def pick(record: Record) -> str | None:
        return next((address for rule in rules if (address := rule(record))), None)

    return pick


def _one_rule(wanted: str) -> Callable[[Record], str | None]:
    if wanted == "public":
        return lambda record: _first(record["public_ipv4_address"] + record["public_ipv6_address"])
    if wanted == "private":
        return lambda record: _first(record["private_ipv4_addresses"] + record["private_ipv6_addresses"])
    if wanted == "fqdn":
        return lambda record: _first(record["public_dns_hostnames"])
    network = _network(wanted)
    return lambda record: next((one for one in _addresses(record) if _inside(one, network)), None)


def _network(text: str) -> Network:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise ConfigError(
            f"ansible_host_from is {text!r}; allowed: public, private, fqdn or a network such as 10.1.0.0/16"
        ) from None


def _inside(address: str, network: Network) -> bool:
    try:
        return ipaddress.ip_address(address) in network
    except ValueError:
        return False


def _addresses(record: Mapping[str, t.Any]) -> list[str]:
    kinds = ("private_ipv4_addresses", "private_ipv6_addresses", "public_ipv4_address", "public_ipv6_address")
    return [address for kind in kinds for address in record[kind]]


def _first(addresses: Sequence[str]) -> str | None:
    return addresses[0] if addresses else None
