# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A daemon is started or restarted for what is true of it, whoever made it so."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import daemon
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host

if t.TYPE_CHECKING:
    from collections.abc import Sequence

BOOT = 1_700_000_000.0
# systemctl show of systemd 257 (Debian 13), for a slurmd that systemd began to start 50 s after the boot.
RUNNING = """MainPID=4711
ActiveState=active
UnitFileState=enabled
InactiveExitTimestampMonotonic=50000000
NeedDaemonReload=no
LoadState=loaded
"""


class FakeHost(Host):
    """A host with one daemon, which writes down what it is told."""

    def __init__(self, show: str = RUNNING, program: str = "/usr/sbin/slurmd", **files: float) -> None:
        super().__init__(self._act)
        self.show = show
        self.calls: list[str] = []
        self.fails = ""
        self._program = program
        self._times = {f"/etc/{name}": BOOT + seconds for name, seconds in files.items()}

    def changed_at(self, path: str) -> float:
        return self._times.get(path, 0.0)

    def program(self, pid: str) -> str:
        return self._program if pid == "4711" else ""

    def boot_clock(self) -> float:
        return BOOT

    def _act(self, args: Sequence[str]) -> tuple[int, str, str]:
        if args[1] == "show":
            return 0, self.show, ""
        if args[0] == "journalctl":
            return 0, "slurmd: fatal: Unable to determine this slurmd's NodeName\n", ""
        self.calls.append(" ".join(args[1:]))
        return (1, "", "Job for slurmd.service failed.") if args[1] == self.fails else (0, "", "")

    def bring(self, *files: str) -> daemon.Plan:
        wanted = daemon.plan(daemon.status("slurmd", self), files, self)
        daemon.apply("slurmd", wanted, self)
        return wanted


def test_a_daemon_that_is_as_it_should_be_is_left_alone() -> None:
    fake = FakeHost(slurmd=49.9)

    assert not fake.bring("/etc/slurmd").changes
    assert fake.calls == []


def test_a_file_that_was_changed_after_the_start_restarts_it() -> None:
    fake = FakeHost(slurmd=50.1)

    assert fake.bring("/etc/slurmd").reasons == ["/etc/slurmd was changed"]
    assert fake.calls == ["restart slurmd"]


def test_a_file_that_is_not_there_does_not_restart_it() -> None:
    assert not FakeHost().bring("/etc/missing").changes


def test_a_replaced_program_restarts_it() -> None:
    fake = FakeHost(program="/usr/sbin/slurmd (deleted)")

    assert fake.bring().reasons == ["/usr/sbin/slurmd was replaced"]
    assert fake.calls == ["restart slurmd"]


@pytest.mark.parametrize("state", ["inactive", "failed", "activating", "deactivating"])
def test_what_does_not_run_is_started(state: str) -> None:
    fake = FakeHost(RUNNING.replace("=active", f"={state}"), slurmd=60)

    assert fake.bring("/etc/slurmd").action == "start"
    assert fake.calls == ["start slurmd"]


def test_a_daemon_that_just_reads_its_configuration_is_not_started_again() -> None:
    assert not FakeHost(RUNNING.replace("=active", "=reloading")).bring().changes


def test_it_is_enabled_for_the_next_boot() -> None:
    fake = FakeHost(RUNNING.replace("=enabled", "=disabled"))

    assert fake.bring().changes
    assert fake.calls == ["enable slurmd"]


def test_a_changed_unit_is_read_and_nothing_more() -> None:
    fake = FakeHost(RUNNING.replace("Reload=no", "Reload=yes"))

    assert not fake.bring().changes
    assert fake.calls == ["daemon-reload"]


def test_a_unit_that_is_not_there_is_missing_and_counts_as_one_to_start() -> None:
    fake = FakeHost("LoadState=not-found\nActiveState=inactive\nUnitFileState=\nMainPID=0\nNeedDaemonReload=no\n")
    found = daemon.status("slurmd", fake)

    assert daemon.is_missing(found)
    assert daemon.plan(found, [], fake).action == "start"


def test_a_failed_start_brings_the_end_of_the_log() -> None:
    fake = FakeHost(RUNNING.replace("=active", "=failed"))
    fake.fails = "start"

    with pytest.raises(daemon.DaemonError, match=r"(?s)systemctl start slurmd: Job for .*\n.*NodeName.*Next step: "):
        fake.bring()


def test_a_failure_that_is_no_units_has_no_log() -> None:
    fake = FakeHost(RUNNING.replace("NeedDaemonReload=no", "NeedDaemonReload=yes"))
    fake.fails = "daemon-reload"

    with pytest.raises(daemon.DaemonError, match=r"^systemctl daemon-reload: Job for slurmd.service failed.$"):
        fake.bring("/etc/slurmd")
