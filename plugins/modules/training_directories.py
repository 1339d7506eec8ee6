#!/usr/bin/python
# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module that makes the directories of the trainer."""

from __future__ import annotations

DOCUMENTATION = r"""
module: training_directories
short_description: Make the directories of the trainer on shared storage
version_added: 0.3.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Makes C(trainer), C(recipes), C(jobs), C(data) and C(runs) for root with mode V(0755), and a directory in C(runs)
    for each user with mode V(0700). A user may let others read it.
  - Takes from others the right to write to them, which older releases gave. What users have made stays.
  - Fails, and changes nothing more, if a user could replace one of these directories or what root downloads to C(data).
    A job goes on from the checkpoints of its directory, and a checkpoint can contain programs.
extends_documentation_fragment:
  - hpcai.gpucluster._attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: full
options:
  path:
    description: The directory above them.
    type: path
    required: true
  user:
    description: A user whom this machine must know, except in check mode. The user root is refused.
    type: str
  users:
    description: More users. Whom this machine does not know gets no directory, and is returned in RV(unknown).
    type: list
    elements: str
    default: []
  data:
    description: Names of files in C(data) that root will download. One that is there must belong to root.
    type: list
    elements: str
    default: []
seealso:
  - module: hpcai.gpucluster.training_log_info
"""

EXAMPLES = r"""
- name: Make the directories, and let alice and bob train
  hpcai.gpucluster.training_directories:
    path: /shared/training
    user: alice
    users: [alice, bob]
"""

RETURN = r"""
paths:
  description: The directories that were made or changed.
  returned: success
  type: list
  elements: str
  sample: [/shared/training/runs/alice]
unknown:
  description: Users of O(users) whom this machine does not know.
  returned: success
  type: list
  elements: str
  sample: []
"""

import pwd
import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.gpucluster.plugins.module_utils._training import trust
from ansible_collections.hpcai.gpucluster.plugins.module_utils._training.directories import Account, Directories


def accounts(names: t.Iterable[str]) -> tuple[list[Account], list[str]]:
    """Return the users of this machine, and the names that it does not know."""
    found, unknown = [], []
    for name in dict.fromkeys(names):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            unknown.append(name)
            continue
        if entry.pw_uid == 0:
            raise trust.TrustError(f"{name} is root, who does not train, because a checkpoint can contain programs")
        found.append(Account(entry.pw_name, entry.pw_uid, entry.pw_gid))
    return found, unknown


def main() -> None:
    """Run the module."""
    names: dict[str, t.Any] = {"type": "list", "elements": "str", "default": []}
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "user": {"type": "str"},
            "users": names,
            "data": names,
        },
        supports_check_mode=True,
    )
    params = module.params
    needed = [params["user"]] if params["user"] else []
    try:
        found, unknown = accounts([*needed, *params["users"]])
        if needed and needed[0] in unknown and not module.check_mode:
            module.fail_json(msg=f"user: found {needed[0]}; allowed: a user whom this machine knows (getent passwd)")
        directories = Directories(params["path"], module.check_mode)
        directories.settle(found, params["data"])
    except trust.TrustError as exc:
        module.fail_json(msg=str(exc))
    except OSError as exc:
        module.fail_json(msg=f"{exc.filename or params['path']}: {exc.strerror}")
    unknown = [name for name in unknown if name not in needed]
    if unknown and not module.check_mode:
        module.warn(f"users: this machine does not know {', '.join(unknown)}, who got no directory")
    module.exit_json(changed=bool(directories.changed), paths=directories.changed, unknown=unknown)


if __name__ == "__main__":
    main()
