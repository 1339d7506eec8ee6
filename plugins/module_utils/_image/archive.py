# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Write the root of a node as a tar archive. The node is not changed."""

from __future__ import annotations

import glob
import json
import os
import shutil
import tempfile
import typing as t
from pathlib import Path

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.trusted_directory import new_file, trusted

from .contents import ACCOUNTS, IMAGE, MACHINE_ID, PULL, contents

if t.TYPE_CHECKING:
    from collections.abc import Mapping

    from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.bounded_run import Runner

_STATE = "var/lib/gpucluster/pull"
_SSH = "etc/systemd/system/ssh.service.d/gpucluster-image.conf"
# sshd makes the missing host keys when it starts first.
_SSH_TEXT = """\
[Service]
ExecStartPre=
ExecStartPre=/usr/bin/ssh-keygen -A
ExecStartPre=/usr/sbin/sshd -t
"""
_TAR = ("tar", "--no-recursion", "--null", "--numeric-owner", "--acls", "--xattrs", "--sparse")
_CHANGED = 1  # tar's status if a file changed while it was read
# What the second field of an account may say: no login by password, or that another file has the password.
_NO_PASSWORD = {"passwd": ("x", "*"), "group": ("x", "*"), "shadow": ("*",), "gshadow": ("*",)}


class ImageError(Exception):
    """No image can be made now. The message says why."""


class Image(t.NamedTuple):
    """An archive that was written."""

    path: Path
    bytes: int
    names: int
    bundle: str
    foreign: list[str]


def write(target: Path, root: Path, run: Runner) -> Image:
    """Write the archive, which appears when it is complete. Only root can read it."""
    directory = trusted(str(target.parent))
    bundle = _bundle(root)
    apart = [
        f"/{one}" for one in ("usr", "etc", "var") if (root / one).exists() and _device(root / one) != _device(root)
    ]
    if apart:
        raise ImageError(f"{', '.join(apart)}: found a file system of its own, which the image would lack")
    for left in directory.glob(f".{glob.escape(target.name)}.*"):
        shutil.rmtree(left)
    found = contents(root)
    # Below the directory of the archive, so that it gets its name in one step. Nobody else can enter it.
    with tempfile.TemporaryDirectory(dir=directory, prefix=f".{target.name}.") as name:
        work = Path(name)
        partial = work / "archive"
        new_file(partial)
        _tar(run, "--create", partial, root, [".", *(f"./{one}" for one in found.names)], work)
        own = _replaced(root, bundle)
        _stage(work / "new", own, root)
        _tar(run, "--append", partial, work / "new", [f"./{one}" for one in own], work)
        partial.replace(target)
    return Image(target, target.stat().st_size, len(found.names) + len(own), bundle, found.foreign)


def _device(path: Path) -> int:
    return path.stat().st_dev


def _bundle(root: Path) -> str:
    """Return the checksum of the bundle that the node has applied."""
    if not (root / _STATE / "applied").is_file():
        raise ImageError("this node has not applied a release; run playbooks/pull.yml and wait")
    # The program keeps the bundle that it applied last, and no other, except during a run.
    found = list((root / _STATE).glob("*.tar"))
    if len(found) != 1:
        raise ImageError(
            "gpucluster-pull applies another bundle;"
            " wait until 'journalctl -u gpucluster-pull' says that it was applied, then run this again"
        )
    return found[0].stem


def _replaced(root: Path, bundle: str) -> dict[str, str]:
    """Return the content of the files that an image has in another form, by name."""
    settings = json.loads(_read(root / PULL))
    accounts = {
        name: _without_passwords(name.rpartition("/")[2], _read(root / name))
        for name in ACCOUNTS
        if (root / name).exists()
    }
    return {
        **accounts,
        MACHINE_ID: "",
        # A copy has the name of its host.
        PULL: json.dumps({**settings, "name": ""}, indent=4) + "\n",
        IMAGE: json.dumps({"bundle": bundle}) + "\n",
        _SSH: _SSH_TEXT,
    }


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="surrogateescape")


def _without_passwords(file: str, text: str) -> str:
    """Return a database of accounts without password hashes, also those of locked ones. sshd accepts keys for them."""
    lines = []
    for line in text.splitlines():
        fields = line.split(":")
        if len(fields) > 1 and fields[1] not in _NO_PASSWORD[file]:
            fields[1] = "!"
        lines.append(":".join(fields) + "\n")
    return "".join(lines)


def _stage(directory: Path, files: Mapping[str, str], root: Path) -> None:
    """Write files with the owners and modes of those that they replace."""
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        new_file(path)
        path.write_text(text, encoding="utf-8", errors="surrogateescape")
        former = (root / name).stat() if (root / name).exists() else None
        if former and os.geteuid() == 0:
            os.chown(path, former.st_uid, former.st_gid)
        path.chmod(former.st_mode & 0o777 if former and name in ACCOUNTS else 0o644)


def _tar(run: Runner, action: str, archive: Path, directory: Path, names: list[str], work: Path) -> None:
    """Let tar write files. It takes each name as it is, also one that looks like an option or a pattern."""
    listed = work / "names"
    listed.write_bytes(b"".join(os.fsencode(name) + b"\0" for name in names))
    code, out, err = run([*_TAR, action, f"--file={archive}", f"--directory={directory}", f"--files-from={listed}"])
    if code not in (0, _CHANGED):
        raise ImageError(f"tar failed: {err.strip() or out.strip() or f'status {code}'}")
