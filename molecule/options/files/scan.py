"""
Print the open TCP ports of an address among 1 to 10000: scan.py ADDRESS PATIENCE PORT...

Waits until the ports that are named have answered, PATIENCE seconds at most.
"""

from __future__ import annotations

import resource
import socket
import sys
import time

_BURST = 200  # more packets at once would be lost


def start(address: str, port: int) -> socket.socket:
    """Return a socket that the kernel connects while this program goes on."""
    connection = socket.socket()
    connection.setblocking(False)
    connection.connect_ex((address, port))
    if port % _BURST == 0:
        time.sleep(0.05)  # work: spreads the packets
    return connection


def connected(connection: socket.socket) -> bool:
    """Return whether the other side accepted the connection."""
    try:
        connection.getpeername()
    except OSError:
        return False
    return True


hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
connections = {port: start(sys.argv[1], port) for port in range(1, 10001)}
patience = time.monotonic() + int(sys.argv[2])
while time.monotonic() < patience and not all(connected(connections[int(port)]) for port in sys.argv[3:]):
    time.sleep(0.1)
# absence: a port that should be closed has time to answer; the kernel repeats a lost packet after 1 and 3 seconds.
time.sleep(4)
print(*(port for port, connection in connections.items() if connected(connection)))
