# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""SSH key pairs of users: generated once and stored in a directory that only root can read."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import typing as t
from pathlib import Path

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.bounded_run import Runner


class KeyStoreError(Exception):
    """ssh-keygen failed, or the directory is invalid."""


class KeyStore:
    """A directory with one subdirectory per user, which contains id_ed25519 and id_ed25519.pub."""

    def __init__(self, path: Path, run: Runner, keygen: str = "ssh-keygen") -> None:
        """Set the directory and the runner."""
        self._path = path
        self._run = run
        self._keygen = keygen

    def missing(self, names: Iterable[str]) -> list[str]:
        """Return the users that have no pair."""
        return [name for name in names if not (self._path / name / "id_ed25519").is_file()]

    def present(self, names: Iterable[str]) -> list[str]:
        """Return the users that have a pair."""
        wanted = list(names)
        absent = set(self.missing(wanted))
        return [name for name in wanted if name not in absent]

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Create the directory and hold its lock, so that no other process generates keys."""
        self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._path.chmod(0o700)
        handle = os.open(self._path / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def make(self, name: str) -> None:
        """Generate a pair in a temporary directory and rename it, so that an interrupted run leaves no partial pair."""
        work = Path(tempfile.mkdtemp(dir=self._path, prefix=".new."))
        try:
            argv = [self._keygen, "-q", "-t", "ed25519", "-N", "", "-C", f"{name}@gpucluster"]
            argv += ["-f", str(work / "id_ed25519")]
            rc, out, err = self._run(argv)
            if rc:
                raise KeyStoreError(f"{' '.join(argv[:5])} exited {rc}: {(err or out).strip()}")
            work.rename(self._path / name)
        finally:
            shutil.rmtree(work, ignore_errors=True)

    def remove(self, name: str) -> None:
        """Remove a pair."""
        shutil.rmtree(self._path / name)

    def pair(self, name: str) -> dict[str, str]:
        """Return the private and the public key of a pair."""
        directory = self._path / name
        return {
            "private": (directory / "id_ed25519").read_text(encoding="utf-8"),
            "public": (directory / "id_ed25519.pub").read_text(encoding="utf-8"),
        }
