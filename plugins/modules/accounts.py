#!/usr/bin/python
# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module that applies a list of groups and users to a machine."""

from __future__ import annotations

DOCUMENTATION = r"""
module: accounts
short_description: Manage all groups, users, keys and sudo rules of a machine as a list
version_added: 0.1.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Accepts the whole list of groups and users in one task. It reads C(/etc/passwd), C(/etc/group) and C(/etc/shadow)
    once, and runs commands only for the differences. For 200 users without a difference it needs less than a second.
  - Reports all faults of the lists, and all conflicts with the machine, at once and before it changes anything.
  - Users and groups that are in no list are unchanged.
  - Files below C(~/.ssh) are read and written with the rights of their owner. So a link cannot lead to a file that the
    owner must not access, and the module works on an NFS server with C(root_squash).
extends_documentation_fragment:
  - hpcai.gpucluster._attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
    details: Of a password only its state (none, set, locked) is shown.
  idempotent:
    support: full
requirements:
  - The tools of Debian's package C(passwd) or of C(shadow-utils), and C(visudo) where sudo rules are wanted.
notes:
  - The module must run as root.
options:
  users:
    description:
      - The users.
      - Items in the format of DeepOps are accepted, too. Then O(users[].username) is the login name and O(users[].name)
        the full name.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description:
          - Login name; the full name if O(users[].username) is given.
          - A login name begins with a lower-case letter or C(_), continues with those, digits and C(-), and has at most
            32 characters.
        type: str
      username:
        description: Login name, as in DeepOps.
        type: str
      uid:
        description:
          - UID, from 1000 to 2147483647. A lower one is allowed with O(users[].system).
          - Required for users that are present, so that a user has the same UID on every machine.
        type: int
      gid:
        description:
          - GID of the user's own group.
          - The default is O(users[].uid).
        type: int
      group:
        description:
          - Name of the primary group.
          - The default is a group of the user's name (O(create_per_user_group=true)) or O(primary_group).
        type: str
      groups:
        description:
          - Names of all supplementary groups.
        type: list
        elements: str
      append:
        description: Whether the user keeps other supplementary groups on the machine.
        type: bool
      shell:
        description:
          - Absolute path of the login shell, which must exist on the machine.
          - The default is O(shell).
        type: str
      home:
        description:
          - Absolute path of the home directory.
          - The default is O(home_base) and the name. A change moves no data; a warning says so.
        type: str
      gecos:
        description: Full name.
        type: str
      state:
        description:
          - Whether the user exists (V(present), the default) or not.
        type: str
        choices: [present, absent]
      password:
        description:
          - Password as a crypt hash, for example from C(mkpasswd) or from the filter
            P(ansible.builtin.password_hash#filter). It begins with C($).
          - Without it a new user has no password, and an existing user keeps the password.
        type: str
      update_password:
        description: Whether the hash is always set (the default) or only for a new user.
        type: str
        choices: [always, on_create]
      lock:
        description:
          - Whether the password is locked by a C(!) before its hash. Login with keys still works.
          - Without it the lock is unchanged.
        type: bool
      ssh_keys:
        description:
          - Public keys that may log in as the user, as a list or as a string with one key per line. Options before a
            key are allowed.
        type: raw
        aliases: [ssh_key]
      key_pair:
        description: Whether the user gets a pair of O(key_pairs). True if not set.
        type: bool
      sudo:
        description:
          - V(true) allows every command without a password.
          - A string is the part of a sudo rule after the name, such as V(ALL=(ALL:ALL\) ALL).
        type: raw
      system:
        description: Whether the user may have a UID below 1000, and may be removed with one.
        type: bool
      remove_home:
        description: With O(users[].state=absent), whether the home directory is removed as well.
        type: bool
        aliases: [remove]
      force:
        description: With O(users[].state=absent), whether running processes of the user are killed. Without it they
          fail the task.
        type: bool
  groups:
    description: The groups, in addition to the users' own.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Group name. The rules of login names apply.
        type: str
        required: true
      gid:
        description:
          - GID, from 1000 to 2147483647. A lower one is allowed with O(groups[].system). Then it may also be omitted,
            and the machine chooses it.
        type: int
      state:
        description: Whether the group exists.
        type: str
        choices: [present, absent]
        default: present
      sudo:
        description: Same as O(users[].sudo), for every member.
        type: raw
      system:
        description: Whether the group may have a GID below 1000.
        type: bool
        default: false
  removed:
    description:
      - Users that must not exist, as names or as mappings with C(name) (or C(username)), C(remove_home) (or C(remove))
        and C(force).
      - The home directory stays unless C(remove_home) is true.
    type: list
    elements: raw
    default: []
  create_per_user_group:
    description: Whether a user without O(users[].group) gets a group with the name of the user.
    type: bool
    default: true
  primary_group:
    description: Primary group of users without O(users[].group) if O(create_per_user_group=false).
    type: str
    default: users
  shell:
    description: Login shell of users without O(users[].shell).
    type: str
    default: /bin/bash
  home_base:
    description: Parent directory of the homes of users without O(users[].home).
    type: str
    default: /home
  create_homes:
    description:
      - Whether this machine owns the home directories. If true, missing ones are created from C(/etc/skel), keys are
        written to them and C(remove_home) takes effect.
      - Use V(false) on machines that mount the homes from another one. Then nothing below the homes is changed.
    type: bool
    default: true
  home_mount:
    description:
      - Mount point that contains the homes. While nothing is mounted there, nothing below the homes is changed, as with
        O(create_homes=false), and a warning says so. Otherwise the mount would hide the new homes.
    type: path
  home_mode:
    description:
      - Mode of new home directories, octal and in quotes. An integer is refused, because YAML reads C(0711) as 457.
    type: raw
    default: "0700"
  exclusive_keys:
    description:
      - Whether C(authorized_keys) contains only the keys of the list.
      - Otherwise the keys of the list are between two markers, and lines of the user outside of them are kept.
    type: bool
    default: false
  key_pairs:
    description:
      - Key pairs by user name, as RV(hpcai.gpucluster.account_keys#module:key_pairs) returns them.
      - They become C(~/.ssh/id_ed25519) and an entry of C(authorized_keys). A different existing C(id_ed25519) is kept.
    type: dict
    default: {}
  sudoers_file:
    description: Drop-in file with the sudo rules. C(visudo) checks them first.
    type: path
    default: /etc/sudoers.d/gpucluster-users
seealso:
  - module: hpcai.gpucluster.account_keys
  - module: hpcai.gpucluster.check_input
"""

