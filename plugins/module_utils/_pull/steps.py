# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
Configure a node by a run of Ansible on the node itself, from a signed release that the controller serves.

A release is one JSON file with the inventory, the variables of pulled nodes, and the checksum of the bundle. The
signature is fetched first: it differs if and only if the release differs, so an idle node costs the controller one
small file. The node proves who it is with its ssh host key. The serial of a release only grows, so nobody can serve an
old one to a node that accepted a newer one; a node that accepted none refuses one that has expired. Of the clock
nothing is stored.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import shutil
import socket
import tarfile
import time
import typing as t
import zipfile

from ansible_collections.hpcai.gpucluster.plugins.module_utils._bundle import archive
from ansible_collections.hpcai.gpucluster.plugins.module_utils._join import steps as join_steps
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import whole_directory

if t.TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host

    Settings = Mapping[str, t.Any]

RELEASE, SIGNATURE = "release.json", "release.json.sig"
# The names that a signature is for: who signs, and what.
SIGNER, NAMESPACE = "gpucluster", "gpucluster-pull"
HOST_KEY = "/etc/ssh/ssh_host_ed25519_key"
# What playbooks/image.yml wrote on the root of this machine.
IMAGE = "/etc/gpucluster/image.json"
KNOWN_HOSTS, SIGNERS = "/etc/gpucluster/pull_known_hosts", "/etc/gpucluster/pull_signers"
# Collections that tasks of site.yml use, from the wheel of Ansible. Ansible resolves their names also for other hosts.
_COLLECTIONS = tuple(
    f"ansible_collections/{name}/" for name in ("ansible/posix", "community/general", "community/mysql")
)
_SSH = (
    *("BatchMode=yes", "IdentitiesOnly=yes", f"IdentityFile={HOST_KEY}", "IdentityAgent=none"),
    *(f"UserKnownHostsFile={KNOWN_HOSTS}", "GlobalKnownHostsFile=/dev/null", "StrictHostKeyChecking=yes"),
    *("ConnectTimeout=20", "ServerAliveInterval=10", "ServerAliveCountMax=3"),
)
_CONFIG = """[defaults]
gathering = smart
inject_facts_as_vars = false
nocolor = true
retry_files_enabled = false
"""


class PullError(Exception):
    """The node cannot be configured now; the message says why. The next run tries again."""


