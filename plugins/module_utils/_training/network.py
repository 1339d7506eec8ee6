# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""The network interface of a machine that reaches the others."""

from __future__ import annotations

import array
import contextlib
import fcntl
import ipaddress
import socket
import struct
import typing as t
from pathlib import Path

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# The request for all IPv4 addresses with their network interfaces (linux/sockios.h), and the size of a row.
_SIOCGIFCONF, _IFREQ = 0x8912, 40
_MOST_ADDRESSES = 1024


def interface(hosts: Iterable[str]) -> str:
    """
    Return the network interface that reaches the first of some hosts that is not at a loopback address, or nothing.

    Debian's installer gives a machine's own name the address 127.0.1.1, so a machine learns nothing from its own name.
    """
    for host in hosts:
        own = _own_address(host)
        if own and not ipaddress.ip_address(own).is_loopback:
            return next((name for address, name in _addresses() if address == own and name != "lo"), "")
    return ""


def _own_address(host: str) -> str:
    """Return the address of this machine from which it reaches a host, or nothing."""
    with contextlib.suppress(OSError):
        family, kind, _proto, _name, address = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            probe.connect(address)  # Sends nothing.
            return str(probe.getsockname()[0])
    return ""


def _addresses() -> Iterator[tuple[str, str]]:
    """Yield each address of this machine with its network interface."""
    room = array.array("B", bytes(_IFREQ * _MOST_ADDRESSES))
    place, size = room.buffer_info()
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        used, _place = struct.unpack("iL", fcntl.ioctl(probe, _SIOCGIFCONF, struct.pack("iL", size, place)))
        for start in range(0, used, _IFREQ):
            name = room[start : start + 16].tobytes().rstrip(b"\0").decode()
            yield socket.inet_ntoa(room[start + 20 : start + 24].tobytes()), name.partition(":")[0]
    with contextlib.suppress(OSError):
        for line in Path("/proc/net/if_inet6").read_text(encoding="utf-8").splitlines():
            number, *_rest, name = line.split()
            yield str(ipaddress.IPv6Address(int(number, 16))), name
