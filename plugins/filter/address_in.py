# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter address_in."""

from __future__ import annotations

DOCUMENTATION = r"""
name: address_in
short_description: The address of a machine that lies in a network
version_added: 0.1.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Picks the right address of a machine with several network cards. Fails with all addresses in the message if none or
    more than one lies in the network.
positional: network
options:
  _input:
    description: Addresses of the machine, such as the fact C(all_ipv4_addresses).
    type: list
    elements: str
    required: true
  network:
    description: Network such as C(10.0.0.0/24).
    type: str
    required: true
requirements:
  - netaddr
"""

EXAMPLES = r"""
- name: Show the address in the network of the cluster
  ansible.builtin.debug:
    msg: "{{ ansible_facts['all_ipv4_addresses'] | hpcai.gpucluster.address_in(gpucluster_networks.cluster) }}"
"""

RETURN = r"""
_value:
  description: The address.
  type: str
"""

import typing as t

from ansible.errors import AnsibleFilterError

try:
    import netaddr
except ImportError:
    netaddr = None  # type: ignore[assignment]


def address_in(addresses: list[str], network: str) -> str:
    """Return the one address that lies in the network."""
    if netaddr is None:
        raise AnsibleFilterError("hpcai.gpucluster.address_in needs the Python package netaddr where Ansible runs")
    try:
        wanted = netaddr.IPNetwork(network)
        inside = [address for address in addresses if netaddr.IPAddress(address) in wanted]
    except (netaddr.AddrFormatError, ValueError, TypeError) as exc:
        raise AnsibleFilterError(f"hpcai.gpucluster.address_in: {exc}") from exc
    if len(inside) != 1:
        found = ", ".join(addresses) or "none"
        raise AnsibleFilterError(
            f"hpcai.gpucluster.address_in: {len(inside)} addresses lie in {network}, 1 is wanted; addresses: {found}"
        )
    return inside[0]


class FilterModule:
    """Filters about addresses."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filters of this file by name."""
        return {"address_in": address_in}
