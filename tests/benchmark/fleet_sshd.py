"""
Compare the connection plugin of fleet.py with the real ssh client: processor time of the control node for pings.

Usage: tests/benchmark/fleet_sshd.py [--machine gpu1] [--ports 30] [--pings 27]
It needs a lab (make lab). One of its machines has one more sshd, with many ports, while this program runs. Each port
is a host. The processor time of ssh includes the master processes that keep the connections.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import typing as t
from pathlib import Path

import fleet  # type: ignore[import-not-found]

FIRST_PORT = 2201
PORTS = 10
NEAR = 0.2
UNIT = "gpucluster-benchmark-sshd"


class Cost(t.NamedTuple):
    """Processor time in seconds: of ansible-playbook with all that it waits for, and of masters of ssh."""

    name: str
    ansible: float
    masters: float

    @property
    def whole(self) -> float:
        """Return the sum."""
        return self.ansible + self.masters


def variables(machine: str) -> dict[str, t.Any]:
    """Return how the inventory of the lab contacts a machine."""
    debug = ["-m", "ansible.builtin.debug", "-a", "msg={{ [ansible_host, ansible_ssh_private_key_file] }}"]
    command = [str(fleet.BIN / "ansible"), machine, "-i", "inventories/lab", *debug]
    environment = {
        **os.environ,
        "ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.minimal",
        "ANSIBLE_CALLBACK_RESULT_FORMAT": "json",
    }
    done = subprocess.run(
        command, cwd=fleet.CHECKOUT, env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    address, key = json.loads(done.stdout.partition("=>")[2])["msg"]
    return {"ansible_host": address, "ansible_ssh_private_key_file": key}


def shell(machine: str, script: str) -> None:
    """Run a script on a machine of the lab."""
    command = [
        str(fleet.BIN / "ansible"),
        machine,
        "-i",
        "inventories/lab",
        "-b",
        "-m",
        "ansible.builtin.shell",
        "-a",
        script,
    ]
    subprocess.run(command, cwd=fleet.CHECKOUT, stdout=subprocess.DEVNULL, check=True, timeout=120)


def masters(directory: str) -> dict[int, float]:
    """Return the processor time of each ssh process that has a control path in a directory."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            words = (path / "cmdline").read_text().replace("\0", " ")
            fields = (path / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if words.startswith("ssh") and directory in words:
            found[int(path.name)] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return found


def pings(name: str, hosts: dict[str, t.Any], folder: Path) -> Cost:
    """Run pings on all hosts, and measure it."""
    control = folder / "cp"
    source = folder / f"{name}.json"
    source.write_text(json.dumps({"all": {"children": {"slurm_compute": {"hosts": hosts}}}}), encoding="utf-8")
    command = [str(fleet.BIN / "ansible-playbook"), "-i", str(source), str(fleet.floor(folder))]
    environment = {
        **fleet.environment(source, folder / "tasks.json", None),
        "ANSIBLE_SSH_CONTROL_PATH_DIR": str(control),
        "ANSIBLE_HOST_KEY_CHECKING": "false",
    }
    with (folder / "output").open("w") as stream:
        process = subprocess.Popen(
            command, cwd=fleet.CHECKOUT, env=environment, stdout=stream, stderr=subprocess.STDOUT
        )
        _pid, status, used = os.wait4(process.pid, 0)
    kept = masters(str(control))
    for pid in kept:
        os.kill(pid, 15)
    if status:
        sys.exit(f"{(folder / 'output').read_text(encoding='utf-8')[:3000]}\n{name} failed")
    return Cost(name, used.ru_utime + used.ru_stime, sum(kept.values()))


def main() -> int:
    """Measure, print and judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machine", default="gpu1")
    parser.add_argument("--ports", type=int, default=30)
    parser.add_argument(
        "--pings", type=int, default=27, help="tasks for each connection; a node executes 27 in site.yml"
    )
    options = parser.parse_args()

    fleet.PINGS = options.pings
    ports = range(FIRST_PORT, FIRST_PORT + options.ports)
    reached = variables(options.machine)
    # sshd listens on 16 sockets at most.
    for first in ports[::PORTS]:
        listen = " ".join(f"-p {port}" for port in ports if first <= port < first + PORTS)
        shell(
            options.machine, f"systemd-run --quiet --unit={UNIT}-{first} /usr/sbin/sshd -4 -D -o PidFile=none {listen}"
        )
    try:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            plugin = {f"gpu{port}": {**reached, "ansible_connection": "finished"} for port in ports}
            real = {f"gpu{port}": {**reached, "ansible_port": port, "ansible_user": "root"} for port in ports}
            time.sleep(1)
            costs = [
                pings(f"{turn}-{kind}", hosts, folder)
                for turn in (1, 2)
                for kind, hosts in (("plugin", plugin), ("ssh", real))
            ]
    finally:
        shell(options.machine, f"systemctl stop '{UNIT}-*'")
    for one in costs:
        each = 1000 * one.whole / options.ports / fleet.PINGS
        print(
            f"{one.name:<10} {one.whole:6.2f} CPU s, {each:5.1f} ms for each ping (masters of ssh: {one.masters:.2f} s)"
        )
    shares = [plugin.whole / ssh.whole for plugin, ssh in zip(costs[::2], costs[1::2])]
    print(f"the plugin needs {', '.join(f'{share:.2f}' for share in shares)} of what ssh needs")
    return int(any(abs(1 - share) > NEAR for share in shares))


if __name__ == "__main__":
    sys.exit(main())