EXAMPLES = r"""
- name: Apply the list of users
  hpcai.gpucluster.accounts:
    groups:
      - {name: research, gid: 5000}
    users:
      - name: alice
        uid: 2001
        groups: [research]
        gecos: Alice Liddell
        ssh_keys:
          - ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKnw8lNDEZWwZDkyeW3yzCWvUWzPTmY7TFu8vcZiGpVR alice@laptop
      - {name: bob, uid: 2002, password: "{{ vault_bob_hash }}", sudo: true}
    removed: [mallory]

- name: Apply the list where the homes are mounted from the file server
  hpcai.gpucluster.accounts:
    users: "{{ users }}"
    create_homes: false
"""

RETURN = r"""
actions:
  description: Changes that were made (or would be, in check mode), one sentence for each step.
  returned: success
  type: list
  elements: str
  sample: [create group alice (gid 2001), create user alice (uid 2001), make home /home/alice]
waiting:
  description: Whether homes and keys wait until something is mounted at O(home_mount).
  returned: success
  type: bool
  sample: false
problems:
  description: All faults, one sentence each, with the option, the value that was found and the values that are allowed.
  returned: failure
  type: list
  elements: str
  sample: ["users (bob): uid is 2001, which 'alice' has on this machine; allowed: a free uid"]
"""

import typing as t
from pathlib import Path

from ansible_collections.hpcai.gpucluster.plugins.module_utils._accounts.apply import (
    AccountsError,
    CommandError,
    reconcile,
)
from ansible_collections.hpcai.gpucluster.plugins.module_utils._accounts.homes import (
    Homes,
    KeyPair,
    is_mounted,
)
from ansible_collections.hpcai.gpucluster.plugins.module_utils._accounts.lists import Defaults, parse
from ansible_collections.hpcai.gpucluster.plugins.module_utils._accounts.sudo import SudoDropIn
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import bounded_run
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.modes import mode_problem
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.quiet_module import QuietModule

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

