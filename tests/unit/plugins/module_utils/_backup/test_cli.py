# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Backups and restores, with real files and tar, and a database that is a stand-in."""

from __future__ import annotations

import contextlib
import gzip
import itertools
import json
import os
import shutil
import socket
import subprocess
import time
import typing as t
from pathlib import Path

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._backup import cli, database, directory, store
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import bounded_run
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.trusted_directory import UntrustedDirectoryError
from ansible_collections.hpcai.gpucluster.tests.patience import PATIENCE

THIEF = 4321
# A user who may write the parent of the backups puts a directory with own files in their place while the program runs.
STEAL = """
set -e
partial=backups/.partial-20261123T120000Z
mv backups former
mkdir --mode=0777 backups
mkdir --mode=0777 $partial
touch $partial/database.sql.gz $partial/state.tar.gz $partial/paths.tar.gz
chmod 0666 $partial/*
"""
NOON = 1_795_435_200  # 2026-11-23 12:00 UTC


class Machine(Host):
    """A machine whose bash is a database, and whose systemctl knows the running units."""

    def __init__(self) -> None:
        super().__init__(self.answer)
        self.conf = "StorageHost=localhost\nStorageLoc=slurm_acct_db\n"
        self.records = "alice"
        self.running: list[str] = []
        self.controllers: tuple[int, str, str] = (0, f"Slurmctld(primary) at {socket.gethostname()} is UP\n", "")
        self.silent = False
        self.before: dict[str, t.Callable[[], None]] = {}
        self.refused = ""
        self.given: list[str] = []
        self.broken = False

    def read(self, path: str) -> str:
        return self.conf if path == database.CONFIG else super().read(path)

    def systemctl(self, verb: str, unit: str) -> tuple[int, str, str]:
        if verb == "is-active" and self.silent:
            return 1, "", "Failed to connect to bus: Connection refused"
        if verb == "is-active":
            return int(unit not in self.running), "active\n" if unit in self.running else "inactive\n", ""
        if f"{verb} {unit}" == self.refused:
            return 1, "", f"Job for {unit} failed."
        {"stop": self.running.remove, "start": self.running.append}[verb](unit)
        return 0, "", ""

    def answer(self, args: list[str], data: str | None = None) -> tuple[int, str, str]:
        self.before.get(args[0], lambda: None)()
        if args[0] == "systemctl":
            return self.systemctl(args[1], args[2])
        if "scontrol" in args:
            return self.controllers
        if args[0] != "bash":
            return bounded_run.feeding_runner(PATIENCE)(args, data)
        self.given.append(data or "")
        assert "mariadb-dump" in args[-1] or "slurmdbd" not in self.running, "slurmdbd runs during the restore"
        if self.broken:
            return 1, "", "Access denied"
        file = Path(next(word for word in args[-1].split() if word.endswith("database.sql.gz")))
        if "mariadb-dump" in args[-1]:
            file.write_text(self.records)
        else:
            self.records = file.read_text()
        return 0, "", ""


class Case(t.NamedTuple):
    """A machine with a state directory, its backups, and what the program said."""

    machine: Machine
    state: Path
    store: store.Store
    said: list[str]
    backup: cli.Backup


@pytest.fixture
def case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Case:
    monkeypatch.setattr(time, "time", itertools.count(NOON, 60).__next__)
    state = tmp_path / "slurmctld"
    state.mkdir()
    (state / "job_state").write_text("job 7")
    (tmp_path / "slurm.conf").write_text("ClusterName=lab")
    paths = [str(tmp_path / "slurm.conf"), str(tmp_path / "missing")]
    settings = cli.Settings(str(tmp_path / "backups"), 2, str(state), paths)
    machine, said = Machine(), list[str]()
    return Case(machine, state, store.Store(settings.directory), said, cli.Backup(settings, machine, said.append))


def lose(case: Case) -> None:
    case.machine.records = "nobody"
    (case.state / "job_state").write_text("no jobs")
    (case.state / "new").write_text("a file that the backup does not have")


def test_a_restore_brings_back_database_and_state(case: Case) -> None:
    case.backup.run()
    (name,) = case.store.names()
    lose(case)

    assert case.backup.restore(name, [], save=True) == 0

    assert case.machine.records == "alice"
    assert {path.name: path.read_text() for path in case.state.iterdir()} == {"job_state": "job 7"}
    assert len(case.store.names()) == 2  # with what the restore replaced
    assert (case.state.parent / "slurmctld.before-restore/job_state").read_text() == "no jobs"


