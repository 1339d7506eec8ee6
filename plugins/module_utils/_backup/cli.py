# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""The program gpucluster-backup: a timer runs it, and an administrator lists and restores backups with it."""

from __future__ import annotations

import argparse
import fcntl
import functools
import json
import os
import sys
import time
import typing as t
from pathlib import Path

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.bounded_run import feeding_runner
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.plain_shell import forget_habits

from . import daemons, database, directory
from .store import BackupError, Store

if t.TYPE_CHECKING:
    from collections.abc import Callable, Sequence

CONFIG = "/etc/gpucluster/backup.json"
DATABASE, STATE, PATHS = "database.sql.gz", "state.tar.gz", "paths.tar.gz"
# slurmctld keeps accounts in memory, so it must start again after a restore of the database, too.
_DAEMONS = ("slurmctld", "slurmdbd")
_SECONDS = 6 * 3600  # for the dump of a large database


class Settings(t.NamedTuple):
    """What is saved, where, and how many backups are kept."""

    directory: str
    keep: int
    state_directory: str
    paths: list[str]


class Backup:
    """One run of the program."""

    def __init__(self, settings: Settings, host: Host, say: Callable[[str], None]) -> None:
        """All access to programs is injected."""
        self._settings = settings
        self._store = Store(settings.directory)
        self._host = host
        self._say = say

    def run(self) -> int:
        """Save everything, then remove old backups; return the exit status."""
        state = self._settings.state_directory
        directory.undo(state)
        name = self._save()
        if state and not [entry for entry in self._host.entries(state) or () if entry != directory.NEVER]:
            self._say(f"saved {name}; no old backup was removed, because {state} is empty: is its storage mounted?")
            return 1
        removed = self._store.prune(self._settings.keep)
        self._say(f"saved {name}" + (f", removed {', '.join(removed)}" if removed else ""))
        return 0

    def list(self) -> int:
        """Print the complete backups."""
        for name in self._store.names():
            self._say(name)
        return 0

    def restore(self, name: str, parts: Sequence[str], save: bool, alone: bool = False) -> int:
        """
        Restore database and state directory from a backup, after the present ones are saved.

        C(alone) says that slurmctld runs on no other machine, where Slurm cannot be asked.
        """
        directory.undo(self._settings.state_directory)
        files = self._store.files(name)
        wanted = [
            file for file in (DATABASE, STATE) if file in files and (not parts or file.partition(".")[0] in parts)
        ]
        if not wanted:
            raise BackupError(f"{name} has none of the wanted parts; it has: {', '.join(files)}")
        if STATE in wanted:
            directory.check_target(self._settings.state_directory)
        others = [] if alone else daemons.controllers_elsewhere(self._host, required=STATE in wanted)
        if others and STATE in wanted:
            raise BackupError(f"nothing was restored: stop slurmctld on {', '.join(others)} first")
        stopped = self._stop_and_save(_DAEMONS if DATABASE in wanted else _DAEMONS[:1], save)
        self._replace({file: files[file] for file in wanted}, stopped)
        daemons.start(stopped, self._host)
        self._say(f"started {', '.join(reversed(stopped))}" if stopped else "done; start slurmdbd, then slurmctld")
        if others:
            self._say(f"restart slurmctld on {', '.join(others)}, because it still has the former accounts")
        return 0

    def _stop_and_save(self, units: Sequence[str], save: bool) -> Sequence[str]:
        """Stop daemons, save the present state, and return those that ran. If that fails, they run again."""
        stopped = daemons.stop(units, self._host)
        try:
            if save:
                self._say(f"saved the present state as {self._save()}")
        except (BackupError, OSError):
            daemons.start(stopped, self._host)
            raise
        return stopped

    def _replace(self, files: dict[str, Path], stopped: Sequence[str]) -> None:
        """Restore files of a backup. After an error the daemons stay stopped, because the state may be incomplete."""
        try:
            for file, path in files.items():
                self._restore(file, path)
        except (BackupError, OSError) as exc:
            left = f"; {' and '.join(stopped)} stay stopped: restore again, or start them" if stopped else ""
            raise BackupError(f"{exc}{left}") from exc

    def _save(self) -> str:
        partial = self._store.begin(time.time())
        found = database.find(self._host)
        if found:
            database.save(found, partial / DATABASE, self._host)
        state = self._settings.state_directory
        if state and Path(state).is_dir():
            directory.save(state, ["."], partial / STATE, self._host)
        paths = [path.lstrip("/") for path in self._settings.paths if Path(path).exists()]
        if paths:
            directory.save("/", paths, partial / PATHS, self._host)
        return self._store.finish(partial)

    def _restore(self, file: str, path: Path) -> None:
        if file == DATABASE:
            found = database.find(self._host)
            if found is None:
                raise BackupError(f"{database.CONFIG} is missing; run site.yml first, then restore")
            database.load(found, path, self._host)
            self._say(f"restored the database {found.name}")
        else:
            former = directory.restore(self._settings.state_directory, path, self._host)
            self._say(f"restored {self._settings.state_directory}; the former one is {former}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program; return the exit status."""
    arguments = _arguments(argv)
    forget_habits()
    host = Host(feeding_runner(_SECONDS))
    try:
        settings = Settings(**json.loads(host.read_required(CONFIG)))
        backup = Backup(settings, host, print)
        if arguments.command == "list":
            return backup.list()
        with _alone(settings.directory):
            return _command(arguments, backup)
    except (BackupError, OSError, ValueError, TypeError) as exc:
        sys.stderr.write(f"gpucluster-backup: {exc}\n")
        return 1


def _command(arguments: argparse.Namespace, backup: Backup) -> int:
    if arguments.command == "restore":
        return backup.restore(
            arguments.name, arguments.part or [], not arguments.no_save, arguments.no_other_controller
        )
    return backup.run()


def _alone(where: str) -> t.IO[str]:
    """Return a lock that only one run of the program has."""
    lock = open(Path(where) / ".lock", "a", encoding="utf-8", opener=functools.partial(os.open, mode=0o600))  # noqa: SIM115
    try:
        os.fchmod(lock.fileno(), 0o600)  # who can read a file can lock it
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise BackupError("another run of this program is active") from None
    return lock


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="gpucluster-backup", description="Save and restore the state of Slurm.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("run", help="save database, state directory and files now")
    commands.add_parser("list", help="list the backups of this machine")
    restore = commands.add_parser("restore", help="restore database and state directory; the daemons stop meanwhile")
    restore.add_argument("name", help="name of the backup, as list prints it")
    restore.add_argument("--part", action="append", choices=("database", "state"), help="only this part")
    restore.add_argument("--no-save", action="store_true", help="do not save the present state before")
    restore.add_argument(
        "--no-other-controller",
        action="store_true",
        help="slurmctld runs on no other machine: needed only if scontrol ping cannot tell",
    )
    return parser.parse_args(argv)
