# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""
Connection of fleet.py: no machine, but the answers of one that is configured completely.

It is the connection ssh of Ansible, with all its options and processes. Instead of a client with a connection, it
starts one that reads its options and its configuration and ends, and a program that reads the module. fleet.py adds
the documentation of the options of ssh to a copy of this file, because Ansible reads the options of a plugin there, and
what the modules return by their own documentation.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
import time
import typing as t
from pathlib import Path

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.connection import ssh

_PARAMS = re.compile(r"^params=('.*'),$", re.M)
_MODULE = re.compile(r"^module_fqn='(.*)',$", re.M)
_TEMPORARY = re.compile(r"echo (ansible-tmp-[\w.-]+)=")

FACTS = {
    "ansible_distribution": "Debian",
    "ansible_distribution_major_version": "13",
    "ansible_distribution_release": "trixie",
    "ansible_distribution_version": "13.1",
    "ansible_os_family": "Debian",
    "ansible_architecture": "x86_64",
    "ansible_machine": "x86_64",
    "ansible_kernel": "6.12.0",
    "ansible_system": "Linux",
    "ansible_virtualization_type": "podman",
    "ansible_virtualization_role": "guest",
    "ansible_virtualization_tech_guest": ["container", "podman"],
}


def facts(host: str) -> dict[str, t.Any]:
    """Return the facts that site.yml gathers; each machine has host keys of its own."""
    key = hashlib.sha256(host.encode()).hexdigest()
    return {
        **FACTS,
        "ansible_ssh_host_key_ed25519_public": f"AAAA{key}",
        "ansible_ssh_host_key_ed25519_public_keytype": "ssh-ed25519",
        "ansible_ssh_host_key_ecdsa_public": f"AAAB{key}",
        "ansible_ssh_host_key_ecdsa_public_keytype": "ecdsa-sha2-nistp256",
        "ansible_ssh_host_key_rsa_public": f"AAAC{key * 6}",
        "ansible_ssh_host_key_rsa_public_keytype": "ssh-rsa",
    }


def nodes_of_slurm(names: list[str]) -> dict[str, t.Any]:
    """Return what Slurm says about idle nodes."""
    node = {"partitions": ["all"], "state": "idle", "answers": True, "version": "24.11.5", "gres": "gpu:h100:8"}
    nodes = [{"name": name, **node, "gpus": 8, "cpus": 96, "reason": ""} for name in names]
    return {"nodes": nodes, "wanted": names, "selected": names, "busy": [], "unusable": []}


def configuration(host: str, name: str) -> Path:
    """Return where a file is that an earlier run wrote to /etc/slurm: a finished controller has it."""
    return Path(os.environ["FLEET_TASKS"]).with_name(f"slurm-{host}-{name}")


def written(host: str, files: list[dict[str, t.Any]]) -> None:
    """Keep the files of Slurm's configuration."""
    for one in files:
        folder, _slash, name = one["path"].rpartition("/")
        if folder == "/etc/slurm" and one.get("content") is not None:
            configuration(host, name).write_text(one["content"], encoding="utf-8")


def found(host: str, names: list[str]) -> dict[str, t.Any]:
    """Return the files of Slurm's configuration that were written, as slurm_config_info does."""
    paths = {name: configuration(host, name) for name in names}
    return {name: {"content": path.read_text("utf-8"), "right": True} for name, path in paths.items() if path.exists()}


def answer(host: str, module: str, params: t.Mapping[str, t.Any], checksums: t.Mapping[str, str]) -> dict[str, t.Any]:
    """Return the result of a module on a machine that has nothing to change."""
    name = module.rpartition(".")[2]
    if name == "setup":
        return {"ansible_facts": facts(host), "changed": False}
    if name == "stat":
        path = params["path"]
        status = {"exists": True, "isdir": False, "isreg": True, "islnk": False, "checksum": checksums.get(path, "")}
        return {"changed": False, "stat": {**status, "path": path, "mode": "0755", "uid": 0, "gid": 0, "size": 1}}
    if name == "slurm_nodes_info":
        return {"changed": False, **nodes_of_slurm(json.loads(os.environ["FLEET_NODES"]))}
    if name == "slurm_wait":
        nodes = {node: {"registered": True, "state": "idle"} for node in params.get("nodes") or []}
        return {"changed": False, "reached": True, "problem": "", "nodes": nodes, "jobs": []}
    if name == "file_set":
        written(host, params.get("files") or [])
    more = {"files": found(host, params["files"])} if name == "slurm_config_info" else {}
    return {**RETURNED.get(module, {}), **_ANSWERS.get(name, {}), **more, "changed": False}