@pytest.mark.parametrize(("part", "records", "jobs"), [("database", "alice", "no jobs"), ("state", "nobody", "job 7")])
def test_one_part_can_be_restored(case: Case, part: str, records: str, jobs: str) -> None:
    case.backup.run()
    lose(case)
    case.backup.restore(case.store.names()[0], [part], save=False)

    assert (case.machine.records, (case.state / "job_state").read_text()) == (records, jobs)


@pytest.mark.parametrize(
    ("part", "running", "started"),
    [
        ("database", ["slurmdbd", "slurmctld"], "started slurmdbd, slurmctld"),
        ("database", ["slurmdbd"], "started slurmdbd"),
        ("database", [], "done; start slurmdbd, then slurmctld"),
        ("state", ["slurmdbd", "slurmctld"], "started slurmctld"),
        ("state", ["slurmctld"], "started slurmctld"),
    ],
)
def test_daemons_that_a_part_needs_are_stopped_and_started_with_the_database_first(
    case: Case, part: str, running: list[str], started: str
) -> None:
    case.backup.run()
    lose(case)
    case.machine.running = [*running]
    case.backup.restore(case.store.names()[0], [part], save=True)

    assert (case.machine.running, case.said[-1]) == (running, started)


def test_daemons_run_again_if_the_present_state_cannot_be_saved(case: Case) -> None:
    case.backup.run()
    case.machine.running = ["slurmctld", "slurmdbd"]
    case.machine.broken = True

    with pytest.raises(store.BackupError, match=r"Access denied$"):
        case.backup.restore(case.store.names()[0], [], save=True)
    assert sorted(case.machine.running) == ["slurmctld", "slurmdbd"]


def test_daemons_stay_stopped_after_half_a_restore(case: Case) -> None:
    case.backup.run()
    case.machine.running = ["slurmctld", "slurmdbd"]
    case.machine.broken = True

    with pytest.raises(store.BackupError, match="Access denied; slurmctld and slurmdbd stay stopped"):
        case.backup.restore(case.store.names()[0], [], save=False)
    assert case.machine.running == []


def test_nothing_is_restored_if_a_daemon_does_not_stop(case: Case) -> None:
    case.backup.run()
    lose(case)
    case.machine.running = ["slurmctld", "slurmdbd"]
    case.machine.refused = "stop slurmdbd"

    with pytest.raises(store.BackupError, match="systemctl stop slurmdbd failed: Job for slurmdbd failed"):
        case.backup.restore(case.store.names()[0], [], save=False)
    assert case.machine.records == "nobody"
    assert sorted(case.machine.running) == ["slurmctld", "slurmdbd"]


def test_another_controller_that_runs_is_named(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "control")
    case.backup.run()
    lose(case)
    case.machine.running = ["slurmctld"]
    both = "Slurmctld(primary) at control is UP\nSlurmctld(backup) at gpu4.example.com is UP\n"
    case.machine.controllers = (0, both, "")

    with pytest.raises(store.BackupError, match=r"stop slurmctld on gpu4\.example\.com first"):
        case.backup.restore(case.store.names()[0], [], save=False)
    assert (case.machine.records, case.machine.running) == ("nobody", ["slurmctld"])
    case.backup.restore(case.store.names()[0], ["database"], save=False)
    assert case.said[-1].startswith("restart slurmctld on gpu4.example.com,")


STARS = "*****************************************\n"
BANNER = f"{STARS}** RESTORE SLURMCTLD DAEMON TO SERVICE **\n{STARS}"


@pytest.mark.parametrize(
    "answer",
    [
        (1, f"Slurmctld(primary) at control is DOWN\n{BANNER}", ""),
        (1, f"Slurmctld(primary) at control is DOWN\nSlurmctld(backup) at gpu4 is DOWN\n{BANNER}", ""),
        (0, f"Slurmctld(primary) at control is UP\nSlurmctld(backup) at gpu4 is DOWN\n{BANNER}", ""),
    ],
)
def test_a_restore_needs_no_controller_that_runs(
    case: Case, monkeypatch: pytest.MonkeyPatch, answer: tuple[int, str, str]
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "control")
    case.backup.run()
    lose(case)
    case.machine.controllers = answer
    case.backup.restore(case.store.names()[0], [], save=False)

    assert (case.state / "job_state").read_text() == "job 7"


