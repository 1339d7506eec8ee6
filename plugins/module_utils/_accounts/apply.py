# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Configure the groups, users, keys and sudo rules of a machine. An injected runner starts every process."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._accounts.database import Database
from ansible_collections.hpcai.gpucluster.plugins.module_utils._accounts.plan import Plan, machine_problems, plan
from ansible_collections.hpcai.gpucluster.plugins.module_utils._accounts.sudo import SudoDropIn, sudo_text

if t.TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ansible_collections.hpcai.gpucluster.plugins.module_utils._accounts.homes import Homes, KeyPair
    from ansible_collections.hpcai.gpucluster.plugins.module_utils._accounts.lists import Accounts, Defaults
    from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host


class AccountsError(Exception):
    """The lists cannot be applied, and nothing was changed. Each problem is a complete sentence."""

    def __init__(self, problems: Sequence[str]) -> None:
        """Store the problems."""
        super().__init__("; ".join(problems))
        self.problems = list(problems)


class CommandError(AccountsError):
    """A command failed. Earlier commands may have changed the machine."""


class Result(t.NamedTuple):
    """The changes that were made, or that check mode would make."""

    actions: list[str]
    warnings: list[str]
    before: dict[str, t.Any]
    after: dict[str, t.Any]


def reconcile(
    accounts: Accounts,
    defaults: Defaults,
    host: Host,
    sudo: SudoDropIn,
    homes: Homes | None,
    pairs: Mapping[str, KeyPair],
    check: bool,
) -> Result:
    """Change what differs between the lists and the machine. If a list is invalid, raise AccountsError first."""
    database = Database.read(host.read_required)
    rules, present = sudo_text(accounts), sudo.current()
    problems = machine_problems(accounts, database, defaults, host.executable, host.processes)
    if rules != present:
        problems += sudo.problems(rules)
    if problems:
        raise AccountsError(problems)
    steps = plan(accounts, database, homes is not None)
    if not check:
        _execute(steps, accounts, database, host)
    actions = steps.actions
    if rules != present:
        actions.append("write the sudo rules" if rules else "remove the sudo rules")
        steps.note("sudo", {"rules": present.splitlines()}, {"rules": rules.splitlines()})
        if not check:
            sudo.write(rules)
    if homes is not None:
        done = _settle(accounts, database, host, homes, pairs, check)
        if done:
            steps.note("homes", {}, {"changes": done})
        actions += done
        steps.warnings.extend(homes.warnings)
    return Result(actions, steps.warnings, steps.before, steps.after)


def _execute(steps: Plan, accounts: Accounts, database: Database, host: Host) -> None:
    """Run the commands in the order of their dependencies."""
    force = {removed.name for removed in accounts.removed if removed.force}
    for step in steps.removals:
        name = step.argv[-1]
        if name in force:
            _end_processes(database.users[name].uid, host)
        _call(host, step.argv)
    if steps.removals:
        _remove_left_groups(steps, database, host)
    # Homes before the groups, so that the next run goes on where this one is interrupted.
    homes = [step for step in steps.homes if host.entries(step.argv[-1]) is not None]
    for step in (*homes, *steps.groups, *steps.users):
        _call(host, step.argv)
    if steps.hashes:
        # Use standard input, because every user of the host can read the arguments of a process.
        lines = "".join(f"{name}:{field}\n" for name, field in steps.hashes.items())
        _call(host, ("chpasswd", "--encrypted"), lines)
    for step in steps.late:
        _call(host, step.argv)


def _end_processes(uid: int, host: Host) -> None:
    """Kill the processes of a user and wait at most two seconds for them to end."""
    for _attempt in range(20):
        found = host.processes(uid)
        if not found:
            return
        for pid in found:
            host.kill(pid)
        host.pause(0.1)


def _remove_left_groups(steps: Plan, database: Database, host: Host) -> None:
    """Remove the private groups of removed users if userdel is configured to keep them (USERGROUPS_ENAB)."""
    names = [step.argv[-1] for step in steps.removals]
    expected = set(database.groups) - set(database.without(names).groups)
    for name in sorted(expected & set(Database.read(host.read_required).groups)):
        _call(host, ("groupdel", name))


def _call(host: Host, argv: Sequence[str], data: str | None = None) -> None:
    rc, out, err = host.run(list(argv), data)
    if rc:
        raise CommandError([f"{' '.join(argv)} exited {rc}: {(err or out).strip()}"])


def _settle(
    accounts: Accounts,
    database: Database,
    host: Host,
    homes: Homes,
    pairs: Mapping[str, KeyPair],
    check: bool,
) -> list[str]:
    """Update homes and keys. In check mode a group may be missing; its GID is then a placeholder."""
    groups = (database if check else Database.read(host.read_required)).groups
    planned = {group.name: group.gid or 0 for group in accounts.groups}
    actions = []
    for user in accounts.users:
        gid = groups[user.group].gid if user.group in groups else planned[user.group]
        actions += homes.settle(user, gid, pairs.get(user.name) if user.key_pair else None)
    return actions
