# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter that judges lists of users and groups on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
name: account_problems
short_description: Say what is wrong with lists of users and groups, before any machine is touched
version_added: 0.1.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Takes the lists that M(hpcai.gpucluster.accounts) takes and returns a sentence for everything that is wrong with
    them as far as that
    can be seen without a machine. An empty list is good.
  - Each sentence names the variable, what was found and what is allowed. None holds a password or a hash.
positional: _input
options:
  _input:
    description: The users.
    type: list
    elements: dict
    required: true
  groups:
    description: The groups.
    type: list
    elements: dict
    default: []
  removed:
    description: The users that must not be there.
    type: list
    elements: raw
    default: []
  create_per_user_group:
    description: Whether a user without a group gets one of its own name.
    type: bool
    default: true
  primary_group:
    description: The primary group of other users without a group.
    type: str
    default: users
  machine_groups:
    description:
      - Groups that every machine has by itself. A group that is neither here nor in the lists is a problem.
      - If left out, groups are not checked here; the module still checks them on the machine.
    type: list
    elements: str
  variables:
    description: How the messages call the lists of users, groups and removed users.
    type: list
    elements: str
    default: [users_accounts, users_groups, users_deleted]
seealso:
  - module: hpcai.gpucluster.accounts
"""

EXAMPLES = r"""
- name: Refuse a bad list before any machine is touched
  ansible.builtin.assert:
    that: problems | length == 0
    fail_msg: "{{ problems | join('\n') }}"
  vars:
    problems: "{{ users | hpcai.gpucluster.account_problems(groups=groups_to_create, removed=users_deleted) }}"
"""

RETURN = r"""
_value:
  description: The problems; empty if there are none.
  type: list
  elements: str
  sample: ["users_accounts: uid 2001 belongs to alice and bob; allowed: one owner"]
"""

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._accounts.lists import Defaults, parse, unknown_groups


def account_problems(
    users: t.Any,
    groups: t.Any = None,
    removed: t.Any = None,
    create_per_user_group: bool = True,
    primary_group: str = "users",
    machine_groups: list[str] | None = None,
    variables: t.Sequence[str] = ("users_accounts", "users_groups", "users_deleted"),
) -> list[str]:
    """Return everything that is wrong with the lists."""
    names = dict(zip(("users", "groups", "removed"), variables))
    defaults = Defaults(per_user_group=create_per_user_group, primary_group=primary_group, **names)
    accounts, problems = parse(users, groups, removed, defaults)
    if machine_groups is not None:
        hint = f" or one that every machine has ({', '.join(machine_groups)})"
        problems += unknown_groups(accounts, machine_groups, defaults, hint)
    return problems


class FilterModule:
    """Filters of this file."""

    def filters(self) -> dict[str, t.Any]:
        """Return the filters by name."""
        return {"account_problems": account_problems}