NOT_TOLD = [
    (1, "", "scontrol: fatal: Could not establish a configuration source"),
    (124, "", "scontrol did not answer"),
    (127, "", "scontrol cannot be started"),
    (0, "", ""),
    (0, "Slurmctld(primary) at control is STANDBY\n", ""),
    (0, "Slurmctld(primary) at control is UP\nSlurmctld(backup) at gpu4 answers\n", ""),
    (0, '{"pings": []}\n', ""),
    (2, "Slurmctld(primary) at control is UP\n", "Segmentation fault"),
]


@pytest.mark.parametrize("answer", NOT_TOLD)
def test_nothing_is_restored_if_slurm_does_not_tell_which_controllers_run(
    case: Case, answer: tuple[int, str, str]
) -> None:
    case.backup.run()
    lose(case)
    case.machine.running = ["slurmctld", "slurmdbd"]
    case.machine.controllers = answer
    (name,) = case.store.names()

    with pytest.raises(store.BackupError, match="'scontrol ping' does not tell which controllers run"):
        case.backup.restore(name, [], save=False)
    assert (case.machine.records, (case.state / "job_state").read_text()) == ("nobody", "no jobs")
    assert case.machine.running == ["slurmctld", "slurmdbd"]
    case.backup.restore(name, [], save=False, alone=True)
    assert case.machine.records == "alice"


def test_a_machine_without_commands_of_slurm_restores_its_database(case: Case) -> None:
    case.backup.run()
    lose(case)
    case.machine.controllers = (127, "", "scontrol cannot be started")
    case.backup.restore(case.store.names()[0], ["database"], save=False)

    assert case.machine.records == "alice"


def test_nothing_is_restored_if_systemd_does_not_tell_whether_a_daemon_runs(case: Case) -> None:
    case.backup.run()
    lose(case)
    case.machine.running = ["slurmctld", "slurmdbd"]
    case.machine.silent = True

    with pytest.raises(store.BackupError, match="'systemctl is-active slurmctld' does not tell whether it runs"):
        case.backup.restore(case.store.names()[0], [], save=False)
    assert case.machine.records == "nobody"


def test_a_damaged_backup_is_not_restored(case: Case) -> None:
    case.backup.run()
    (name,) = case.store.names()
    with (case.store.directory / name / cli.STATE).open("ab") as stream:
        stream.write(b"x")
    lose(case)

    with pytest.raises(store.BackupError, match=r"state\.tar\.gz is missing or damaged"):
        case.backup.restore(name, [], save=False)
    assert case.machine.records == "nobody"


def test_an_incomplete_backup_has_no_name_and_removes_none(case: Case) -> None:
    case.backup.run()
    case.backup.run()
    before = case.store.names()
    case.machine.broken = True

    with pytest.raises(store.BackupError, match="Access denied"):
        case.backup.run()
    assert case.store.names() == before


def test_the_newest_are_kept_and_leftovers_go(case: Case) -> None:
    for _turn in range(4):
        case.backup.run()
    (case.store.directory / ".partial-20261122T000000Z").mkdir()
    case.backup.run()

    assert len(case.store.names()) == 2
    assert sorted(path.name for path in case.store.directory.iterdir()) == case.store.names()


def test_two_backups_in_one_second_have_names(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: NOON + 0.5)
    case.backup.run()
    lose(case)
    case.backup.restore("20261123T120000Z", (), save=True)

    assert case.machine.records == "alice"
    assert case.store.names() == ["20261123T120000Z", "20261123T120001Z"]