class Pull:
    """One look at the controller. I(state) is a directory that only root can read."""

    def __init__(self, host: Host, settings: Settings, state: Path, now: float | None = None) -> None:
        self._host = host
        self._settings = settings
        self._state = state
        self._now = time.time() if now is None else now

    def run(self, force: bool = False) -> str:
        """Run the playbook if the release is new, or applied long ago. Return what was done."""
        signature = self._get(SIGNATURE).read_bytes()
        applied = self._state / "applied"
        same = applied.exists() and applied.read_bytes() == signature
        # A time in the future comes from a clock that was ahead: then the release is due, not applied for years.
        if same and not force and 0 <= self._now - applied.stat().st_mtime < self._settings["full_seconds"]:
            return "the release is applied"
        release = self._release()
        if not force and not applied.exists() and self._is_copy(release):
            return self._join(release)
        bundle = self._bundle(release["bundle"])
        unpacked = archive.unpack(bundle, self._state / "cache/gpucluster/bundle")
        self._play(release, bundle, self._ansible(unpacked.path))
        applied.write_bytes(signature)
        os.utime(applied, (self._now, self._now))
        self._clean(bundle, unpacked.path)
        return f"the release with the bundle {bundle.stem} was applied"

    def _is_copy(self, release: Mapping[str, t.Any]) -> bool:
        """Return whether this is a new copy of an image that this release has configured."""
        made = json.loads(self._host.read(IMAGE) or "{}")
        return not (self._state / "joined").exists() and bool(made.get("bundle") == release["bundle"]["sha256"])

    def _join(self, release: Mapping[str, t.Any]) -> str:
        """Let a copy of an image take jobs: it has all but the munge key. The next run applies the release."""
        join_steps.install_key(self._host, base64.b64decode(release["variables"]["munge_key"]))
        join_steps.start_daemons(self._host)
        (self._state / "joined").touch()
        return "this copy of an image has joined; the next run applies the release"

    def _get(self, name: str) -> Path:
        """Fetch a file of the controller. An interrupted copy has another name."""
        target = self._state / name
        partial = target.with_name(f"{name}.partial")
        argv = ["sftp", "-q", "-b", "-", "-F", "none", *(f"-o{option}" for option in _SSH)]
        server = f"{self._settings['user']}@{self._settings['server']}"
        code, out, err = self._host.run([*argv, server], f"get {name} {partial}\n")
        if code:
            said = (err or out).strip()
            raise PullError(f"{server} does not give {name} (run playbooks/pull.yml to register this node): {said}")
        partial.replace(target)
        return target

    def _release(self) -> dict[str, t.Any]:
        """Return the release, whose signature is that of the cluster, and which knows this node."""
        text = self._get(RELEASE).read_text(encoding="utf-8")
        argv = ["ssh-keygen", "-Y", "verify", "-f", SIGNERS, "-I", SIGNER, "-n", NAMESPACE]
        code, out, err = self._host.run([*argv, "-s", str(self._state / SIGNATURE)], text)
        if code:
            raise PullError(f"the signature of {RELEASE} is not that of the cluster: {(err or out).strip()}")
        release: dict[str, t.Any] = json.loads(text)
        if self._name() not in json.loads(release["inventory"])["_meta"]["hostvars"]:
            raise PullError(f"the inventory of the release has no {self._name()}")
        self._accept(release, hashlib.sha256(text.encode()).hexdigest())
        return release

    def _accept(self, release: Mapping[str, t.Any], digest: str) -> None:
        """Refuse a release that is older than one that this node accepted, or that came too late to a node."""
        serial, expires = release.get("serial"), release.get("expires")
        # True is an int, too.
        if not isinstance(serial, int) or not isinstance(expires, int) or bool in (type(serial), type(expires)):
            raise PullError(f"{RELEASE} has no serial; run playbooks/pull.yml of this release of the collection")
        kept = f"{self._state}/accepted.json"
        before = _accepted(self._host.read(kept), kept)
        if (serial, digest) == before:
            return
        if serial <= before[0]:
            raise PullError(
                f"{RELEASE} has the serial {serial}, and this node has accepted {before[0]}: an old release is served."
                f" Run playbooks/pull.yml; if the control node has lost its count, with -e pull_serial={before[0] + 1}"
            )
        if expires <= self._now:
            raise PullError(
                f"{RELEASE} expired at {_time(expires)}, and the clock of this node says {_time(self._now)}."
                " Run playbooks/pull.yml, or set the clock"
            )
        self._host.write(kept, json.dumps({"serial": serial, "sha256": digest}), 0o600)

    def _name(self) -> str:
        """Return the name of this node. A copy of an image has only that of its host."""
        return self._settings["name"] or socket.gethostname().partition(".")[0]

    def _bundle(self, wanted: Mapping[str, t.Any]) -> Path:
        """Return the bundle of the release, with its checksum compared."""
        if not re.fullmatch(r"[0-9a-f]{64}", wanted["sha256"]):
            raise PullError(f"{RELEASE} has the checksum {wanted['sha256']!r}; allowed: 64 hexadecimal digits")
        path = self._state / f"{wanted['sha256']}.tar"
        # A power cut can leave an empty file under the final name.
        if path.exists() and archive.digest(path) == wanted["sha256"]:
            return path
        fetched = self._download(wanted["url"]) if wanted["url"] else self._get("bundle.tar")
        found = archive.digest(fetched)
        if found != wanted["sha256"]:
            fetched.unlink()
            raise PullError(f"the bundle is not that of the release: its checksum is {found}")
        fetched.replace(path)
        return path

    def _download(self, url: str) -> Path:
        """Fetch the bundle from any server: its checksum is signed."""
        target = self._state / "bundle.tar"
        argv = ["curl", "--fail", "--silent", "--show-error", "--location", "--connect-timeout", "20"]
        code, out, err = self._host.run([*argv, "--output", str(target), "--", url])
        if code:
            raise PullError(f"{url} cannot be fetched: {(err or out).strip()}")
        return target

    def _ansible(self, bundle: Path) -> Path:
        """Return the directory with Ansible and the collections of a bundle. Nothing is installed in the system."""
        final = self._state / f"ansible-{bundle.name}"
        if final.exists():
            return final
        wheels = sorted((bundle / "node-wheels").glob("*.whl"))
        if not wheels:
            raise PullError("the bundle has no node-wheels; make it again with this release of the collection")
        partial = final.with_name(f"{final.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        for wheel in wheels:
            _unzip(wheel, partial)
        for wheel in (bundle / "wheels").glob("ansible-[0-9]*.whl"):
            _unzip(wheel, partial, _COLLECTIONS)
        for file in (bundle / "collections").glob("hpcai-gpucluster-*.tar.gz"):
            _untar(file, partial / "ansible_collections/hpcai/gpucluster")
        whole_directory.keep(partial, final)
        return final

    def _play(self, release: Mapping[str, t.Any], bundle: Path, ansible: Path) -> None:
        """Run the playbook on this machine, for this machine only."""
        self._inputs(release, bundle)
        argv = ["/usr/bin/python3", "-m", "ansible", "playbook", "--inventory", str(self._state / "inventory")]
        argv += ["--limit", self._name(), "-e", f"@{self._state}/variables.json", self._settings["playbook"]]
        code, out, err = self._host.run(argv, "", self._environment(ansible))
        self._host.write(f"{self._state}/log", out + err, 0o600)
        if code:
            raise PullError(f"the playbook failed, see {self._state}/log: {_cause(out + err)}")

    def _inputs(self, release: Mapping[str, t.Any], bundle: Path) -> None:
        """Write what Ansible reads. Variables of this kind take precedence over those of the inventory."""
        own = {
            "ansible_become": False,
            "ansible_connection": "local",
            "ansible_python_interpreter": "/usr/bin/python3",
            "gpucluster_bundle": str(bundle),
            "gpucluster_pull": True,
        }
        state = self._state
        self._host.write(f"{state}/variables.json", json.dumps({**release["variables"], **own}), 0o600)
        self._host.write(f"{state}/inventory.json", release["inventory"], 0o600)
        # A program that prints JSON is the one form of an inventory that keeps encrypted values.
        self._host.write(f"{state}/inventory", f"#!/bin/sh\nexec cat {state}/inventory.json\n", 0o700)
        self._host.write(f"{state}/ansible.cfg", _CONFIG)

    def _environment(self, ansible: Path) -> dict[str, str]:
        return {
            "ANSIBLE_COLLECTIONS_PATH": str(ansible),
            "ANSIBLE_CONFIG": f"{self._state}/ansible.cfg",
            "HOME": str(self._state),
            "LC_ALL": "C.UTF-8",
            "PYTHONPATH": str(ansible),
            "XDG_CACHE_HOME": f"{self._state}/cache",
        }

    def _clean(self, bundle: Path, unpacked: Path) -> None:
        """Remove older bundles."""
        keep = {bundle.name, f"ansible-{unpacked.name}", unpacked.name}
        olds = [*self._state.glob("*.tar"), *self._state.glob("ansible-*"), *unpacked.parent.iterdir()]
        for old in olds:
            if old.name not in keep:
                shutil.rmtree(old) if old.is_dir() else old.unlink()


def _accepted(text: str, path: str) -> tuple[int, str]:
    """Return the serial and the checksum of the release that this node accepted last."""
    try:
        found = json.loads(text or '{"serial": 0, "sha256": ""}')
        return int(found["serial"]), str(found["sha256"])
    except (ValueError, KeyError, TypeError) as exc:
        raise PullError(
            f"{path} is damaged. Remove it, and this node accepts any release that has not expired"
        ) from exc


def _time(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def _unzip(wheel: Path, target: Path, prefixes: tuple[str, ...] = ("",)) -> None:
    """Unpack files of a wheel. Its checksum is signed, so it is trusted."""
    with zipfile.ZipFile(wheel) as opened:
        opened.extractall(target, [name for name in opened.namelist() if name.startswith(prefixes)])  # noqa: S202


def _untar(file: Path, target: Path) -> None:
    """Unpack the archive of a collection. Its checksum is signed, so it is trusted."""
    target.mkdir(parents=True)
    with tarfile.open(file) as opened:
        opened.extractall(target, [member for member in opened if member.isfile() or member.isdir()])  # noqa: S202


def _cause(text: str) -> str:
    """Return the lines that say why, or the last ones."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    causes = [line for line in lines if re.match(r"fatal:|ERROR!|\[ERROR\]", line)]
    return " ".join((causes or lines)[-2:])[-1500:]
