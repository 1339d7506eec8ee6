# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._storage.errors import StorageError
from ansible_collections.hpcai.gpucluster.plugins.module_utils._storage.nfs_mounts import PENDING, Mounts, Wanted
from ansible_collections.hpcai.gpucluster.plugins.modules.nfs_mounts import reconcile
from ansible_collections.hpcai.gpucluster.tests.unit.plugins.module_utils._storage.fake_host import FakeHost

OPTIONS = ("vers=4.2", "nconnect=8", "x-systemd.automount")
HOME = Wanted("/home", "nfs1:/home", "nfs", OPTIONS)
SHARED = Wanted("/shared", "nfs1:/shared", "nfs", OPTIONS)


def run(machine: FakeHost, *wanted: Wanted, check_mode: bool = False) -> tuple[bool, list[str]]:
    result = reconcile(Mounts(machine), list(wanted), check_mode, lambda _warning: None)
    return result["changed"], result["pending"]


def test_mounts_are_made_once() -> None:
    machine = FakeHost()

    assert run(machine, HOME, SHARED) == (True, [])
    assert set(machine.mounts) == {"/home", "/shared"}
    assert machine.armed == {"/home", "/shared"}
    machine.calls.clear()
    assert run(machine, HOME, SHARED) == (False, [])
    assert machine.calls == []


def test_check_mode_says_so_and_touches_nothing() -> None:
    machine = FakeHost()

    assert run(machine, HOME, check_mode=True) == (True, [])
    assert machine.calls == []
    assert "nfs1" not in machine.files["/etc/fstab"]


def test_a_mount_that_waits_for_its_first_use_is_no_change() -> None:
    machine = FakeHost()
    run(machine, HOME)
    machine.mounts.clear()  # as after a boot: autofs waits

    assert run(machine, HOME) == (False, [])


def test_parents_are_mounted_before_what_lies_below() -> None:
    machine = FakeHost()

    run(machine, Wanted("/shared/data", "filer:/data", "nfs", OPTIONS), SHARED)

    assert list(machine.mounts) == ["/shared", "/shared/data"]


@pytest.mark.parametrize("wanted", [[], ["noatime"]])
def test_what_lies_below_is_unmounted_before_its_parent(wanted: list[str]) -> None:
    machine = FakeHost()
    below = Wanted("/shared/data", "filer:/data", "nfs", OPTIONS)
    run(machine, SHARED, below)
    machine.calls.clear()

    run(machine, *(one._replace(options=("vers=4.2", "nconnect=4", *wanted)) for one in (SHARED, below) if wanted))

    ended = [call[-1] for call in machine.calls if "umount" in call]
    assert ended == ["/shared/data", "/shared"]


def test_what_is_no_longer_wanted_is_unmounted() -> None:
    machine = FakeHost()
    run(machine, HOME, SHARED)

    assert run(machine, HOME) == (True, [])
    assert set(machine.mounts) == {"/home"}
    assert machine.armed == {"/home"}
    assert "/shared" not in machine.files["/etc/fstab"]


def test_what_is_in_use_is_not_torn_away_and_is_tried_again() -> None:
    machine = FakeHost()
    run(machine, HOME, SHARED)
    machine.busy = {"/shared"}

    changed, pending = run(machine, HOME)
    assert not changed
    assert pending == ["/shared: no longer wanted, but in use; drain the machine and run again, or boot it"]
    assert "/shared" in machine.files["/etc/fstab"]

    machine.busy = set()
    assert run(machine, HOME) == (True, [])
    assert set(machine.mounts) == {"/home"}


def test_new_options_of_an_idle_mount_hold_at_once() -> None:
    machine = FakeHost()
    run(machine, HOME)

    changed, pending = run(machine, HOME._replace(options=("vers=4.2", "nconnect=4", "x-systemd.automount")))

    assert (changed, pending) == (True, [])
    assert "nconnect=4" in machine.mounts["/home"][2]


def test_a_flag_of_a_mount_in_use_is_remounted() -> None:
    machine = FakeHost()
    run(machine, HOME)
    machine.busy = {"/home"}

    changed, pending = run(machine, HOME._replace(options=(*OPTIONS, "noatime")))

    assert (changed, pending) == (True, [])
    assert ["mount", "-o", "remount,noatime", "nfs1:/home", "/home"] in machine.calls


def test_a_flag_that_is_no_longer_named_is_undone() -> None:
    machine = FakeHost()
    run(machine, HOME._replace(options=(*OPTIONS, "ro")))
    machine.busy = {"/home"}

    run(machine, HOME)

    assert ["mount", "-o", "remount,rw", "nfs1:/home", "/home"] in machine.calls


def test_other_options_of_a_mount_in_use_wait_until_it_is_idle() -> None:
    machine = FakeHost()
    run(machine, HOME)
    machine.busy = {"/home"}
    other = HOME._replace(options=("vers=4.2", "nconnect=4", "x-systemd.automount"))

    changed, pending = run(machine, other)
    assert changed  # fstab
    assert "/home: in use with its former options" in pending[0]
    changed, pending = run(machine, other)
    assert not changed
    assert pending

    machine.busy = set()
    assert run(machine, other) == (True, [])
    assert "nconnect=4" in machine.mounts["/home"][2]
    assert PENDING not in machine.files


def test_connections_that_another_mount_still_holds_are_told() -> None:
    machine = FakeHost()
    run(machine, HOME, SHARED)
    machine.busy = {"/home"}
    options = ("vers=4.2", "nconnect=4", "x-systemd.automount")

    _changed, pending = run(machine, HOME._replace(options=options), SHARED._replace(options=options))

    assert len(pending) == 2


