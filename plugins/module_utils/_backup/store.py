# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""The directory with the backups of one machine: complete ones by name, each with checksums."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import tempfile
import typing as t
from datetime import datetime, timedelta, timezone
from pathlib import Path

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import whole_directory
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.trusted_directory import new_file, trusted

MANIFEST = "manifest.json"
_PARTIAL = ".partial-"
_NAME = re.compile(r"[0-9]{8}T[0-9]{6}Z")
_TIME = "%Y%m%dT%H%M%SZ"
_BLOCK = 1 << 20


class BackupError(Exception):
    """A backup or a restore is not possible. The message states the reason."""


class Store:
    """Backups below one directory that only root can change."""

    def __init__(self, directory: str) -> None:
        """Create the directory if it is missing. Raise UntrustedDirectoryError if others can change it."""
        self.directory = trusted(directory)

    def names(self) -> list[str]:
        """Return the names of the complete backups, the oldest first."""
        found = (path for path in self.directory.iterdir() if _NAME.fullmatch(path.name))
        return sorted(path.name for path in found if (path / MANIFEST).is_file())

    def begin(self, now: float) -> Path:
        """Return a new directory for the files of a backup. What an interrupted run left is removed."""
        name = self._next_name(datetime.fromtimestamp(now, timezone.utc))
        for old in self.directory.glob(f"{_PARTIAL}*"):
            shutil.rmtree(old)
        return Path(tempfile.mkdtemp(prefix=f"{_PARTIAL}{name}-", dir=self.directory))

    def _next_name(self, now: datetime) -> str:
        """Return the time as a name that sorts after all others, even if the clock was set back."""
        for newest in self.names()[-1:]:
            now = max(now, datetime.strptime(newest, _TIME).replace(tzinfo=timezone.utc) + timedelta(seconds=1))
        return now.strftime(_TIME)

    def finish(self, partial: Path) -> str:
        """Write the checksums, and give the backup its name in one step."""
        files = sorted(path for path in partial.iterdir() if path.is_file())
        if not files:
            raise BackupError("there is nothing to save on this machine: neither slurmdbd.conf nor a state directory")
        sums = {path.name: digest(path) for path in files}
        new_file(partial / MANIFEST)
        (partial / MANIFEST).write_text(json.dumps(sums, indent=1) + "\n", encoding="utf-8")
        name = partial.name[len(_PARTIAL) :].partition("-")[0]
        whole_directory.keep(partial, self.directory / name)
        return name

    def prune(self, keep: int) -> list[str]:
        """Remove all but the newest backups, and return the names of those that were removed."""
        old = self.names()[:-keep]
        for name in old:
            shutil.rmtree(self.directory / name)
        return old

    def files(self, name: str) -> dict[str, Path]:
        """Return the files of a backup by their names. Raise BackupError if one differs from its checksum."""
        if name not in self.names():
            raise BackupError(f"there is no backup {name!r}; there are: {', '.join(self.names()) or 'none'}")
        directory = self.directory / name
        sums: dict[str, t.Any] = json.loads((directory / MANIFEST).read_text(encoding="utf-8"))
        for file, expected in sums.items():
            path = directory / file
            if not path.is_file() or digest(path) != expected:
                raise BackupError(f"{path} is missing or damaged; nothing was restored")
        return {file: directory / file for file in sums}


def digest(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal digits."""
    found = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK):
            found.update(block)
    return found.hexdigest()
