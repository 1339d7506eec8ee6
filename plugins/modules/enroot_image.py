#!/usr/bin/python
# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Manage container images as files."""

from __future__ import annotations

DOCUMENTATION = r"""
module: enroot_image
short_description: Manage container images as files
version_added: 0.1.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Imports an image from a registry with enroot, or copies a file that was imported elsewhere. Writes a record with
    size and SHA-256 next to it.
  - A file gets its name only when it is complete and verified. An existing file with its record is unchanged.
  - Checks the free space before it writes.
  - After a failed import it asks the registry once for the cause, which enroot does not print.
extends_documentation_fragment:
  - hpcai.gpucluster._attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
    details: An image is no text.
  idempotent:
    support: full
options:
  path:
    description:
      - Path of the image file.
      - Its directory and all parents must belong to root, or to nobody on a share that squashes root, and only their
        owner may write them; a parent may also be sticky. With O(state=present), a missing directory is created.
    type: path
    required: true
  state:
    description: Whether the file exists.
    type: str
    choices: [present, absent]
    default: present
  image:
    description:
      - The image, such as V(nvcr.io/nvidia/pytorch:25.10-py3), V(nvcr.io#nvidia/pytorch:25.10-py3), V(ubuntu:24.04), or
        the path of a C(.sqsh) file on this machine. The file is imported again when this changes.
      - Exactly one of O(image) and O(source) is required if O(state=present).
    type: str
  source:
    description:
      - A file that this module imported, on storage that this machine shares with the importing machine.
    type: path
  credentials:
    description:
      - Logins at registries, in the format of the option O(hpcai.gpucluster.enroot_credentials#module:entries).
    type: list
    elements: dict
    default: []
    suboptions:
      ngc:
        description: API key of NVIDIA's registry.
        type: str
      machine:
        description: Host name of a registry.
        type: str
      login:
        description: Login name at the registry.
        type: str
      password:
        description: Password, token or V($(command\)).
        type: str
      users:
        description: An entry with users is not used for the import.
        type: list
        elements: str
  size_bytes:
    description: Expected size of an import in bytes. The size of a copy is known.
    type: int
    default: 0
  reserve_bytes:
    description: Bytes that must remain free on the file system.
    type: int
    default: 0
  verify:
    description: Whether an existing file is read completely and compared with its record.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Import an image on one machine
  hpcai.gpucluster.enroot_image:
    image: nvcr.io/nvidia/pytorch:25.10-py3
    path: /shared/images/nvidia+pytorch+25.10-py3.sqsh
    credentials: "{{ enroot_credentials }}"
  become: true

- name: Copy the image to the local drives of each machine
  hpcai.gpucluster.enroot_image:
    source: /shared/images/nvidia+pytorch+25.10-py3.sqsh
    path: /scratch/enroot/images/nvidia+pytorch+25.10-py3.sqsh
  become: true
"""

RETURN = r"""
sha256:
  description: Digest of the file; empty in check mode if it is unknown.
  returned: O(state=present)
  type: str
  sample: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
bytes:
  description: Size of the file.
  returned: O(state=present)
  type: int
  sample: 10737418240
"""

import os
import re
import shutil
import tempfile
import typing as t
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError

from ansible.module_utils.urls import open_url

from ansible_collections.hpcai.gpucluster.plugins.module_utils._enroot import credentials as logins
from ansible_collections.hpcai.gpucluster.plugins.module_utils._enroot import image as images
from ansible_collections.hpcai.gpucluster.plugins.module_utils._enroot import registry
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import whole_file
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.quiet_module import QuietModule
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.trusted_directory import trusted

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

# Four hours for the import of one image.
IMPORT_SECONDS = 14400

_CONFIG = Path("/etc/enroot/enroot.conf")
_NETWORK = re.compile(r"\s*(ENROOT_ALLOW_HTTP|SSL_CERT_(?:DIR|FILE)|(?:all|no|http|https)_proxy)[\s=]+([^\s$`]+)\s*")
_SECONDS = 20
_SECRETS = {
    "ngc": {"type": "str", "no_log": True},
    "machine": {"type": "str"},
    "login": {"type": "str"},
    "password": {"type": "str", "no_log": True},
    "users": {"type": "list", "elements": "str"},
}


