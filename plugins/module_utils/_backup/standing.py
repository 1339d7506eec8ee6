# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Find out which clusters the database of slurmdbd has, and the command that restores its newest backup."""

from __future__ import annotations

import contextlib
import gzip
import json
import re
import shlex
import typing as t
import zlib
from pathlib import Path

from . import database
from .store import BackupError, Store

if t.TYPE_CHECKING:
    from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host

MARIADB = "/var/lib/mysql"
SETTINGS = "/etc/gpucluster/backup.json"
DIRECTORY = "/var/backups/gpucluster"
_DEFAULT = database.Database("slurm_acct_db", "[client]\n")
_QUERY = "SELECT name FROM {name}.cluster_table WHERE deleted = 0"
_LOAD = (
    "systemctl stop slurmdbd && mariadb --execute='CREATE DATABASE IF NOT EXISTS {name}'"
    " && zcat {file} | mariadb {name} && systemctl start slurmdbd"
)
_CLUSTER = b"INSERT INTO `cluster_table`"
_BLOCK = 1 << 20  # bytes
# Unknown database, and a database without tables.
_NONE = re.compile(r"ERROR (1049|1146) ")


class Clusters(t.NamedTuple):
    """The names of the clusters, or None and the reason why they are unknown."""

    names: list[str] | None
    reason: str


def clusters(host: Host, here: bool = True) -> Clusters:
    """Return the clusters in the database, which is normally C(here). A database that does not exist has none."""
    try:
        found = database.find(host) or (_DEFAULT if here else None)
    except BackupError as exc:
        return Clusters(None, str(exc))
    if found is None:
        return Clusters(None, f"{database.CONFIG} is missing")
    query = _QUERY.format(name=found.name)
    argv = ("mariadb", "--defaults-extra-file=/dev/stdin", "--batch", "--skip-column-names", f"--execute={query}")
    code, out, err = host.run(argv, found.client)
    if code == 0:
        return Clusters(out.split(), "")
    is_here = found.client == _DEFAULT.client
    if _NONE.search(err) or (is_here and host.entries(f"{MARIADB}/{found.name}") is None):
        return Clusters([], "")
    return Clusters(None, f"mariadb exited {code}: {(err or out).strip()}")


def restore_command(host: Host, dumps: str, names: list[str] | None) -> str:
    """
    Return the command that restores the newest backup, or else the newest dump of an upgrade; empty without one.

    A dump without a cluster is passed over: it is that of the database that was lost.
    """
    directory = json.loads(host.read(SETTINGS) or "{}").get("directory", DIRECTORY)
    # A database that is missing cannot be saved before the restore.
    options = " --no-save" if names == [] else ""
    # This only looks: it makes no directory, and names no backup that others could have changed.
    with contextlib.suppress(OSError):
        store = Store(directory) if Path(directory).is_dir() else None
        for name in reversed(store.names() if store else []):
            if _has_cluster(Path(directory) / name / "database.sql.gz"):
                return f"gpucluster-backup restore {name} --part database{options}"
    found = [path for path in sorted(Path(dumps).glob(f"{_DEFAULT.name}-*.sql.gz")) if _has_cluster(path)]
    return _LOAD.format(name=_DEFAULT.name, file=shlex.quote(str(found[-1]))) if found else ""


def _has_cluster(dump: Path) -> bool:
    """Return whether a dump has a cluster. Its table is one of the first, so little of a large dump is read."""
    with contextlib.suppress(OSError, EOFError, zlib.error), gzip.open(dump) as stream:
        before = b""
        while block := stream.read(_BLOCK):
            if _CLUSTER in before + block:
                return True
            before = block[-len(_CLUSTER) :]
    return False
