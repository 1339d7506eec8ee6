#!/usr/bin/python
# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module that sets the limits of users on an XFS file system."""

from __future__ import annotations

DOCUMENTATION = r"""
module: xfs_quotas
short_description: Limit the space of users on an XFS file system
version_added: 0.3.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Sets the hard limit of each user on a mounted XFS file system. All other users have the default.
  - A new default also applies to users who have files already. XFS itself applies it only to users without files.
  - Root has no limit. Soft limits, limits for numbers of files, and quotas of groups and projects stay as they are.
  - Users are found on the managed node, so it must know their names. A number is a UID.
extends_documentation_fragment:
  - hpcai.gpucluster._attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
    details: Shows the limits in KiB by UID. UID 0 has the default.
  idempotent:
    support: full
requirements:
  - C(xfs_quota) of xfsprogs
options:
  path:
    description: Mount point of the file system, which must be mounted with the option C(uquota).
    type: path
    required: true
  default:
    description:
      - Space of each user, as a whole number with V(K), V(M), V(G), V(T) or V(P), which are powers of 1024.
      - If empty, users without an entry in O(users) have no limit.
    type: str
    default: ""
  users:
    description: Space of single users, by name or UID, in the form of O(default).
    type: dict
    default: {}
notes:
  - XFS cannot begin to count while a file system is mounted. Without the mount option C(uquota), the module changes
    nothing, and RV(pending) says so.
  - If the managed node does not know a user, the module warns. The user has the default until the next run.
"""

EXAMPLES = r"""
- name: Give each user 500 GiB, and alice 2 TiB
  hpcai.gpucluster.xfs_quotas:
    path: /home
    default: 500G
    users: {alice: 2T}
"""

RETURN = r"""
pending:
  description: Why the limits cannot be set before the file system is mounted again. Empty if they are set.
  returned: success
  type: str
  sample: ""
limits:
  description: Limits that were set, in KiB by UID. UID 0 has the default.
  returned: success
  type: dict
  sample: {"0": 524288000, "1000": 2147483648}
"""

import pwd
import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.gpucluster.plugins.module_utils._storage import quotas
from ansible_collections.hpcai.gpucluster.plugins.module_utils._storage.errors import StorageError
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import bounded_run
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host

SPEC: dict[str, t.Any] = {
    "path": {"type": "path", "required": True},
    "default": {"type": "str", "default": ""},
    "users": {"type": "dict", "default": {}},
}


def uid_of(name: str) -> int | None:
    """Return the UID of a user, or None if this machine does not know the user."""
    if name.isdigit():
        return int(name)
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        return None


def reconcile(
    host: Host, params: t.Mapping[str, t.Any], check_mode: bool, find: t.Callable[[str], int | None] = uid_of
) -> tuple[dict[str, t.Any], list[str]]:
    """Set the limits; return the result and the warnings."""
    path = params["path"]
    try:
        default = quotas.kib(params["default"])
        users = {str(name): quotas.kib(str(size)) for name, size in params["users"].items()}
    except ValueError as exc:
        raise StorageError(f"{path}: {exc}") from exc
    found = quotas.Quotas(host, path)
    pending = found.problem()
    if pending:
        # Without a file system yet, check mode is in its first run. Nothing to limit is nothing to wait for.
        wanted = bool(default or users)
        told = [f"{path}: the quotas wait: {pending}"] if wanted and not check_mode else []
        return {"changed": wanted and check_mode, "pending": pending if wanted else "", "limits": {}}, told
    uids = {name: find(name) for name in users}
    unknown = sorted(name for name, uid in uids.items() if uid is None)
    before = found.read()
    limits = quotas.changes(before, default, {uid: users[name] for name, uid in uids.items() if uid})
    if limits and not check_mode:
        found.set(limits)
    result = {
        "changed": bool(limits),
        "pending": "",
        "limits": {str(uid): limit for uid, limit in limits.items()},
        "diff": {
            "before_header": path,
            "after_header": path,
            "before": _lines({uid: before.get(uid, 0) for uid in limits}),
            "after": _lines(limits),
        },
    }
    return result, [f"{path}: no user {name} here; the default applies until a run that finds it" for name in unknown]


def _lines(limits: t.Mapping[int, int]) -> str:
    return "".join(f"{uid} {limit}\n" for uid, limit in limits.items())


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True)
    try:
        result, warnings = reconcile(
            Host(bounded_run.feeding_runner(bounded_run.CHANGE)), module.params, module.check_mode
        )
    except StorageError as exc:
        module.fail_json(msg=str(exc))
    for warning in warnings:
        module.warn(warning)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
