# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter account_names."""

from __future__ import annotations

DOCUMENTATION = r"""
name: account_names
short_description: Return the login names of a list of users
version_added: 0.1.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Reads the lists that M(hpcai.gpucluster.accounts) accepts, in its own form and in that of DeepOps.
positional: _input, which
options:
  _input:
    description: A list of users, of removed users, or, for V(administrators), of groups.
    type: list
    elements: raw
    required: true
  which:
    description:
      - V(administrators) returns users or groups that are present and may run every command with sudo (C(sudo=true)).
      - V(key_pair) returns users that are present and get a key pair.
      - V(purged) returns users that are removed together with their home directory.
      - V(present) returns users that are present.
    type: str
    choices: [administrators, key_pair, present, purged]
    required: true
  removed:
    description: Whether the list contains removed users, which need no C(state=absent).
    type: bool
    default: false
seealso:
  - module: hpcai.gpucluster.account_keys
"""

EXAMPLES = r"""
- name: Show the users that get a key pair
  ansible.builtin.debug:
    msg: "{{ users | hpcai.gpucluster.account_names('key_pair') }}"
"""

RETURN = r"""
_value:
  description: Login names, or names of groups.
  type: list
  elements: str
  sample: [alice, bob]
"""

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.module_utils._accounts.lists import SUDO_ALL, Defaults, parse


def account_names(items: t.Any, which: str, removed: bool = False) -> list[str]:
    """Return the login names of one kind of user in a list."""
    accounts, _problems = parse([] if removed else items, [], items if removed else [], Defaults())
    if which == "key_pair":
        return [user.name for user in accounts.users if user.name and user.key_pair]
    if which == "purged":
        return [user.name for user in accounts.removed if user.name and user.remove_home]
    if which == "present":
        return [user.name for user in accounts.users if user.name]
    if which == "administrators":
        return [user.name for user in accounts.users if user.name and user.sudo == SUDO_ALL]
    raise AnsibleFilterError(
        f"hpcai.gpucluster.account_names: which is {which!r}; allowed: administrators, key_pair, present or purged"
    )


class FilterModule:
    """Offer the filter to Ansible."""

    def filters(self) -> dict[str, t.Any]:
        """Return the filters by name."""
        return {"account_names": account_names}
