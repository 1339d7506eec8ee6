# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A daemon that does not come up says why, and what to do in the states that we know."""

from __future__ import annotations

import json
import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import journal
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host

if t.TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

CUT = "slurmctld: fatal: Incomplete node data checkpoint file, start with '-i' to ignore this"
SYSTEMD = "slurmctld.service: Main process exited, code=exited, status=1/FAILURE"


class FakeHost(Host):
    """A host with a journal for each unit, and files."""

    def __init__(self, files: Mapping[str, str] | None = None, **journals: str) -> None:
        super().__init__(self._act)
        self._journals = journals
        self._files = files or {}

    def read(self, path: str) -> str:
        return self._files.get(path, "")

    def _act(self, args: Sequence[str]) -> tuple[int, str, str]:
        assert args[0] == "journalctl"
        unit = args[-1].partition("=")[2]
        return (0, self._journals[unit], "") if unit in self._journals else (1, "", "no")


def backups(folder: Path, *names: str) -> FakeHost:
    """Return a host whose slurmctld has a cut state file, with complete backups of these names."""
    for name in names:
        (folder / name).mkdir()
        (folder / name / "manifest.json").touch()
    (folder / "20990101T000000Z").mkdir()  # not complete
    (folder / ".partial-20990101T000000Z").mkdir()
    files = {"/etc/gpucluster/backup.json": json.dumps({"directory": str(folder)})}
    return FakeHost(files, slurmctld=f"{CUT}\n{SYSTEMD}\n")


def test_the_last_lines_are_those_of_the_daemon_and_not_too_many() -> None:
    text = journal.why("slurmd", FakeHost(slurmd="\n".join(f"line {number}" for number in range(90))))

    assert text.splitlines()[0] == "The last lines of the journal of slurmd:"
    assert [line.strip() for line in text.splitlines()[1:]] == [f"line {number}" for number in range(70, 90)]


@pytest.mark.parametrize("host", [FakeHost(), FakeHost(slurmd="\n")])
def test_without_a_journal_the_message_names_it(host: FakeHost) -> None:
    assert journal.why("slurmd", host) == "'journalctl -u slurmd' there says more."


def test_a_cut_state_file_names_the_newest_backup_and_what_each_way_loses(tmp_path: Path) -> None:
    text = journal.why("slurmctld", backups(tmp_path, "20261124T010000Z", "20261125T010000Z"))

    assert CUT in text
    assert "'gpucluster-backup restore 20261125T010000Z --part state'" in text
    assert "jobs since then are lost" in text
    assert "loses the states of nodes: who drained a node and why" in text
    assert "SLURMCTLD_OPTIONS=-i > /etc/default/slurmctld" in text


@pytest.mark.parametrize(
    ("line", "lost"),
    [
        ("fatal: Incomplete job state save file, start with '-i' to ignore this", "all jobs, pending and running"),
        ("fatal: Incomplete partition data checkpoint file, start with '-i' to ignore this", "changed in partitions"),
        ("fatal: Incomplete reservation data checkpoint file, start with '-i' to ignore this", "all reservations"),
        ("fatal: Incomplete trigger data checkpoint file, start with '-i' to ignore this", "all triggers"),
        ("fatal: ... Start with '-i' to ignore this error and kill the afflicted jobs.", "the jobs whose files are"),
        ("fatal: Incomplete wonder, start with '-i' to ignore this", "what this file had"),
    ],
)
@pytest.mark.parametrize("config", ["", "{", "[]", "{}", '{"directory": "/nowhere"}'])
def test_without_a_backup_the_message_says_so(line: str, lost: str, config: str) -> None:
    text = journal.why("slurmctld", FakeHost({"/etc/gpucluster/backup.json": config}, slurmctld=line))

    assert "there is no backup on this machine" in text
    assert lost in text


@pytest.mark.parametrize(
    ("unit", "line", "step"),
    [
        (
            "slurmctld",
            "fatal: Can not recover node state, data version incompatible, start with '-i' to ignore this",
            "the state files are those of a release that this slurmctld does not read",
        ),
        ("slurmctld", "fatal: CLUSTER NAME MISMATCH.", "set slurm_cluster_name"),
        ("mariadb", "[ERROR] mariadbd: Disk is full writing './x' (Errcode: 28)", "the disk is full"),
        ("mariadb", "[ERROR] Can't init tc log", "tc.log"),
        ("munge", 'munged: Error: Keyfile is insecure: invalid ownership of "/etc/munge/munge.key"', "only root and"),
        ("slurmd", "error: Munge decode failed: Expired credential", "the clocks of the machines differ"),
        ("slurmd", "error: Munge decode failed: Invalid credential", "the munge keys of the machines differ"),
        ("slurmctld", "error: If munged is up, restart with --num-threads=10", "munge does not run"),
        ("slurmdbd", "error: mysql_real_connect failed: 1045 Access denied for user 'slurm'@'localhost'", "database"),
        ("slurmd", "fatal: Unable to determine this slurmd's NodeName", "the host name of the machine is no name"),
        (
            "slurmd",
            "error: fetch_config: failed\nerror: failed to load configs",
            "gets no configuration",
        ),
    ],
)
def test_states_that_we_know_have_a_next_step(unit: str, line: str, step: str) -> None:
    text = journal.why(unit, FakeHost(None, **{unit: f"{line}\n{SYSTEMD}\n"}))

    assert f"Next step: {step}" in text or step in text.partition("Next step: ")[2]


@pytest.mark.parametrize("said", ["fatal: x, start with '-i' to ignore this", "fatal: CLUSTER NAME MISMATCH"])
def test_text_of_a_user_in_the_journal_chooses_no_step(said: str) -> None:
    """Both steps lose jobs where they are wrong, and slurmctld writes names that users choose."""
    text = f"error: _part_access_check: invalid partition specified: {said}"

    assert "Next step" not in journal.why("slurmctld", FakeHost(slurmctld=text))
    assert "Next step" in journal.why("slurmctld", FakeHost(slurmctld=f"slurmctld: {said}"))


def test_a_state_of_another_daemon_and_an_unknown_line_have_none() -> None:
    assert "Next step" not in journal.why("slurmd", FakeHost(slurmd=CUT))
    assert "Next step" not in journal.why("slurmd", FakeHost(slurmd="error: something new"))


def test_the_newest_state_counts() -> None:
    lines = "error: Munge decode failed: Expired credential\nfatal: Unable to determine this slurmd's NodeName\n"

    assert "the host name of the machine" in journal.why("slurmd", FakeHost(slurmd=lines))
