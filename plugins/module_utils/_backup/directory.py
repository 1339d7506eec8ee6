# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Save directories and files while Slurm writes them, and restore the state directory."""

from __future__ import annotations

import shutil
import typing as t
from pathlib import Path

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import whole_directory, whole_file
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.trusted_directory import new_file, trusted

from .store import BackupError

if t.TYPE_CHECKING:
    from collections.abc import Sequence

    from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host

# Of gpucluster-elastic, in the state directory: an old file of it would tell of machines that others have by now.
NEVER = "elastic"
_CHANGED = 1  # a file changed or vanished while tar read it; Slurm replaces its files atomically


def save(directory: str, names: Sequence[str], archive: Path, host: Host) -> None:
    """Write an archive of some names in a directory."""
    new_file(archive)
    without = f"--exclude=./{NEVER}"
    tar = ["tar", "--create", "--gzip", f"--file={archive}", f"--directory={directory}", without, "--", *names]
    code, out, err = host.run(tar)
    if code not in (0, _CHANGED):
        raise BackupError(f"{directory}: {err.strip() or out.strip()}")


def check_target(directory: str) -> None:
    """Raise UntrustedDirectoryError if somebody else than root can change where a directory is restored."""
    trusted(str(Path(directory).parent), mode=0o755, sticky=True)


def undo(directory: str) -> None:
    """Undo a restore that was killed between its last two steps: only this one of three directories is missing."""
    if not directory:
        return
    target, fresh, former = _names(directory)
    if fresh.is_dir() and former.is_dir() and not target.exists():
        check_target(directory)
        if (fresh / NEVER).is_dir():
            (fresh / NEVER).rename(former / NEVER)
        former.rename(target)


def restore(directory: str, archive: Path, host: Host) -> str:
    """
    Replace a directory with the content of an archive, and return where the former directory is.

    What no backup has stays as it is.
    """
    target, fresh, former = _names(directory)
    for path in (fresh, former):
        if path.exists():
            shutil.rmtree(path)
    fresh.mkdir(mode=0o700, parents=True)
    code, out, err = host.run(
        [
            "tar",
            "--extract",
            "--gzip",
            "--same-owner",
            "--same-permissions",
            f"--file={archive}",
            f"--directory={fresh}",
            f"--exclude=./{NEVER}",  # archives of earlier releases have it
        ]
    )
    if code:
        raise BackupError(f"{archive}: {err.strip() or out.strip()}")
    whole_directory.settle(fresh)
    if target.exists():
        target.rename(former)
        if (former / NEVER).is_dir():
            (former / NEVER).rename(fresh / NEVER)
    fresh.rename(target)
    whole_file.sync_name(str(target))
    return str(former)


def _names(directory: str) -> tuple[Path, Path, Path]:
    """Return the directory, the one that a restore makes, and the one that it leaves."""
    target = Path(directory)
    fresh, former = (target.with_name(f"{target.name}.{word}") for word in ("restoring", "before-restore"))
    return target, fresh, former
