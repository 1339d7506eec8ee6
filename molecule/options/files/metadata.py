# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""
Print which users of this machine reach a stand-in of Azure's services: one line for each address and port.

Usage: metadata.py UID...
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys

SERVICE, WIRE_SERVER = "169.254.169.254", "168.63.129.16"
PLACES = [(SERVICE, 80), (WIRE_SERVER, 80), (WIRE_SERVER, 32526), (WIRE_SERVER, 53)]
SECONDS = 20


def reaches(uid: int, place: tuple[str, int]) -> bool:
    """Return whether a process of a user can connect."""
    child = os.fork()
    if not child:
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as client:
            client.settimeout(SECONDS)
            # From the address of the service itself, the refusal would be refused, too.
            client.bind(("127.0.0.1", 0))
            os._exit(0 if client.connect_ex(place) == 0 else 1)
    return os.waitpid(child, 0)[1] == 0


def main() -> None:
    """Serve on loopback, and try as each user."""
    users = [int(word) for word in sys.argv[1:]]
    for address in (SERVICE, WIRE_SERVER):
        command = ["ip", "address", "replace", f"{address}/32", "dev", "lo"]
        subprocess.run(command, check=True, timeout=SECONDS)
    for place in PLACES:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as server:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.bind(place)
            server.listen(len(users))
            found = [str(uid) for uid in users if reaches(uid, place)]
        sys.stdout.write(f"{place[0]}:{place[1]} {' '.join(found)}\n")


if __name__ == "__main__":
    main()