HANGING = "Bring the server of its file system back, or unmount it"
USER: dict[str, t.Any] = {
    "name": {"type": "str"},
    "username": {"type": "str"},
    "uid": {"type": "int"},
    "gid": {"type": "int"},
    "group": {"type": "str"},
    "groups": {"type": "list", "elements": "str"},
    "append": {"type": "bool"},
    "shell": {"type": "str"},
    "home": {"type": "str"},
    "gecos": {"type": "str"},
    "state": {"type": "str", "choices": ["present", "absent"]},
    "password": {"type": "str", "no_log": True},
    "update_password": {"type": "str", "choices": ["always", "on_create"], "no_log": False},
    "lock": {"type": "bool"},
    "ssh_keys": {"type": "raw", "aliases": ["ssh_key"], "no_log": False},
    "key_pair": {"type": "bool", "no_log": False},
    "sudo": {"type": "raw"},
    "system": {"type": "bool"},
    "remove_home": {"type": "bool", "aliases": ["remove"]},
    "force": {"type": "bool"},
}
GROUP: dict[str, t.Any] = {
    "name": {"type": "str", "required": True},
    "gid": {"type": "int"},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "sudo": {"type": "raw"},
    "system": {"type": "bool", "default": False},
}
SPEC: dict[str, t.Any] = {
    "users": {"type": "list", "elements": "dict", "default": [], "options": USER},
    "groups": {"type": "list", "elements": "dict", "default": [], "options": GROUP},
    "removed": {"type": "list", "elements": "raw", "default": []},
    "create_per_user_group": {"type": "bool", "default": True},
    "primary_group": {"type": "str", "default": "users"},
    "shell": {"type": "str", "default": "/bin/bash"},
    "home_base": {"type": "str", "default": "/home"},
    "create_homes": {"type": "bool", "default": True},
    "home_mount": {"type": "path"},
    "home_mode": {"type": "raw", "default": "0700"},
    "exclusive_keys": {"type": "bool", "default": False, "no_log": False},
    "key_pairs": {"type": "dict", "default": {}, "no_log": True},
    "sudoers_file": {"type": "path", "default": "/etc/sudoers.d/gpucluster-users"},
}


def hide(module: AnsibleModule, removed: list[t.Any]) -> None:
    """Hide password hashes in all output, also those in DeepOps' list of removed users."""
    for item in removed:
        if isinstance(item, dict) and item.get("password"):
            module.no_log_values.add(str(item["password"]))


def mode_problems(mode: str) -> list[str]:
    """Return the faults of the mode of home directories."""
    allowed = mode_problem(mode)
    return [f"home_mode is {mode!r}; allowed: {allowed}"] if allowed else []


def main() -> None:
    """Run the module."""
    module = QuietModule(argument_spec=SPEC, supports_check_mode=True)
    params = module.params
    hide(module, params["removed"])
    defaults = Defaults(params["create_per_user_group"], params["primary_group"], params["shell"], params["home_base"])
    accounts, problems = parse(params["users"], params["groups"], params["removed"], defaults)
    problems += mode_problems(params["home_mode"])
    try:
        if problems:
            raise AccountsError(problems)
        if params["create_homes"] and bounded_run.hangs(params["home_base"]):
            module.fail_json(msg=f"{params['home_base']} does not answer; nothing was changed. {HANGING}", problems=[])
        pairs = {name: KeyPair(pair["private"], pair["public"]) for name, pair in params["key_pairs"].items()}
        host = Host(bounded_run.feeding_runner(bounded_run.CHANGE))
        homes = Homes(module.check_mode, params["exclusive_keys"], int(params["home_mode"], 8))
        mount = params["home_mount"]
        waits = (
            params["create_homes"] and bool(mount) and not is_mounted(mount, host.read_required("/proc/self/mountinfo"))
        )
        result = reconcile(
            accounts,
            defaults,
            host,
            SudoDropIn(Path(params["sudoers_file"]), host.run, module.get_bin_path("visudo")),
            homes if params["create_homes"] and not waits else None,
            pairs,
            module.check_mode,
        )
    except CommandError as exc:
        module.fail_json(msg=f"stopped half-way, the next run goes on: {exc}", problems=exc.problems)
    except AccountsError as exc:
        module.fail_json(msg=f"refused, nothing was changed: {exc}", problems=exc.problems)
    except (OSError, ValueError, KeyError, TypeError) as exc:
        module.fail_json(msg=f"the accounts could not be read or written: {exc!r}", problems=[repr(exc)])
    if waits:
        module.warn(f"homes and keys wait: nothing is mounted at {mount} yet")
    for warning in result.warnings:
        module.warn(warning)
    module.exit_json(
        changed=bool(result.actions),
        actions=result.actions,
        waiting=waits,
        diff={"before": result.before, "after": result.after},
    )


if __name__ == "__main__":
    main()
