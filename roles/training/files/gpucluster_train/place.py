# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The number of a rank, as torchrun or srun set it, and what its machine must have."""

from __future__ import annotations

import array
import contextlib
import fcntl
import ipaddress
import os
import shutil
import socket
import struct
import sysconfig
import tempfile
import typing as t
from pathlib import Path

from . import trust

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# The request for all IPv4 addresses with their network interfaces (linux/sockios.h), and the size of a row.
_SIOCGIFCONF, _IFREQ = 0x8912, 40
_MOST_ADDRESSES = 1024


class Rank(t.NamedTuple):
    """The number of this process, of all processes, and its number on its node."""

    rank: int
    size: int
    local: int


def find() -> Rank:
    """Return the numbers; one process that neither torchrun nor srun started is alone."""
    launched = "RANK" in os.environ or "SLURM_PROCID" in os.environ
    size = _number("WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS") if launched else 1
    if size <= 1:
        return Rank(0, 1, 0)
    return Rank(_number("RANK", "SLURM_PROCID"), size, _number("LOCAL_RANK", "SLURM_LOCALID"))


def compiler_fault() -> str:
    """Return what torch.compile lacks on this machine: it compiles C for GPUs, with the headers of Python."""
    if not (os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")):
        return "a C compiler (install gcc, or set CC)"
    header = Path(sysconfig.get_path("include")) / "Python.h"
    return "" if header.exists() else f"{header} (install the development package of Python)"


def own_cache() -> str:
    """
    Return a directory for the programs that torch.compile makes, and loads again in a later run.

    PyTorch itself takes the first one even if another user has made it, with pickles and libraries in it.
    """
    path = Path(tempfile.gettempdir()).absolute() / f"torchinductor_{trust.user_name(os.getuid())}"
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        trust.check(str(path), trust.trusted(), trust.trusted_above())
    except (OSError, trust.TrustError):
        return tempfile.mkdtemp(prefix=f"{path.name}_")
    return str(path)


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


def _number(*names: str) -> int:
    return next((int(os.environ[name]) for name in names if os.environ.get(name)), 0)
