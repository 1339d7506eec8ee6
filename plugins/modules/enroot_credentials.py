#!/usr/bin/python
# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Manage the credentials of users for container registries."""

from __future__ import annotations

DOCUMENTATION = r"""
module: enroot_credentials
short_description: Manage the credentials of users for container registries
version_added: 0.1.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Writes C(~/.config/enroot/.credentials) of many users at once, with mode V(0600) and with the rights of each user.
    So a link in a home directory cannot lead to another file, and NFS with C(root_squash) works.
  - Lines that users wrote for other machines or logins are kept. A login that is no longer in the list is removed if
    this module wrote it.
  - Passwords never appear in output, diffs or logs.
extends_documentation_fragment:
  - hpcai.gpucluster._attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
    details: Shows users, machines and logins.
  idempotent:
    support: full
options:
  entries:
    description: The logins. An empty list removes all that this module wrote.
    type: list
    elements: dict
    required: true
    suboptions:
      ngc:
        description:
          - API key of NVIDIA's registry. It stands for the logins V($oauthtoken) at nvcr.io and authn.nvidia.com.
        type: str
      machine:
        description: Host name of a registry.
        type: str
      login:
        description: Login name at the registry.
        type: str
      password:
        description: Password, token or V($(command\)).
        type: str
      users:
        description: Users that get this login. The default is all of O(users).
        type: list
        elements: str
  users:
    description: All users. A user without an account or a home directory is skipped with a warning.
    type: list
    elements: str
    default: []
  state_file:
    description: File in which the module records what it wrote, without passwords.
    type: path
    default: /var/lib/gpucluster/enroot-credentials.json
"""

EXAMPLES = r"""
- name: Give every user the group's key for NVIDIA's registry, and alice a login for another registry
  hpcai.gpucluster.enroot_credentials:
    users: [alice, bob]
    entries:
      - ngc: "{{ vault_ngc_key }}"
      - machine: registry.example.com
        login: alice
        password: "{{ vault_alice_registry }}"
        users: [alice]
  become: true
"""

RETURN = r"""
users:
  description: Users whose file was changed.
  returned: success
  type: list
  elements: str
  sample: [alice]
"""

import contextlib
import json
import os
import pwd
import stat
import typing as t
from pathlib import Path

from ansible_collections.hpcai.gpucluster.plugins.module_utils._accounts.homes import rights_of
from ansible_collections.hpcai.gpucluster.plugins.module_utils._enroot import credentials
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import bounded_run, whole_file
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.quiet_module import QuietModule

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

_FILE = ".config/enroot/.credentials"
Managed = dict[str, list[tuple[str, str]]]


def remembered(path: Path) -> Managed:
    """Return what earlier runs wrote: machines and logins by user."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return {user: [tuple(pair) for pair in pairs] for user, pairs in data.items()}
    except FileNotFoundError:
        return {}


def read(path: Path) -> tuple[str, int]:
    """Return the content and mode of a file; an empty string and no mode if it does not exist."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        return "", 0
    with os.fdopen(handle, encoding="utf-8", errors="surrogateescape") as stream:
        status = os.fstat(handle)
        return (stream.read(), stat.S_IMODE(status.st_mode)) if stat.S_ISREG(status.st_mode) else ("", 0)


def write(path: Path, text: str) -> None:
    """Replace a file atomically and never readable by others; remove it if the content is empty."""
    if not text:
        path.unlink()
        return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    whole_file.replace(str(path), text.encode("utf-8", "surrogateescape"), 0o600)


def settle(account: pwd.struct_passwd, wanted: list[credentials.Login], managed: t.Any, check: bool) -> bool:
    """Update the file of one user with the rights of the user; return whether it changed. Raises OSError."""
    path = Path(account.pw_dir) / _FILE
    with rights_of(account.pw_name, account.pw_uid, account.pw_gid):
        current, mode = read(path)
        text = credentials.text(current, wanted, managed)
        if text == current and (not mode or mode == 0o600 or not wanted):
            return False
        if not check:
            write(path, text)
    return True


def account_of(user: str) -> pwd.struct_passwd | None:
    """Return the account of a user that has a home directory."""
    try:
        account = pwd.getpwnam(user)
    except KeyError:
        return None
    return account if Path(account.pw_dir).is_dir() else None


def folders_of(users: list[str]) -> list[str]:
    """Return the parent directories of the homes of users."""
    found = set()
    for user in users:
        with contextlib.suppress(KeyError):
            found.add(str(Path(pwd.getpwnam(user).pw_dir).parent))
    return sorted(found)


def shown(managed: Managed) -> str:
    """Return the content of diff mode."""
    return "".join(
        f"{user}: {machine} {login}\n" for user, pairs in sorted(managed.items()) for machine, login in pairs
    )


def apply(module: AnsibleModule, before: Managed) -> tuple[Managed, list[str]]:
    """Update all files; return the managed logins and the changed users."""
    entries = module.params["entries"]
    after: Managed = {}
    changed = []
    users = list(dict.fromkeys([*module.params["users"], *credentials.named_users(entries), *before]))
    dead = [directory for directory in folders_of(users) if bounded_run.hangs(directory)]
    if dead:
        raise OSError(f"{', '.join(dead)} does not answer; bring the server of its file system back, or unmount it")
    for user in users:
        wanted = credentials.logins(entries, user)
        if user not in before and not wanted:
            continue
        account = account_of(user)
        if account is None:
            module.warn(f"{user} has no account or no home directory here, and gets no logins at registries")
            continue
        if settle(account, wanted, before.get(user, []), module.check_mode):
            changed.append(user)
        if wanted:
            after[user] = [(login.machine, login.login) for login in wanted]
    return after, changed


def main() -> None:
    """Run the module."""
    suboptions = {
        "ngc": {"type": "str", "no_log": True},
        "machine": {"type": "str"},
        "login": {"type": "str"},
        "password": {"type": "str", "no_log": True},
        "users": {"type": "list", "elements": "str"},
    }
    module = QuietModule(
        argument_spec={
            "entries": {"type": "list", "elements": "dict", "required": True, "options": suboptions},
            "users": {"type": "list", "elements": "str", "default": []},
            "state_file": {"type": "path", "default": "/var/lib/gpucluster/enroot-credentials.json"},
        },
        supports_check_mode=True,
    )
    entries = [{key: value for key, value in entry.items() if value is not None} for entry in module.params["entries"]]
    module.params["entries"] = entries
    faults = credentials.problems(entries, name="entries")
    if faults:
        module.fail_json(msg="; ".join(faults))
    path = Path(module.params["state_file"])
    try:
        before = remembered(path)
        after, changed = apply(module, before)
        if before != after and not module.check_mode:
            path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            whole_file.replace(str(path), f"{json.dumps(after, indent=1)}\n".encode(), 0o644)
    except (OSError, ValueError) as exc:
        module.fail_json(msg=f"the logins at registries cannot be written: {exc}")
    difference = {"diff": {"before": shown(before), "after": shown(after)}} if module._diff else {}
    module.exit_json(changed=bool(changed) or before != after, users=changed, **difference)


if __name__ == "__main__":
    main()
