# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Save and restore the database of slurmdbd, with the credentials of slurmdbd.conf and without showing them."""

from __future__ import annotations

import shlex
import socket
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.trusted_directory import new_file

from .store import BackupError

if t.TYPE_CHECKING:
    from pathlib import Path

    from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host

CONFIG = "/etc/slurm/slurmdbd.conf"
_HERE = ("localhost", "127.0.0.1", "::1")
_CREDENTIALS = "--defaults-extra-file=/dev/stdin"
# The last line proves that the dump is complete.
_DUMP = (
    "set -o pipefail; umask 077;"
    " mariadb-dump {credentials} --single-transaction --no-tablespaces {name} | gzip > {file}"
    " && gzip --decompress --stdout {file} | tail --bytes=200 | grep --quiet 'Dump completed'"
)
# Both calls open the credentials anew. They are in no file of a disk, which a killed restore would leave behind.
_LOAD = (
    "set -o pipefail; exec 3<&0;"
    " mariadb --defaults-extra-file=/dev/fd/3 --execute='DROP DATABASE IF EXISTS {name}; CREATE DATABASE {name}'"
    " && gzip --decompress --stdout {file} | mariadb --defaults-extra-file=/dev/fd/3 {name}"
)


class Database(t.NamedTuple):
    """The database of slurmdbd: its name, and the options of a client that may read and write it."""

    name: str
    client: str


def find(host: Host) -> Database | None:
    """Return the database of this machine's slurmdbd, or None if the machine has no slurmdbd."""
    lines = [line.strip() for line in host.read(CONFIG).splitlines()]
    pairs = [line.split("=", 1) for line in lines if "=" in line and not line.startswith("#")]
    values = {key.strip().lower(): value.strip().strip('"') for key, value in pairs}
    if not values:
        return None
    name, server = values.get("storageloc", "slurm_acct_db"), values.get("storagehost", "localhost")
    if not name.replace("_", "").isalnum():
        raise BackupError(f"{CONFIG}: StorageLoc is {name!r}; this program accepts letters, digits and _")
    return Database(name, "[client]\n" if server in (*_HERE, socket.gethostname()) else _remote(server, values))


def save(database: Database, file: Path, host: Host) -> None:
    """Write a compressed dump. Raise BackupError if it is incomplete."""
    new_file(file)
    _bash(_DUMP.format(credentials=_CREDENTIALS, name=database.name, file=shlex.quote(str(file))), database, host)


def load(database: Database, file: Path, host: Host) -> None:
    """Replace the database with a dump."""
    _bash(_LOAD.format(name=database.name, file=shlex.quote(str(file))), database, host)


def _remote(server: str, values: dict[str, str]) -> str:
    password = values.get("storagepass", "").replace("\\", "\\\\")
    options = {
        "host": f'"{server}"',
        "port": values.get("storageport", "3306"),
        "user": f'"{values.get("storageuser", "slurm")}"',
        **({"password": f'"{password}"'} if password else {}),
    }
    return "[client]\n" + "".join(f"{key}={value}\n" for key, value in options.items())


def _bash(script: str, database: Database, host: Host) -> None:
    code, out, err = host.run(["bash", "-c", script], database.client)
    if code:
        raise BackupError(f"database {database.name}: {err.strip() or out.strip() or f'status {code}'}")
