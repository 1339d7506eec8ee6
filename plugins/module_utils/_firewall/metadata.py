# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
Let only root and named users of a machine in Azure reach its metadata service and its wire server.

The metadata service gives a token of the identity of the machine, and begins scheduled events, to every process that
asks. The wire server gives the settings of the extensions. Its address is also that of Azure's DNS, which stays open.
The table only refuses packets to these two addresses, so it needs no trial and leaves the firewall alone.
"""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._firewall import lasting

if t.TYPE_CHECKING:
    from collections.abc import Iterable

    from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host

# Azure's documentation: Azure Instance Metadata Service, and "What is IP address 168.63.129.16?" with its ports.
SERVICE = "169.254.169.254"
WIRE_SERVER = "168.63.129.16"
_WIRE_PORTS = "{ 80, 32526 }"
TABLE = lasting.Table(
    name="ip gpucluster_azure",
    rules="/etc/gpucluster/azure_metadata.nft",
    listing="/var/lib/gpucluster/azure_metadata.listing",
    unit="gpucluster-azure-metadata.service",
    role="azure_metadata",
    about="Only root reaches the metadata service of this machine in Azure",
)


def problems(uids: Iterable[int]) -> list[str]:
    """Return one sentence for each number that is no UID."""
    return [f"found {uid}; allowed: UIDs from 0 to 4294967294" for uid in uids if not 0 <= uid < 2**32 - 1]


def render(uids: Iterable[int]) -> str:
    """
    Return the file for nft. Loading it replaces the table in one step.

    A packet whose user is unknown is refused, too. Containers with a network of their own are no users of the machine,
    so nothing is forwarded.
    """
    allowed = ", ".join(map(str, sorted({0, *uids})))
    service, wire = f"ip daddr {SERVICE}", f"ip daddr {WIRE_SERVER} tcp dport {_WIRE_PORTS}"
    lines = [
        f"table {TABLE.name} {{",
        "\tchain output {",
        "\t\ttype filter hook output priority filter; policy accept;",
        f"\t\t{service} meta skuid {{ {allowed} }} accept",
        f"\t\t{service} reject",
        f"\t\t{wire} meta skuid 0 accept",
        f"\t\t{wire} reject",
        "\t}",
        "\tchain forward {",
        "\t\ttype filter hook forward priority filter; policy accept;",
        f"\t\t{service} reject",
        f"\t\t{wire} reject",
        "\t}",
        "}",
    ]
    return TABLE.delete + "\n".join(lines) + "\n"


def load(content: str, host: Host) -> None:
    """Load the rules and make them permanent. They are on disk first, for a machine that crashes in between."""
    host.write(TABLE.rules, content, 0o600)
    effect = "nft refuses the rules, so every user still reaches the metadata service"
    lasting.require(host, [lasting.NFT, "--file", TABLE.rules], effect)
    TABLE.keep(content, TABLE.listed(host), host)
