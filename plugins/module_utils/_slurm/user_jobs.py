# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Find the jobs of users who get another UID or are removed. Such a user could not even cancel a job any more."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import bounded_run

if t.TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.bounded_run import Runner

# Pending, running, suspended and completing jobs, which squeue lists by default. No field has text of a user, such as
# the name of a job. The number of a part of an array is 17_3, and of parts that wait 17_[4-9].
_COMMAND = ("squeue", "--noheader", "--all", "--format=%U|%i|%T|%N")


class Unknown(Exception):  # noqa: N818
    """Slurm does not say which jobs it has. The message has the reason."""


def leaving(present: Mapping[str, int], users: Mapping[str, int], removed: Collection[str]) -> dict[str, int]:
    """Return the users of a machine who get another UID or are removed, with their present UID."""
    changed = [name for name, uid in users.items() if present.get(name, uid) != uid]
    return {name: present[name] for name in [*changed, *removed] if name in present}


def jobs(run: Runner, uids: Collection[int]) -> dict[int, list[str]]:
    """Return the jobs that have not ended, by UID. Without Slurm on the machine there are none."""
    code, out, err = run(_COMMAND)
    if code == bounded_run.MISSING:
        return {}
    if code:
        raise Unknown(f"squeue exited {code}: {(err or out).strip()}")
    found: dict[int, list[str]] = {}
    for line in out.splitlines():
        uid, *fields = line.split("|")
        if not uid.isdigit() or len(fields) != len(_COMMAND[-1].split("|")) - 1:
            raise Unknown(f"squeue printed {line!r}")
        if int(uid) in uids:
            number, state, nodes = fields
            found.setdefault(int(uid), []).append(f"{number} ({state}{f' on {nodes}' if nodes else ''})")
    return found
