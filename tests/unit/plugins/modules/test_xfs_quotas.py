# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each user has the limit of the input; the rows are those of xfs_quota 6.1 on Linux 6.1."""

from __future__ import annotations

import re
import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._storage.errors import StorageError
from ansible_collections.hpcai.gpucluster.plugins.modules import xfs_quotas
from ansible_collections.hpcai.gpucluster.tests.unit.plugins.module_utils._storage.fake_host import FakeHost

if t.TYPE_CHECKING:
    from collections.abc import Sequence

ON = "rw,attr2,inode64,logbufs=8,logbsize=32k,usrquota"
OFF = "rw,attr2,inode64,logbufs=8,logbsize=32k,noquota"
UIDS = {"alice": 1000, "bob": 1001}
MIB, GIB = 1024, 1024**2  # in KiB


class Machine(FakeHost):
    """A server with one XFS file system; alice has files."""

    def __init__(self, options: str = ON) -> None:
        super().__init__()
        if options:
            self.mounts["/data"] = ("/dev/vdc", "xfs", options)
        self.limits = {0: 0, 1000: 0}
        self.error = ""

    def _act(self, args: Sequence[str]) -> tuple[int, str, str]:
        if args[0] != "xfs_quota":
            return super()._act(args)
        self.calls.append(list(args))
        commands = [word for flag, word in zip(args, args[1:]) if flag == "-c"]
        if self.error:
            # It exits with 0 then.
            return 0, "", self.error
        if commands == ["report -u -n -N -b"]:
            rows = [f"#{uid:<16}{0:>5}{0:>11}{limit:>11}     00 [--------]\n" for uid, limit in self.limits.items()]
            return 0, "".join(rows) + "\n", ""
        for command in commands:
            found = re.fullmatch(r"limit -u (-d )?bhard=(\d+)k ?(\d*)", command)
            assert found, command
            self.limits[int(found[3] or 0)] = int(found[2])
        return 0, "", ""


def run(
    machine: Machine, default: str = "", users: dict[t.Any, t.Any] | None = None, check: bool = False
) -> tuple[dict[str, t.Any], list[str]]:
    params = {"path": "/data", "default": default, "users": users or {}}
    return xfs_quotas.reconcile(machine, params, check, lambda name: int(name) if name.isdigit() else UIDS.get(name))


def test_all_users_have_the_default_and_some_their_own() -> None:
    machine = Machine()

    result, warnings = run(machine, "500G", {"bob": "2T", 1003: "10M"})

    assert machine.limits == {0: 500 * GIB, 1000: 500 * GIB, 1001: 2048 * GIB, 1003: 10 * MIB}
    assert (result["changed"], result["pending"], warnings) == (True, "", [])
    assert "1001 0\n" in result["diff"]["before"]
    assert "1001 2147483648\n" in result["diff"]["after"]
    assert not run(machine, "500G", {"bob": "2T", 1003: "10M"})[0]["changed"]


def test_a_new_default_reaches_who_has_files() -> None:
    machine = Machine()
    run(machine, "8M", {"bob": "24M"})

    result = run(machine, "16M", {"bob": "24M"})[0]

    assert machine.limits == {0: 16 * MIB, 1000: 16 * MIB, 1001: 24 * MIB}
    assert result["limits"] == {"0": 16 * MIB, "1000": 16 * MIB}


def test_who_leaves_the_list_has_the_default() -> None:
    machine = Machine()
    run(machine, "8M", {"bob": "24M"})
    run(machine, "8M")

    assert machine.limits == {0: 8 * MIB, 1000: 8 * MIB, 1001: 8 * MIB}


def test_without_quotas_in_the_input_no_limit_is_left() -> None:
    machine = Machine()
    run(machine, "8M", {"bob": "24M"})

    assert run(machine)[0]["changed"]
    assert set(machine.limits.values()) == {0}
    assert not run(machine)[0]["changed"]


def test_check_mode_sets_nothing() -> None:
    machine = Machine()

    assert run(machine, "8M", check=True)[0]["changed"]
    assert machine.limits == {0: 0, 1000: 0}


@pytest.mark.parametrize(
    ("options", "words"), [(OFF, "mounted without quotas.*boot the server"), ("", "nothing is mounted")]
)
def test_quotas_wait_for_the_mount(options: str, words: str) -> None:
    machine = Machine(options)

    result, warnings = run(machine, "8M")

    assert (result["changed"], warnings) == (False, [f"/data: the quotas wait: {result['pending']}"])
    assert re.search(words, result["pending"])
    # The first run in check mode would mount it.
    assert run(machine, "8M", check=True)[0]["changed"]
    # Who wants no quotas waits for nothing.
    assert run(machine) == ({"changed": False, "pending": "", "limits": {}}, [])
    assert machine.calls == []


def test_another_file_system_has_no_quotas() -> None:
    machine = Machine()
    machine.mounts["/data"] = ("/dev/vdc", "ext4", "rw")

    assert run(machine, "8M")[0]["pending"] == "ext4 is mounted there, not xfs"


def test_an_unknown_user_is_named_and_changes_nobody() -> None:
    machine = Machine()

    warnings = run(machine, "8M", {"carol": "1G"})[1]

    assert warnings == ["/data: no user carol here; the default applies until a run that finds it"]
    assert machine.limits == {0: 8 * MIB, 1000: 8 * MIB}


@pytest.mark.parametrize("size", ["8", "8MB", "0G", "-1G", "1.5T", "all", "8M 9M", "8m -g"])
def test_a_size_has_one_form(size: str) -> None:
    machine = Machine()

    with pytest.raises(StorageError, match=f"^/data: '{size}' is not a whole number with K, M, G, T or P"):
        run(machine, size)
    with pytest.raises(StorageError):
        run(machine, "8M", {"bob": size})
    assert machine.calls == []


def test_small_letters_are_the_same_units() -> None:
    machine = Machine()
    run(machine, "8m")

    assert machine.limits[0] == 8 * MIB


def test_a_fault_with_exit_status_0_is_an_error() -> None:
    machine = Machine()
    machine.error = "xfs_quota: cannot setup path for mount /data: No such device or address"

    with pytest.raises(StorageError, match="No such device or address"):
        run(machine, "8M")


def test_a_limit_that_was_not_set_is_an_error() -> None:
    machine = Machine()
    machine.limits = {0: 0}
    keep = machine.run
    machine.run = lambda args: (0, "", "") if "limit" in args[3] else keep(args)

    with pytest.raises(StorageError, match="no limit for UID 0 and 0 others"):
        run(machine, "8M")


def test_many_users_take_few_calls() -> None:
    machine = Machine()
    machine.limits = dict.fromkeys([0, *range(1000, 6000)], 0)
    run(machine, "8M")

    assert set(machine.limits.values()) == {8 * MIB}
    assert len(machine.calls) == 13  # 11 with limits, and a report before and after
    assert max(sum(len(word) + 1 for word in call) for call in machine.calls) < 64 * 1024


def test_users_are_found_on_the_machine() -> None:
    assert xfs_quotas.uid_of("root") == 0
    assert xfs_quotas.uid_of("1234") == 1234
    assert xfs_quotas.uid_of("no-such-user") is None