class Task:
    """One image on this machine."""

    def __init__(self, module: AnsibleModule) -> None:
        """Read the options of the module."""
        self._module = module
        self._params = module.params
        self._path = Path(module.params["path"])

    def absent(self) -> bool:
        """Remove the file and its record; return whether there was one."""
        there = [path for path in (self._path, images.record_path(self._path)) if path.exists()]
        for path in [] if self._module.check_mode else there:
            path.unlink()
        return bool(there)

    def present(self) -> tuple[bool, images.Record]:
        """Create the file, and return whether it changed; raises ImageError and OSError."""
        # What is there already counts as done, so the directory is judged first. Check mode makes none.
        if self._path.parent.exists():
            trusted(str(self._path.parent), 0o755, squashed=True)
        source, wanted = self._wanted()
        found = images.record(self._path)
        if found and self._same(found, wanted):
            return False, found
        needed = wanted.bytes or self._params["size_bytes"]
        self._space(needed)
        if self._module.check_mode:
            return True, wanted
        # Users run what is in it. Who could replace it would also choose where root writes.
        trusted(str(self._path.parent), 0o755, squashed=True)
        part = self._path.with_name(f".{self._path.name}.part")
        try:
            done = self._bring(source, wanted, part)
            part.chmod(0o644)
            images.record_path(self._path).unlink(missing_ok=True)
            part.replace(self._path)
        finally:
            part.unlink(missing_ok=True)
        whole_file.replace(str(images.record_path(self._path)), done.text().encode(), 0o644)
        return True, done

    def _wanted(self) -> tuple[str, images.Record]:
        """Return the location of the image and its wanted record; digest and size may be unknown."""
        if not self._params["source"]:
            uri = images.parse(self._params["image"]).uri
            size = Path(uri).stat().st_size if uri.startswith("/") else 0
            return uri, images.Record(uri, "", size)
        source = Path(self._params["source"])
        # Users run what is in it, on all nodes.
        if source.parent.exists():
            trusted(str(source.parent), 0o755, squashed=True)
        record = images.record(source)
        if record is None and self._module.check_mode:
            return str(source), images.Record("", "", 0)
        if record is None:
            raise images.ImageError(
                f"{source} is not here, or not complete."
                " It has to be on storage that this machine shares with the one that imports"
            )
        return str(source), record

    def _same(self, found: images.Record, wanted: images.Record) -> bool:
        """Return whether the file is the wanted one."""
        if found.image != wanted.image or wanted.sha256 not in ("", found.sha256):
            return False
        return not self._params["verify"] or images.sha256(self._path) == found.sha256

    def _space(self, needed: int) -> None:
        directory = next(path for path in self._path.parents if path.exists())
        free = os.statvfs(directory)
        fault = images.space_problem(directory, needed, self._params["reserve_bytes"], free.f_bavail * free.f_frsize)
        if fault:
            raise images.ImageError(fault)

    def _bring(self, source: str, wanted: images.Record, part: Path) -> images.Record:
        if not source.startswith("/"):
            self._import(source, part)
            return images.Record(wanted.image, images.sha256(part), part.stat().st_size)
        part.unlink(missing_ok=True)
        digest = images.copy(Path(source), part)
        if wanted.sha256 not in ("", digest):
            raise images.ImageError(
                f"{source} has the digest {digest}, but its record says {wanted.sha256}. It is damaged."
            )
        if digest != images.sha256(part):
            raise images.ImageError(f"the copy of {source} on {self._path.parent} is damaged")
        return images.Record(wanted.image, digest, part.stat().st_size)

    def _import(self, uri: str, part: Path) -> None:
        """Import an image with enroot, with logins that are hidden from other users."""
        part.unlink(missing_ok=True)
        entries = [
            {key: value for key, value in one.items() if value is not None} for one in self._params["credentials"]
        ]
        faults = logins.problems(entries, name="credentials")
        if faults:
            raise images.ImageError("; ".join(faults))
        with tempfile.TemporaryDirectory(dir=self._module.tmpdir) as directory:
            known = logins.logins(entries, None)
            lines = "".join(login.line() + "\n" for login in known)
            whole_file.replace(f"{directory}/.credentials", lines.encode(), 0o600)
            code, out, err = self._module.run_command(
                ["timeout", "--kill-after=60", str(IMPORT_SECONDS), "enroot", "import", "--output", str(part), uri],
                environ_update={"ENROOT_CONFIG_PATH": directory, "TTY_OFF": "1"},
            )
        if code or not part.exists():
            said = [line for line in (err + "\n" + out).splitlines() if line.strip() and not line.startswith("[INFO]")]
            words = " ".join(said[-4:]) or f"nothing, exit status {code}"
            raise images.ImageError(f"enroot cannot import {uri}: {_cause(uri, known)}enroot said: {words}")


def _cause(uri: str, known: list[logins.Login]) -> str:
    """Return the sentence why the registry refuses the image, or an empty string."""
    settings = _network_settings()
    os.environ.update({key: value for key, value in settings.items() if key != "ENROOT_ALLOW_HTTP"})
    scheme = "http" if settings.get("ENROOT_ALLOW_HTTP", "no")[:1].lower() in "yt1" else "https"
    found = registry.cause(images.reference(uri), known, _ask, scheme)
    return f"{found}. " if found else ""


def _network_settings() -> dict[str, str]:
    """Return the network settings of enroot on this machine."""
    try:
        lines = _CONFIG.read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    return {match[1]: match[2] for line in lines if (match := _NETWORK.fullmatch(line))}


def _ask(method: str, url: str, headers: t.Mapping[str, str]) -> registry.Answer:
    """Send one request to a server."""
    try:
        with open_url(url, method=method, headers=dict(headers), timeout=_SECONDS) as reply:
            return registry.Answer(reply.status, body=reply.read(1 << 20).decode("utf-8", "replace"))
    except HTTPError as exc:
        return registry.Answer(exc.code, exc.headers.get("WWW-Authenticate") or "")
    except (OSError, ValueError, HTTPException) as exc:
        return registry.Answer(0, body=str(getattr(exc, "reason", exc)))


def main() -> None:
    """Run the module."""
    module = QuietModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "image": {"type": "str"},
            "source": {"type": "path"},
            "credentials": {"type": "list", "elements": "dict", "default": [], "options": _SECRETS},
            "size_bytes": {"type": "int", "default": 0},
            "reserve_bytes": {"type": "int", "default": 0},
            "verify": {"type": "bool", "default": False},
        },
        mutually_exclusive=[("image", "source")],
        required_if=[("state", "present", ("image", "source"), True)],
        supports_check_mode=True,
    )
    task = Task(module)
    result: dict[str, t.Any] = {}
    try:
        if module.params["state"] == "absent":
            changed = task.absent()
        else:
            if module.params["image"] and not module.params["image"].startswith("/") and not module.check_mode:
                _need_enroot(module)
            changed, record = task.present()
            result = {"sha256": record.sha256, "bytes": record.bytes}
    except (images.ImageError, OSError) as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(changed=changed, **result)


def _need_enroot(module: AnsibleModule) -> None:
    if shutil.which("enroot") is None:
        module.fail_json(msg="enroot is not installed on this machine; apply the role hpcai.gpucluster.enroot first")


if __name__ == "__main__":
    main()
