# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Render the rules of the host firewall for nft. Pure: data in, text out."""

from __future__ import annotations

import ipaddress
import typing as t

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    Network = t.Union[ipaddress.IPv4Network, ipaddress.IPv6Network]

TABLE = "inet gpucluster"
# Adding the table first lets the deletion succeed if the table is missing.
DELETE = f"table {TABLE}\ndelete table {TABLE}\n"
PROTOCOLS = ("tcp", "udp")


class Allowed(t.NamedTuple):
    """Ports that some networks may reach."""

    ports: Sequence[int]
    protocol: str
    sources: Sequence[str]


class Settings(t.NamedTuple):
    """Who may reach what: the cluster reaches every port, others reach ssh and the allowed ports."""

    cluster: Sequence[str]
    ssh: Sequence[str]
    ssh_ports: Sequence[int]
    allowed: Sequence[Allowed]


def settings(params: Mapping[str, t.Any]) -> Settings:
    """Return the settings of a module's options. A missing source means every address."""
    allowed = [
        Allowed(one["ports"], one.get("protocol") or "tcp", one.get("sources") or ["0.0.0.0/0", "::/0"])
        for one in params["allow"]
    ]
    return Settings(params["cluster"], params["ssh"], params["ssh_ports"], allowed)


def problems(found: Settings) -> list[str]:
    """Return one sentence for each fault; an empty list if the rules can be rendered."""
    faults = [] if found.cluster else ["cluster: found nothing; allowed: networks of the cluster, or Slurm would stop"]
    faults += [] if found.ssh else ["ssh: found nothing; allowed: networks of the control node, or nobody could log in"]
    sources = [*found.cluster, *found.ssh, *(source for one in found.allowed for source in one.sources)]
    faults += [f"found {source!r}; allowed: addresses or networks, such as 10.0.0.0/24" for source in bad(sources)]
    ports = [*found.ssh_ports, *(port for one in found.allowed for port in one.ports)]
    faults += [f"found port {port}; allowed: 1 to 65535" for port in ports if not 0 < port < 65536]
    kinds = [one.protocol for one in found.allowed if one.protocol not in PROTOCOLS]
    return faults + [f"found protocol {kind!r}; allowed: {', '.join(PROTOCOLS)}" for kind in kinds]


def bad(sources: Iterable[t.Any]) -> list[str]:
    """Return the sources that are neither an address nor a network."""
    return [str(source) for source in sources if _network(source) is None]


def render(found: Settings) -> str:
    """Return the file for nft. Loading it replaces the table in one step."""
    sets, rules = list[str](), list[str]()
    groups = [("cluster", found.cluster, ""), ("ssh", found.ssh, _ports("tcp", found.ssh_ports))]
    groups += [
        (f"allow{number}", one.sources, _ports(one.protocol, one.ports)) for number, one in enumerate(found.allowed, 1)
    ]
    for name, sources, ports in groups:
        for version, members in sorted(_versions(sources).items()):
            sets += _set(f"{name}{version}", version, members)
            rules.append(f"{'ip' if version == 4 else 'ip6'} saddr @{name}{version} {ports}accept")
    return DELETE + "\n".join([f"table {TABLE} {{", *sets, *_chain(rules), "}"]) + "\n"


def _chain(rules: Sequence[str]) -> Iterator[str]:
    yield "\tchain input {"
    yield "\t\ttype filter hook input priority filter; policy drop;"
    yield "\t\tct state established,related accept"
    yield "\t\tct state invalid drop"
    yield '\t\tiif "lo" accept'
    yield "\t\tmeta l4proto { icmp, ipv6-icmp } accept"
    yield "\t\tudp sport 67 udp dport 68 accept"
    yield "\t\tip6 saddr fe80::/10 udp dport 546 accept"
    yield from (f"\t\t{rule}" for rule in rules)
    yield "\t}"


def _set(name: str, version: int, members: Sequence[str]) -> list[str]:
    kind = "ipv4_addr" if version == 4 else "ipv6_addr"
    return [
        f"\tset {name} {{",
        f"\t\ttype {kind}",
        "\t\tflags interval",
        f"\t\telements = {{ {', '.join(members)} }}",
        "\t}",
    ]


def _ports(protocol: str, ports: Sequence[int]) -> str:
    return f"{protocol} dport {{ {', '.join(map(str, sorted(set(ports))))} }} "


def _versions(sources: Sequence[str]) -> dict[int, list[str]]:
    """Return the networks by IP version. Networks of one version do not overlap, as intervals must not."""
    found: dict[int, list[t.Any]] = {}
    for source in sources:
        network = _network(source)
        if network is not None:
            found.setdefault(network.version, []).append(network)
    return {version: [str(net) for net in ipaddress.collapse_addresses(nets)] for version, nets in found.items()}


def _network(source: t.Any) -> Network | None:
    try:
        return ipaddress.ip_network(str(source), strict=False)
    except ValueError:
        return None
