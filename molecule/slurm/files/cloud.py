# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""
A stand-in of a cloud: its machines are containers of this host.

Usage: cloud.py LAB NUMBER IMAGE. It answers on the address of the network of the lab, port 8700. The program of the
site in the controller sends its word and its input there. C(/room) sets the number of machines that the cloud has.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import typing as t
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_SECONDS = 60
# The boot time of a container is that of its host, and Slurm ignores a node that did not boot since it was resumed.
_OPTIONS = 'SLURMD_OPTIONS="--conf-server control:6817 -b"\n'


class Cloud:
    """Containers by the name of their node; the value tells whether one is being deleted."""

    def __init__(self, lab: str, number: str, image: str, options: str) -> None:
        """Use the network of a lab; options is the file with those of slurmd."""
        self._lab = lab
        self._network = f"10.213.{number}"
        self._image = image
        self._options = options
        self._machines: dict[str, bool] = {}
        self._room = 1000
        self._lock = threading.Lock()

    def answer(self, word: str, asked: t.Any) -> t.Any:
        """Return at once, as a cloud does."""
        with self._lock:
            if word == "room":
                self._room = int(asked)
            if word == "start":
                return {"failed": {name: "AllocationFailed" for name in asked["nodes"] if not self._starts(name)}}
            for name in asked["nodes"] if word == "stop" else ():
                self._stops(name)
            return {"machines": [{"node": name, "gone": gone} for name, gone in self._machines.items()]}

    def _starts(self, name: str) -> bool:
        if name not in self._machines and len(self._machines) >= self._room:
            return False
        if name not in self._machines:
            self._machines[name] = False
            threading.Thread(target=self._make, args=(name,)).start()
        return True

    def _stops(self, name: str) -> None:
        if self._machines.get(name) is False:
            self._machines[name] = True
            threading.Thread(target=self._remove, args=(name,)).start()

    def _make(self, name: str) -> None:
        number = 60 + int(re.sub(r"\D", "", name))
        _podman(
            *("run", "--detach", "--replace", "--name", f"{self._lab}-{name}", "--hostname", name),
            *("--systemd=always", "--privileged", "--network", self._lab, "--ip", f"{self._network}.{number}"),
            *("--add-host", f"control:{self._network}.10", "--volume", f"{self._options}:/etc/default/slurmd:ro"),
            *(self._image, "/sbin/init"),
        )

    def _remove(self, name: str) -> None:
        _podman("rm", "--force", "--time=0", "--ignore", f"{self._lab}-{name}")
        with self._lock:
            self._machines.pop(name, None)


def _podman(*arguments: str) -> None:
    done = subprocess.run(
        ["/usr/bin/env", "podman", *arguments], capture_output=True, text=True, check=False, timeout=_SECONDS
    )
    sys.stderr.write(f"podman {arguments[0]} {done.returncode} {done.stderr}\n")


class Handler(BaseHTTPRequestHandler):
    """POST /WORD with the input of the program of a site."""

    cloud: Cloud

    def do_POST(self) -> None:
        """Answer one call."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        answer = json.dumps(self.cloud.answer(self.path.strip("/"), json.loads(body))).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(answer)


def main() -> None:
    """Serve until the process is killed."""
    lab, number, image, options = sys.argv[1:]
    with open(options, "w", encoding="utf-8") as stream:  # noqa: PTH123
        stream.write(_OPTIONS)
    Handler.cloud = Cloud(lab, number, image, options)
    ThreadingHTTPServer((f"10.213.{number}.1", 8700), Handler).serve_forever()


if __name__ == "__main__":
    main()
