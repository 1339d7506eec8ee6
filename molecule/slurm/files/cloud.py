# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""
A stand-in of a cloud: its machines are containers of this host.

Usage: cloud.py LAB NUMBER DIRECTORY. The machines are copies of gpu1. It answers on the address of the network of the
lab, port 8700: the program of the site in the controller sends its word and its input there. C(room) sets the number of
machines that the cloud has, C(stray) adds one that no Slurm asked for, C(quit) removes everything and ends the server.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import typing as t
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

# Seconds for one command: the longest one restarts a machine several times.
_SECONDS = 900 * int(os.environ.get("GPUCLUSTER_TEST_PATIENCE") or 1)
_KEEP = Path(__file__).with_name("restart_until_namespaces_keep.sh")
# The boot time of a container is that of its host, and Slurm ignores a node that did not boot since it was resumed.
_OPTIONS = 'SLURMD_OPTIONS="--conf-server control:6817 -b"\n'
# A job gets its own /tmp only where the kernel keeps mount namespaces. No job must come to a machine before it does.
# work: the caller of the scenario has the patience.
_WAIT = """[Service]
ExecStartPre=/bin/sh -c 'until [ -e /run/namespaces-keep ]; do sleep 0.2; done'
TimeoutStartSec=infinity
"""
_DROP_IN = "/etc/systemd/system/slurmd.service.d/cloud.conf"


class Cloud:
    """Containers by the name of their node; the value tells whether one is being deleted."""

    def __init__(self, lab: str, number: str, directory: Path) -> None:
        """Make the image of the machines, and the files that differ from those of gpu1."""
        self._lab = lab
        self._network = f"10.213.{number}"
        self._image = f"localhost/gpucluster-elastic:{number}"
        self._files = {"/etc/default/slurmd": directory / "slurmd", _DROP_IN: directory / "slurmd.conf"}
        self._machines: dict[str, bool] = {}
        self._making: dict[str, threading.Thread] = {}
        self._room = 1000
        self._lock = threading.Lock()
        for path, text in zip(self._files.values(), (_OPTIONS, _WAIT)):
            path.write_text(text, encoding="utf-8")
        _done("podman", "commit", "--pause=false", "--quiet", f"{lab}-gpu1", self._image)

    def answer(self, word: str, asked: t.Any) -> t.Any:
        """Return at once, as a cloud does."""
        with self._lock:
            if word == "room":
                self._room = int(asked)
            if word == "stray":
                self._machines[str(asked)] = False
            if word == "start":
                return {"failed": {name: "AllocationFailed" for name in asked["nodes"] if not self._starts(name)}}
            for name in asked["nodes"] if word == "stop" else ():
                self._stops(name)
            return {"machines": [{"node": name, "gone": gone} for name, gone in self._machines.items()]}

    def close(self) -> None:
        """Remove the machines and their image."""
        for name in list(self._machines):
            self._remove(name)
        _done("podman", "rmi", "--force", self._image)

    def _starts(self, name: str) -> bool:
        if name not in self._machines and len(self._machines) >= self._room:
            return False
        if name not in self._machines:
            self._machines[name] = False
            self._making[name] = threading.Thread(target=self._make, args=(name,))
            self._making[name].start()
        return True

    def _stops(self, name: str) -> None:
        if self._machines.get(name) is False:
            self._machines[name] = True
            threading.Thread(target=self._remove, args=(name,)).start()

    def _make(self, name: str) -> None:
        number = 60 + int(re.sub(r"\D", "", name))
        machine = f"{self._lab}-{name}"
        volumes = [word for path, file in self._files.items() for word in ("--volume", f"{file}:{path}:ro")]
        _done(
            *("podman", "run", "--detach", "--replace", "--name", machine, "--hostname", name, *volumes),
            *("--systemd=always", "--privileged", "--network", self._lab, "--ip", f"{self._network}.{number}"),
            *("--add-host", f"control:{self._network}.10", self._image, "/sbin/init"),
        )
        if _done(str(_KEEP), machine):
            _done("podman", "exec", machine, "touch", "/run/namespaces-keep")

    def _remove(self, name: str) -> None:
        if name in self._making:
            self._making[name].join()
        _done("podman", "rm", "--force", "--time=0", "--ignore", f"{self._lab}-{name}")
        with self._lock:
            self._machines.pop(name, None)


def _done(*argv: str) -> bool:
    """Run a command, log it, and return whether it succeeded."""
    done = subprocess.run(["/usr/bin/env", *argv], capture_output=True, text=True, check=False, timeout=_SECONDS)
    sys.stderr.write(f"{' '.join(argv)}: {done.returncode} {done.stdout}{done.stderr}\n")
    return done.returncode == 0


class Handler(BaseHTTPRequestHandler):
    """POST /WORD with the input of the program of a site."""

    cloud: Cloud

    def do_POST(self) -> None:
        """Answer one call."""
        word = self.path.strip("/")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if word == "quit":
            self.cloud.close()
            threading.Thread(target=self.server.shutdown).start()
        answer = json.dumps(self.cloud.answer(word, json.loads(body))).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(answer)


def main() -> None:
    """Serve until somebody asks for the end."""
    lab, number, directory = sys.argv[1:]
    Handler.cloud = Cloud(lab, number, Path(directory))
    ThreadingHTTPServer((f"10.213.{number}.1", 8700), Handler).serve_forever()


if __name__ == "__main__":
    main()
