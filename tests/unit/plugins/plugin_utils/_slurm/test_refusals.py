# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the answers of a controller and of the database refuse."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import refusals

WITH, WITHOUT = (f"ClusterName=lab\nAccountingStorageType=accounting_storage/{kind}\n" for kind in ("slurmdbd", "none"))
RESTORE = "gpucluster-backup restore 20261125T020000Z --part database"


def state(**given: t.Any) -> dict[str, t.Any]:
    return {"cluster": "", "leaving": {}, "jobs": {}, "problem": "", **given}


def test_another_uid_is_refused_with_the_jobs_and_what_to_do() -> None:
    busy = state(leaving={"alice": 2001, "bob": 2002}, jobs={"alice": ["17 (RUNNING on gpu1)", "18_[2-9] (PENDING)"]})

    (problem,) = refusals.user_problems(busy, {"alice": 2101, "bob": 2102}, allowed=False)

    assert problem.startswith("users_accounts (alice): uid 2001 becomes 2101: Slurm has jobs of this user")
    assert "17 (RUNNING on gpu1), 18_[2-9] (PENDING). Wait for them with -e slurm_user_jobs_seconds=3600" in problem
    assert "scancel --user=2001" in problem
    assert refusals.user_problems(busy, {"alice": 2101}, allowed=True) == []


def test_a_removal_is_refused_and_long_lists_are_shortened() -> None:
    busy = state(leaving={"mallory": 2666}, jobs={"mallory": [f"{number} (PENDING)" for number in range(200)]})

    (problem,) = refusals.user_problems(busy, {}, allowed=False)

    assert problem.startswith("users_deleted (mallory): uid 2666 is removed: ")
    assert "9 (PENDING) and 190 more" in problem


def test_unknown_jobs_refuse_a_change_and_nothing_else() -> None:
    down = "squeue exited 1: Unable to contact slurm controller"

    (problem,) = refusals.user_problems(state(leaving={"alice": 2001}, problem=down), {"alice": 2101}, allowed=False)

    assert f"nobody knows whether Slurm has jobs of these users: {down}. Start slurmctld" in problem
    assert refusals.user_problems(state(problem=down), {"alice": 2001}, allowed=False) == []
    assert refusals.user_problems(state(leaving={"alice": 2001}), {"alice": 2101}, allowed=False) == []


def database(clusters: list[str] | None, restore: str = RESTORE) -> dict[str, t.Any]:
    return {"clusters": clusters, "reason": "", "restore": restore}


@pytest.mark.parametrize("clusters", [[], ["another"]], ids=["empty", "shared"])
@pytest.mark.parametrize("conf", [WITH, "", "=broken"])
def test_a_database_that_lost_the_cluster_is_refused(clusters: list[str], conf: str) -> None:
    known = state(cluster="lab")

    (problem,) = refusals.database_problems(known, database(clusters), "db1", conf, new=False)

    assert problem.startswith("slurm_database: Slurm has the state of the cluster lab, but the database on db1 ")
    assert f"Run this on db1: {RESTORE}\n" in problem
    assert ("it has another" in problem) == bool(clusters)
    assert refusals.database_problems(known, database(clusters), "db1", conf, new=True) == []


def test_without_a_backup_it_says_so() -> None:
    (problem,) = refusals.database_problems(state(cluster="lab"), database([], ""), "db1", WITH, new=False)

    assert "db1 has no backup. Restore the database, or set slurm_new_database=true" in problem


@pytest.mark.parametrize(
    ("cluster", "clusters", "conf"),
    [
        ("", [], ""),
        ("", ["another"], ""),
        ("lab", ["lab", "another"], WITH),
        ("lab", [], WITHOUT),
        ("lab", None, WITH),
    ],
    ids=["first run", "shared database", "known", "first accounting", "unknown"],
)
def test_others_are_not_refused(cluster: str, clusters: list[str] | None, conf: str) -> None:
    assert refusals.database_problems(state(cluster=cluster), database(clusters), "db1", conf, new=False) == []
