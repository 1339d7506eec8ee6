# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Expand ranges of names and addresses."""

from __future__ import annotations

import ipaddress
import itertools
import math
import re

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import hostlist

# A template, or a range in brackets.
_PARTS = re.compile(r"(\{\{.*?\}\}|\[[^\]]*\])")
_MOST = 100_000


class RangeError(ValueError):
    """A range that is not valid; the message says what is wrong."""


def names(expression: str) -> list[str]:
    """Return the host names of an expression such as C(gpu[1-64])."""
    try:
        return hostlist.expand(expression)
    except hostlist.HostlistError as exc:
        raise RangeError(str(exc)) from None


def values(expression: str) -> list[str]:
    """Return the values of C(10.0.0.[11-74]), C(10.0.0.11-10.0.0.74) or C(rack[1-4]); a template stays as it is."""
    first, dash, last = expression.partition("-")
    if dash and _is_address(first) and _is_address(last):
        return _between(first, last)
    parts = [names(part) if part.startswith("[") else [part] for part in _PARTS.split(expression)]
    if math.prod(map(len, parts)) > _MOST:
        raise RangeError(f"{expression!r} has more than {_MOST} values")
    return ["".join(found) for found in itertools.product(*parts)]


def networks(found: list[str]) -> list[str]:
    """Return the fewest networks that contain exactly these addresses, or an empty list if one is no IP address."""
    if not all(map(_is_address, found)):
        return []
    result: list[str] = []
    for version in (4, 6):
        group = [ipaddress.ip_network(one) for one in found if ipaddress.ip_address(one).version == version]
        result += [_plain(network) for network in ipaddress.collapse_addresses(group)]  # type: ignore[type-var]
    return result


def _plain(network: ipaddress.IPv4Network | ipaddress.IPv6Network) -> str:
    return str(network.network_address) if network.num_addresses == 1 else str(network)


def _is_address(text: str) -> bool:
    try:
        return bool(ipaddress.ip_address(text.strip()))
    except ValueError:
        return False


def _between(first: str, last: str) -> list[str]:
    low, high = ipaddress.ip_address(first.strip()), ipaddress.ip_address(last.strip())
    if low.version != high.version or not 0 <= int(high) - int(low) < _MOST:
        raise RangeError(f"'{first}-{last}' has to rise, by no more than {_MOST} addresses")
    return [str(low + step) for step in range(int(high) - int(low) + 1)]
