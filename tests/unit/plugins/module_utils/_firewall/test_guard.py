# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules on trial: what the machine has after a confirmation, without one, and after a failure."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._firewall import guard, lasting, ruleset

if t.TYPE_CHECKING:
    from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host

OLD, NEW = ruleset.DELETE + "old\n", ruleset.DELETE + "new\n"


class Machine:
    """A machine with files, a table of the kernel and a timer."""

    def __init__(self) -> None:
        self.files: dict[str, str] = {}
        self.table, self.name = "", ""
        self.timer: list[str] = []
        self.enabled = False
        self.refuses: list[str] = []
        self.others, self.settings = "", ""

    def run(self, args: list[str]) -> tuple[int, str, str]:
        if any(words in " ".join(args) for words in self.refuses):
            return 1, "", "refused"
        if args[0] == lasting.NFT:
            return self.nft(args)
        if args[0] == "dpkg":
            return 0, self.settings, ""
        if args[0] == "systemd-run":
            self.timer = args[args.index(lasting.NFT) :]
            return 0, "", ""
        return self.systemctl(args[1]), "", ""

    def systemctl(self, verb: str) -> int:
        if verb == "stop":
            self.timer = []
        if verb in ("enable", "disable"):
            self.enabled = verb == "enable"
        return int({"is-active": not self.timer, "is-enabled": not self.enabled}.get(verb, False))

    def nft(self, args: list[str]) -> tuple[int, str, str]:
        if "tables" in args:
            return 0, self.others + (f"table {self.name}\n" if self.table else ""), ""
        if "list" in args:
            self.name = " ".join(args[-2:])
            return (0, self.table, "") if self.table else (1, "", "No such file or directory")
        if "delete" in args:
            self.table = ""
        elif "--check" not in args:
            # The first two lines delete the table.
            self.table = "".join(self.files[args[-1]].splitlines(keepends=True)[2:])
        return 0, "", ""

    def fire(self) -> None:
        command, self.timer = self.timer, []
        self.run(command)

    def read(self, path: str) -> str:
        return self.files.get(path, "")

    read_required = read

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        self.files[path] = text

    def remove(self, path: str) -> None:
        self.files.pop(path, None)

    def remove_empty(self, path: str) -> None:
        """The stand-in has no directories."""


@pytest.fixture
def machine() -> Machine:
    return Machine()


def host(machine: Machine) -> Host:
    return t.cast("Host", machine)


def confirmed(machine: Machine, content: str) -> None:
    guard.load(content, 60, host(machine))
    guard.confirm(host(machine))


def test_confirmed_rules_are_permanent_and_a_second_run_changes_nothing(machine: Machine) -> None:
    assert lasting.differs(OLD, guard.FIREWALL.state(host(machine)))

    confirmed(machine, OLD)

    assert not lasting.differs(OLD, guard.FIREWALL.state(host(machine)))
    assert lasting.differs(NEW, guard.FIREWALL.state(host(machine)))
    assert set(machine.files) == set(guard.FIREWALL.files)
    assert machine.timer == []


def test_rules_on_trial_are_not_on_disk_and_go_without_a_confirmation(machine: Machine) -> None:
    confirmed(machine, OLD)

    guard.load(NEW, 60, host(machine))
    assert (machine.table, machine.files[guard.FIREWALL.rules]) == ("new\n", OLD)
    machine.fire()

    assert machine.table == "old\n"
    with pytest.raises(lasting.FirewallError, match="restored its previous rules"):
        guard.confirm(host(machine))
    assert not lasting.differs(OLD, guard.FIREWALL.state(host(machine)))


def test_the_first_rules_go_completely_without_a_confirmation(machine: Machine) -> None:
    guard.load(NEW, 60, host(machine))
    machine.fire()

    assert machine.table == ""
    with pytest.raises(lasting.FirewallError):
        guard.confirm(host(machine))
    assert not guard.FIREWALL.present(host(machine))


def test_an_interrupted_trial_does_not_become_what_is_restored(machine: Machine) -> None:
    confirmed(machine, OLD)
    guard.load(NEW, 60, host(machine))

    guard.load(ruleset.DELETE + "other\n", 60, host(machine))
    machine.fire()

    assert machine.table == "old\n"


@pytest.mark.parametrize("refused", ["--check", "systemd-run"])
def test_nothing_changes_if_the_rules_or_the_rollback_are_refused(machine: Machine, refused: str) -> None:
    confirmed(machine, OLD)
    machine.refuses = [refused]

    with pytest.raises(lasting.FirewallError, match="nothing was changed"):
        guard.load(NEW, 60, host(machine))

    assert machine.table == "old\n"
    assert machine.timer == []


def test_a_table_that_somebody_changed_is_loaded_again(machine: Machine) -> None:
    confirmed(machine, OLD)
    machine.table = "changed by hand\n"

    assert lasting.differs(OLD, guard.FIREWALL.state(host(machine)))


def test_a_unit_that_is_disabled_is_enabled_again(machine: Machine) -> None:
    confirmed(machine, OLD)
    machine.enabled = False

    assert lasting.differs(OLD, guard.FIREWALL.state(host(machine)))


def test_a_removal_leaves_nothing(machine: Machine) -> None:
    confirmed(machine, OLD)
    guard.remove(host(machine))

    assert (machine.table, machine.files, machine.enabled) == ("", {}, False)
    assert not guard.FIREWALL.present(host(machine))