# What each module of this collection returns at least, by its full name. fleet.py adds it to the copy of this file.
RETURNED: dict[str, dict[str, t.Any]] = {}
_HOOKS = ("50-slurm-pmi.sh", "50-slurm-pytorch.sh")
# Where an empty result would not be that of a finished node, and what tasks read of the modules of others.
_ANSWERS: dict[str, dict[str, t.Any]] = {
    "command": {"rc": 0, "stdout": "", "stderr": ""},
    "find": {"files": [{"path": f"/etc/enroot/hooks.d/{name}", "mode": "0755"} for name in _HOOKS]},
    "munge_key": {"key": "x" * 64},
    "node_consistency_info": {
        "versions": {"kernel": "6.12.0", "driver": "580.159.04", "ofed": None, "slurm": "24.11.5", "nccl": "2.28.9"},
        "clock": {"synchronized": True, "offset": 0.001, "by": "chronyc"},
        "own_name": {"name": "gpu", "addresses": ["10.0.0.21"]},
    },
    "ping": {"ping": "pong"},
    "slurp": {"content": "", "encoding": "base64"},
}


class Connection(ssh.Connection):
    """Answer each module without a machine."""

    transport = "finished"

    def _fault(self, module: str) -> dict[str, t.Any]:
        """Return what a machine with a planted fault answers to a module: a failure, an error of ssh, or never."""
        host = self.get_option("gpucluster_fleet_host")
        kind = json.loads(os.environ.get("FLEET_FAULTS", "{}")).get(host, "")
        if kind == "fails" and module.endswith(".packages"):
            return {"failed": True, "msg": "planted failure"}
        if kind == "stuck" and module.endswith(".file_set"):
            time.sleep(86400)  # Ansible ends the task
        gone = Path(os.environ["FLEET_TASKS"]).with_name(f"gone-{host}")
        if kind == "flaps" and module.endswith(".accounts") and not gone.exists():
            gone.touch()
            raise AnsibleConnectionFailure("planted loss of the connection")
        return {}

    def exec_command(self, cmd: str, in_data: bytes | None = None, sudoable: bool = True) -> tuple[int, bytes, bytes]:
        """Return the answer to a command, after processes have read what the client reads."""
        code, _out, err = super().exec_command(cmd, in_data, sudoable)
        text = (in_data or b"").decode()
        module, params = _MODULE.search(text), _PARAMS.search(text)
        if code or not module or not params:
            name = _TEMPORARY.search(cmd)
            home = b"/root\n" if "echo ~" in cmd else b""
            return code, f"{name[1]}=/root/.ansible/tmp/{name[1]}\n".encode() if name else home, err
        arguments = json.loads(ast.literal_eval(params[1]))["ANSIBLE_MODULE_ARGS"]
        checksums = json.loads(os.environ["FLEET_CHECKSUMS"])
        result = self._fault(module[1]) or answer(self._play_context.remote_addr, module[1], arguments, checksums)
        return 0, json.dumps(result).encode(), b""

    def _bare_run(
        self, cmd: list[bytes], in_data: bytes | None, sudoable: bool = True, checkrc: bool = True
    ) -> tuple[int, bytes, bytes]:
        """Run a client that only reads its options, tell Ansible that the user is root now, and read the module."""
        became = self.become.success.encode() if self.become and sudoable else b""
        script = b'"$@" > /dev/null && echo ' + became + (b" && exec cat > /dev/null" if in_data else b"")
        client = [cmd[0], b"-G", *cmd[1:-1]]
        ran = super()._bare_run([b"sh", b"-c", script, b"sh", *client], in_data, sudoable, checkrc)
        return t.cast("tuple[int, bytes, bytes]", ran)

    def put_file(self, in_path: str, out_path: str) -> t.Any:
        """Ignore the file."""
        return 0, b"", b""

    def fetch_file(self, in_path: str, out_path: str) -> t.Any:
        """Fail: a finished node has nothing that the control node lacks."""
        raise NotImplementedError

    def reset(self) -> None:
        """End nothing."""

    def close(self) -> None:
        """End nothing."""
        self._connected = False
