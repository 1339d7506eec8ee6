#!/usr/bin/python
# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Manage the munge key of a machine."""

from __future__ import annotations

DOCUMENTATION = r"""
module: munge_key
short_description: Manage the munge key of a machine
version_added: 0.1.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Writes the munge key of the cluster to a machine, or keeps the present key and returns it for the other machines.
  - A key is binary, so M(ansible.builtin.copy) cannot write it from a variable.
  - Every task that uses this module needs C(no_log), because it returns the key.
extends_documentation_fragment:
  - hpcai.gpucluster._attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
    details: A key is a secret.
  idempotent:
    support: full
options:
  key:
    description:
      - The key in base64, 32 to 1024 bytes.
      - Without it the machine keeps its key, or gets a random one if it has none.
    type: str
  path:
    description: Path of the key file.
    type: path
    default: /etc/munge/munge.key
  owner:
    description: Owner of the file.
    type: str
    default: munge
  group:
    description: Group of the file.
    type: str
    default: munge
"""

EXAMPLES = r"""
- name: Create the key on one machine
  hpcai.gpucluster.munge_key:
  register: __munge_key
  no_log: true

- name: Copy it to another machine
  hpcai.gpucluster.munge_key:
    key: "{{ __munge_key.key }}"
  no_log: true
"""

RETURN = r"""
key:
  description: The key in base64. In check mode on a machine without a key, it is a random key that is not written.
  returned: when O(key) was not given
  type: str
  sample: VALUE_SPECIFIED_IN_NO_LOG_PARAMETER
"""

import grp
import os
import pwd
import typing as t
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import munge_key, whole_file

# Accessible to the owner only, as munged requires.
MODE = 0o400


def read(path: Path) -> bytes | None:
    """Return the present key, or None."""
    return path.read_bytes() if path.exists() else None


def write(path: Path, key: bytes, owner: int, group: int) -> None:
    """Write the key atomically with its owner and mode, so that nobody else can read it at any moment."""
    whole_file.replace(str(path), key, MODE, (owner, group))


def number(name: str, find: t.Callable[[str], t.Any]) -> int:
    """Return the UID or GID of a name; raises MungeKeyError."""
    try:
        return int(name) if name.isdigit() else int(find(name)[2])
    except KeyError as exc:
        raise munge_key.MungeKeyError(f"there is no {name} on this machine; install munge first") from exc


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "key": {"type": "str", "no_log": True},
            "path": {"type": "path", "default": "/etc/munge/munge.key"},
            "owner": {"type": "str", "default": "munge"},
            "group": {"type": "str", "default": "munge"},
        },
        supports_check_mode=True,
    )
    path = Path(module.params["path"])
    try:
        present = read(path)
        wanted = munge_key.choose(present, module.params["key"], os.urandom)
    except (munge_key.MungeKeyError, OSError) as exc:
        module.fail_json(msg=f"munge key {path}: {exc}")

    changed = wanted != present
    if changed and not module.check_mode:
        try:
            owner, group = number(module.params["owner"], pwd.getpwnam), number(module.params["group"], grp.getgrnam)
            write(path, wanted, owner, group)
        except (munge_key.MungeKeyError, OSError) as exc:
            module.fail_json(msg=f"munge key {path}: {exc}")
    if path.exists() and not (changed and module.check_mode):
        attributes = module.load_file_common_arguments({**module.params, "mode": f"{MODE:04o}"}, path=str(path))
        changed = module.set_fs_attributes_if_different(attributes, changed)
    # Ansible hides the given key wherever it appears in a result, so only a key of the machine can be returned.
    result = {} if module.params["key"] else {"key": munge_key.encode(wanted)}
    module.exit_json(changed=changed, **result)


if __name__ == "__main__":
    main()