def test_a_backup_after_the_clock_was_set_back_is_the_newest(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    case.backup.run()
    case.backup.run()
    monkeypatch.setattr(time, "time", lambda: NOON - 3600)
    case.backup.run()

    assert case.store.names() == ["20261123T120100Z", "20261123T120101Z"]


def test_only_root_can_read_a_backup(case: Case) -> None:
    case.backup.run()
    directory = case.store.directory / case.store.names()[0]
    assert {path.name: path.stat().st_mode & 0o077 for path in directory.iterdir()} == dict.fromkeys(
        (cli.DATABASE, cli.STATE, cli.PATHS, store.MANIFEST), 0
    )

    assert case.store.directory.stat().st_mode & 0o077 == 0
    assert directory.stat().st_mode & 0o077 == 0
    assert set(json.loads((directory / store.MANIFEST).read_text())) == {cli.DATABASE, cli.STATE, cli.PATHS}


@pytest.mark.skipif(os.geteuid() != 0, reason="plays another user")
@pytest.mark.parametrize("mode", [0o2775, 0o777])
def test_another_user_gets_nothing_of_a_backup(case: Case, tmp_path: Path, mode: int) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    os.chown(shared, -1, THIEF)
    shared.chmod(mode)

    def steal() -> None:
        case.machine.before.clear()
        subprocess.run(
            ["sh", "-c", STEAL], cwd=shared, user=THIEF, group=THIEF, extra_groups=[], check=True, timeout=PATIENCE
        )

    case.machine.before["bash"] = steal
    with contextlib.suppress(UntrustedDirectoryError):
        cli.Backup(cli.Settings(str(shared / "backups"), 2, str(case.state), []), case.machine, print).run()
    assert [path for path in shared.rglob("*.gz") if path.stat().st_uid == THIEF and path.stat().st_size] == []
    assert not list(shared.rglob("*.gz"))


@pytest.mark.parametrize("command", [["run"], ["list"], ["restore", "20261123T120000Z"]])
def test_no_command_uses_a_directory_that_others_can_write(
    case: Case,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: list[str],
) -> None:
    shared = tmp_path / "shared"
    case.backup.run()
    case.store.directory.rename(shared)
    shared.chmod(0o2770)
    config = tmp_path / "backup.json"
    config.write_text(json.dumps(cli.Settings(str(shared), 2, str(case.state), [])._asdict()))
    monkeypatch.setattr(cli, "CONFIG", str(config))

    assert cli.main(command) == 1
    said = capsys.readouterr()
    assert f"gpucluster-backup: {shared} is no safe place: {shared} has the mode 2770" in said.err
    assert said.out == ""
    assert not list(shared.glob(".*"))


def test_a_state_directory_that_others_can_replace_is_not_restored(case: Case) -> None:
    case.backup.run()
    case.machine.running = ["slurmctld"]
    case.state.parent.chmod(0o777)
    lose(case)

    with pytest.raises(UntrustedDirectoryError, match="has the mode 0777"):
        case.backup.restore(case.store.names()[0], ["state"], save=False)
    assert ((case.state / "job_state").read_text(), case.machine.running) == ("no jobs", ["slurmctld"])


def test_a_state_directory_below_a_sticky_one_is_restored(case: Case) -> None:
    """Two controllers share it below /shared, in which users make directories that cannot replace those of others."""
    case.backup.run()
    case.state.parent.chmod(0o3775)
    lose(case)

    assert case.backup.restore(case.store.names()[0], ["state"], save=False) == 0
    assert (case.state / "job_state").read_text() == "job 7"


def test_a_machine_with_nothing_to_save_fails(case: Case, tmp_path: Path) -> None:
    case.machine.conf = ""
    settings = cli.Settings(str(tmp_path / "none"), 1, "", [])

    with pytest.raises(store.BackupError, match="nothing to save"):
        cli.Backup(settings, case.machine, print).run()


def test_an_unknown_name_is_refused_with_those_that_exist(case: Case) -> None:
    case.backup.run()

    with pytest.raises(store.BackupError, match=case.store.names()[0]):
        case.backup.restore("../../etc", [], save=False)


def test_a_database_elsewhere_gets_the_password_by_standard_input(case: Case) -> None:
    case.machine.conf = (
        'StorageHost=db1\nStorageUser=slurm\n#StoragePass=old\nStoragePass="se\\cret"\nStoragePort=3307\n'
    )
    case.backup.run()

    assert case.machine.given == ['[client]\nhost="db1"\nport=3307\nuser="slurm"\npassword="se\\\\cret"\n']


def test_a_restore_that_is_killed_leaves_no_credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for mariadb notes its options and the files of the moment, in which kill -9 would leave them."""
    for name in ("bin", "tmp"):
        (tmp_path / name).mkdir()
    seen = tmp_path / "seen"
    client = tmp_path / "bin/mariadb"
    client.write_text(
        f'#!/bin/sh\ncat "${{1#*=}}" >> {seen}\nls -A "$TMPDIR" >> {seen}\n[ "$2" != lab ] || cat >> {seen}\n'
    )
    client.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    dump = tmp_path / "database.sql.gz"
    dump.write_bytes(gzip.compress(b"records\n"))

    database.load(database.Database("lab", "[client]\n"), dump, Host(bounded_run.feeding_runner(PATIENCE)))

    assert seen.read_text() == "[client]\n[client]\nrecords\n"


def test_a_name_that_is_no_name_is_refused(case: Case) -> None:
    case.machine.conf = "StorageLoc=x; rm -rf /\n"

    with pytest.raises(store.BackupError, match="StorageLoc"):
        case.backup.run()


def test_two_runs_at_once_are_refused(tmp_path: Path) -> None:
    with cli._alone(str(tmp_path)), pytest.raises(store.BackupError, match="another run"):
        cli._alone(str(tmp_path))
    # Who can read a file can lock it.
    assert (tmp_path / ".lock").stat().st_mode & 0o777 == 0o600


def test_backups_of_an_empty_state_directory_push_out_no_other(case: Case) -> None:
    """As if its storage was not mounted for some nights."""
    assert case.backup.run() == 0
    first = case.store.names()[0]
    (case.state / "job_state").unlink()

    for _night in range(4):
        assert case.backup.run() == 1
    assert first in case.store.names()
    assert f"because {case.state} is empty" in case.said[-1]


def test_the_state_of_elastic_nodes_is_in_no_backup_and_stays_in_a_restore(case: Case) -> None:
    """An old one would name machines that other nodes have by now. Archives of earlier releases have one."""
    elastic = case.state / "elastic"
    elastic.mkdir()
    (elastic / "state.json").write_text("old")
    case.backup.run()
    (name,) = case.store.names()
    archive = case.store.files(name)[cli.STATE]
    assert "elastic" not in subprocess.run(["tar", "-tzf", archive], check=True, capture_output=True, text=True).stdout

    subprocess.run(["tar", "-czf", archive, "-C", case.state, "."], check=True)
    sums = json.loads((archive.parent / store.MANIFEST).read_text())
    (archive.parent / store.MANIFEST).write_text(json.dumps({**sums, cli.STATE: store.digest(archive)}))
    (elastic / "state.json").write_text("present")
    before = elastic.stat().st_ino
    case.backup.restore(name, ["state"], save=False)

    assert ((elastic / "state.json").read_text(), elastic.stat().st_ino) == ("present", before)


@pytest.mark.parametrize("killed_at", [1, 2])
@pytest.mark.parametrize("again", ["run", "restore"])
def test_a_restore_that_was_killed_loses_no_state(
    case: Case, monkeypatch: pytest.MonkeyPatch, killed_at: int, again: str
) -> None:
    """Between its last steps, nothing has the name of the state directory."""
    (case.state / "elastic").mkdir()
    case.backup.run()
    (name,) = case.store.names()
    lose(case)
    (case.state / "elastic/state.json").write_text("present")
    left, real = iter(range(killed_at)), Path.rename
    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", lambda path, to: real(path, to) if next(left, None) is not None else 1 / 0)
        with pytest.raises(ZeroDivisionError):
            case.backup.restore(name, ["state"], save=False)
    assert not case.state.exists()

    if again == "run":
        assert case.backup.run() == 0
        assert (case.state / "job_state").read_text() == "no jobs"
    else:
        case.backup.restore(name, ["state"], save=False)
        assert (case.state / "job_state").read_text() == "job 7"
        assert (case.state.parent / "slurmctld.before-restore/job_state").read_text() == "no jobs"
    assert (case.state / "elastic/state.json").read_text() == "present"


def test_a_state_that_was_removed_after_a_restore_does_not_come_back(case: Case) -> None:
    case.backup.run()
    (name,) = case.store.names()
    case.backup.restore(name, ["state"], save=False)
    assert (case.state.parent / "slurmctld.before-restore").is_dir()
    shutil.rmtree(case.state)

    directory.undo(str(case.state))

    assert not case.state.exists()
