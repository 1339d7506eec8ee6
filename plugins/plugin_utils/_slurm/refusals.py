# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Say what the state of a cluster refuses, from what a controller and the database answered. Pure functions."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import words
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import conf

if t.TYPE_CHECKING:
    from collections.abc import Mapping

    Answer = Mapping[str, t.Any]

_MOST = 10


def user_problems(state: Answer, users: Mapping[str, int], allowed: bool) -> list[str]:
    """Return why users cannot get another UID or be removed; C(state) is the result of slurm_state_info."""
    if allowed or not state["leaving"]:
        return []
    if state["problem"]:
        changes = ", ".join(_change(name, uid, users) for name, uid in state["leaving"].items())
        return [
            f"{changes}: nobody knows whether Slurm has jobs of these users: {state['problem']}. Start slurmctld, take"
            " the change back, or set slurm_allow_job_loss=true for one run."
        ]
    return [
        f"{_change(name, state['leaving'][name], users)}: Slurm has jobs of this user, who could not even cancel them"
        f" any more: {words.listed(jobs, _MOST)}. Wait for them with -e slurm_user_jobs_seconds=3600, or cancel them"
        f" with 'scancel --user={state['leaving'][name]}'."
        for name, jobs in state["jobs"].items()
    ]


def _change(name: str, uid: int, users: Mapping[str, int]) -> str:
    if name in users:
        return f"users_accounts ({name}): uid {uid} becomes {users[name]}"
    return f"users_deleted ({name}): uid {uid} is removed"


def database_problems(state: Answer, database: Answer, host: str, slurm_conf: str, new: bool) -> list[str]:
    """
    Return why the accounting must not begin anew.

    C(database) is the result of slurm_database_info on C(host), without clusters if they are unknown. A cluster without
    saved state is new. One whose slurm.conf has no slurmdbd begins its accounting.
    """
    cluster, clusters = state["cluster"], database.get("clusters")
    if new or not cluster or clusters is None or cluster in clusters or not _accounts(slurm_conf):
        return []
    way = (
        f"Run this on {host}: {database['restore']}\n'gpucluster-backup list' shows older backups. If {host} has no"
        " MariaDB any more, set slurm_new_database=true for one run, and restore then."
        if database["restore"]
        else f"{host} has no backup. Restore the database, or set slurm_new_database=true for one run to begin anew."
    )
    others = f"; it has {', '.join(clusters)}, whose records a restore replaces, too" if clusters else ""
    return [
        f"slurm_database: Slurm has the state of the cluster {cluster}, but the database on {host} does not know this"
        f" cluster{others}. A new database would have no record of its jobs. {way}"
    ]


def _accounts(slurm_conf: str) -> bool:
    """Return whether a cluster may have had accounting. Without a readable slurm.conf, it may."""
    try:
        keys = {key.lower(): str(value) for key, value, __ in conf.parse(slurm_conf)}
    except ValueError:
        return True
    return not keys or keys.get("accountingstoragetype", "").endswith("slurmdbd")