def test_a_mount_point_that_is_not_empty_is_refused_before_any_change() -> None:
    machine = FakeHost()
    machine.directories["/home"] = ["azureuser"]

    with pytest.raises(StorageError, match=r"/home: the mount point is not empty, it holds azureuser;.*hide: true"):
        run(machine, SHARED, HOME)
    assert machine.calls == []


def test_a_name_that_the_server_has_too_may_be_hidden() -> None:
    machine = FakeHost()
    machine.directories["/home"] = ["azureuser"]
    machine.exports["nfs1:/home"] = ["alice", "azureuser"]

    assert run(machine, HOME._replace(hide=True)) == (True, [])
    assert list(machine.mounts) == ["/home"]


def test_a_name_that_only_this_machine_has_is_never_hidden() -> None:
    machine = FakeHost()
    machine.directories["/home"] = ["azureuser"]
    machine.exports["nfs1:/home"] = ["alice"]

    with pytest.raises(StorageError, match="would hide azureuser"):
        run(machine, HOME._replace(hide=True))
    assert machine.mounts == {}
    assert "nfs1" not in machine.files["/etc/fstab"]


def test_a_place_that_something_else_holds_is_refused() -> None:
    machine = FakeHost("/dev/sdb1 /shared ext4 defaults 0 2\n")
    with pytest.raises(StorageError, match=r"/shared: /etc/fstab mounts /dev/sdb1 \(ext4\)"):
        run(machine, SHARED)

    machine = FakeHost()
    machine.mounts["/shared"] = ("/dev/sdb1", "ext4", "rw")
    with pytest.raises(StorageError, match=r"/shared: /dev/sdb1 \(ext4\) is mounted there"):
        run(machine, SHARED)


def test_a_line_that_another_tool_wrote_is_taken_over() -> None:
    machine = FakeHost("control:/home /home nfs async,vers=3 0 0\n")
    machine.mounts["/home"] = ("control:/home", "nfs", "rw,vers=3")

    assert run(machine, HOME)[0]
    assert "async" not in machine.files["/etc/fstab"]
    assert machine.mounts["/home"][0] == "nfs1:/home"


def test_a_server_that_is_down_is_named_with_its_address_and_nothing_changes() -> None:
    machine = FakeHost()
    machine.silent = {"nfs1"}

    with pytest.raises(
        StorageError, match=r"nfs1 of /home, /shared cannot be reached within 10 s \(10.0.0.9 port 2049"
    ):
        run(machine, HOME, SHARED)
    assert "nfs1" not in machine.files["/etc/fstab"]


def test_a_server_that_is_down_is_a_warning_in_check_mode() -> None:
    machine = FakeHost()
    machine.silent = {"nfs1"}
    warnings: list[str] = []

    result = reconcile(Mounts(machine), [HOME], True, warnings.append)

    assert result["changed"]
    assert "10.0.0.9" in warnings[0]


def test_a_refused_mount_says_why_and_the_next_run_repairs_it() -> None:
    machine = FakeHost()
    machine.refused = {"/home"}
    show = ("journalctl", "--unit", "home.mount", "--lines", "4", "--output", "cat", "--no-pager")
    machine.answers[show] = (0, "mount.nfs: access denied by server while mounting nfs1:/home\n", "")

    with pytest.raises(StorageError, match=r"/home: nfs1:/home could not be mounted: mount.nfs: access denied"):
        run(machine, HOME)

    machine.refused = set()
    assert run(machine, HOME) == (True, [])


@pytest.mark.parametrize(
    ("source", "kind", "server"),
    [
        ("nfs1:/home", "nfs", "nfs1"),
        ("[fd00::4]:/home", "nfs", "fd00::4"),
        ("10.0.0.4@tcp:/lustrefs", "lustre", "10.0.0.4"),
        ("10.0.0.4@tcp,10.0.0.5@tcp:/fs", "lustre", "10.0.0.4"),
        ("mgs1@tcp:mgs2@tcp:/fs", "lustre", "mgs1"),
    ],
)
def test_the_server_of_a_source(source: str, kind: str, server: str) -> None:
    assert Wanted("/x", source, kind, ()).server == server


@pytest.mark.parametrize(
    ("source", "probed"),
    [
        ("10.0.2.6@tcp:/lustrefs", True),
        ("10.0.2.6@tcp1:10.0.2.7@tcp1:/lustrefs", True),
        ("10.0.2.6:/lustrefs", True),
        ("10.0.2.6@o2ib:/lustrefs", False),
        ("10.0.2.6@o2ib1,10.0.3.6@tcp:/lustrefs", False),
    ],
)
def test_lustre_is_probed_only_where_it_speaks_tcp(source: str, probed: bool) -> None:
    machine = FakeHost()
    machine.silent = {"10.0.2.6"}

    fault = Mounts(machine).unreachable([Wanted("/lustre", source, "lustre", ("flock",))])

    assert ("10.0.2.6 of /lustre" in fault) is probed


def test_no_unmount_waits_for_a_dead_server() -> None:
    machine = FakeHost()
    run(machine, HOME, SHARED)
    run(machine, HOME._replace(options=("vers=4.2", "hard")))

    unmounts = [call for call in machine.calls if "umount" in call]
    assert {call[-1] for call in unmounts} == {"/home", "/shared"}
    assert all(call[0] == "timeout" and 0 < int(call[1]) <= 60 for call in unmounts)


def test_a_line_that_somebody_removed_comes_back_though_the_mount_is_there() -> None:
    machine = FakeHost()
    run(machine, HOME)
    after = machine.files["/etc/fstab"]
    machine.files["/etc/fstab"] = "/dev/vda / ext4 noatime 0 1\n"

    assert run(machine, HOME) == (True, [])
    assert machine.files["/etc/fstab"] == after
