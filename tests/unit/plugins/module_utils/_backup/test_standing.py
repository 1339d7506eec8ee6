# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The clusters that the database has, and its newest backup."""

from __future__ import annotations

import gzip
import json
import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._backup import database, standing
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host

if t.TYPE_CHECKING:
    from pathlib import Path

HERE = "StorageHost=localhost\nStorageLoc=slurm_acct_db\n"
DOWN = "ERROR 2002 (HY000): Can't connect to local server through socket '/run/mysqld/mysqld.sock' (2)"
NO_DATABASE = "ERROR 1049 (42000): Unknown database 'slurm_acct_db'"
NO_TABLE = "ERROR 1146 (42S02) at line 1: Table 'slurm_acct_db.cluster_table' doesn't exist"


class Machine(Host):
    """A machine of the database, whose client answers as it is told."""

    def __init__(
        self, answer: tuple[int, str, str] = (0, "", ""), conf: str = HERE, folders: t.Sequence[str] = ()
    ) -> None:
        super().__init__(self.client)
        self.answer = answer
        self.folders = folders
        self.files = {database.CONFIG: conf}
        self.given = ""

    def client(self, args: t.Sequence[str], data: str) -> tuple[int, str, str]:
        assert "password" not in " ".join(args)
        self.given = data
        return self.answer

    def read(self, path: str) -> str:
        return self.files.get(path, "")

    def entries(self, path: str) -> list[str] | None:
        return [] if path in self.folders else None


@pytest.mark.parametrize(
    ("answer", "names"),
    [
        ((0, "gpucluster\nanother\n", ""), ["gpucluster", "another"]),
        ((0, "", ""), []),
        ((1, "", NO_DATABASE), []),
        ((1, "", NO_TABLE), []),
        ((1, "", DOWN), []),
        ((127, "", "mariadb cannot be started"), []),
    ],
)
def test_what_the_database_lists(answer: tuple[int, str, str], names: list[str]) -> None:
    assert standing.clusters(Machine(answer)) == (names, "")
    assert standing.clusters(Machine(answer, conf="")) == (names, "")


@pytest.mark.parametrize("answer", [(1, "", DOWN), (124, "", "late")])
def test_a_database_that_exists_and_does_not_answer_is_unknown(answer: tuple[int, str, str]) -> None:
    names, reason = standing.clusters(Machine(answer, folders=["/var/lib/mysql/slurm_acct_db"]))

    assert names is None
    assert reason == f"mariadb exited {answer[0]}: {answer[2]}"


def test_a_database_elsewhere_is_asked_with_its_credentials_and_is_unknown_without_an_answer() -> None:
    machine = Machine((1, "", "ERROR 2003 (HY000)"), "StorageHost=db9\nStoragePass=secret\nStorageLoc=acct\n")

    assert standing.clusters(machine).names is None
    assert 'host="db9"' in machine.given
    assert "secret" in machine.given


def test_a_database_elsewhere_is_unknown_on_a_new_machine_of_slurmdbd() -> None:
    assert standing.clusters(Machine(conf=""), here=False) == (None, "/etc/slurm/slurmdbd.conf is missing")


def test_an_odd_name_is_unknown() -> None:
    assert standing.clusters(Machine(conf="StorageLoc=a;b\n")).names is None


def write_dump(path: Path, text: str = "INSERT INTO `cluster_table` VALUES (1);\n") -> None:
    with gzip.open(path, "wt") as stream:
        stream.write("CREATE TABLE `acct_table` (a int);\n" + text)


def test_the_newest_backup_with_a_cluster_is_named(tmp_path: Path) -> None:
    for day in (24, 25, 26, 27):
        (tmp_path / f"202611{day}T020000Z").mkdir()
        (tmp_path / f"202611{day}T020000Z/manifest.json").touch()
    write_dump(tmp_path / "20261124T020000Z/database.sql.gz")
    (tmp_path / "20261125T020000Z/state.tar.gz").touch()
    # Nights after the database was lost, and a dump that was cut.
    write_dump(tmp_path / "20261126T020000Z/database.sql.gz", "")
    (tmp_path / "20261127T020000Z/database.sql.gz").write_bytes(b"\x1f\x8b\x08")
    write_dump(tmp_path / "slurm_acct_db-20261125T030000Z.sql.gz")
    machine = Machine()
    machine.files[standing.SETTINGS] = json.dumps({"directory": str(tmp_path)})

    command = "gpucluster-backup restore 20261124T020000Z --part database"
    assert standing.restore_command(machine, str(tmp_path), ["another"]) == command
    assert standing.restore_command(machine, str(tmp_path), []) == f"{command} --no-save"


def test_without_backups_it_is_the_newest_dump_or_nothing(tmp_path: Path) -> None:
    machine = Machine()
    machine.files[standing.SETTINGS] = json.dumps({"directory": str(tmp_path / "none")})
    assert standing.restore_command(machine, str(tmp_path), []) == ""
    assert not (tmp_path / "none").exists()

    for day in (24, 25):
        write_dump(tmp_path / f"slurm_acct_db-202611{day}T030000Z.sql.gz")
    write_dump(tmp_path / "slurm_acct_db-20261126T030000Z.sql.gz", "")

    file = tmp_path / "slurm_acct_db-20261125T030000Z.sql.gz"
    assert f" && zcat {file} | mariadb slurm_acct_db && " in standing.restore_command(machine, str(tmp_path), [])


def test_a_backup_that_others_can_change_is_not_named_and_stops_nobody(tmp_path: Path) -> None:
    (tmp_path / "backups").mkdir()
    (tmp_path / "backups").chmod(0o775)
    machine = Machine()
    machine.files[standing.SETTINGS] = json.dumps({"directory": str(tmp_path / "backups")})

    assert standing.restore_command(machine, str(tmp_path), ["lab"]) == ""
