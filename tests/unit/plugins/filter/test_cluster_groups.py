# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Older group names are mapped once, and cost nothing where there are none."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from ansible.errors import AnsibleFilterError
from ansible.module_utils.common.yaml import yaml_load

from ansible_collections.hpcai.gpucluster.plugins.filter.cluster_groups import cluster_groups
from ansible_collections.hpcai.gpucluster.tests.patience import cheap

PLAYBOOKS = sorted((Path(__file__).parents[4] / "playbooks").glob("*.yml"))
# Alone they have no machines; the lab has our groups.
WITHOUT_MACHINES = {"bundle_install", "check_controller", "groups", "lab_up"}
# They do not begin with the check: they apply no role's inputs to all machines, or others import them after it.
UNCHECKED = {"bundle", "check", "check_input", "pinning", "repair", "validate"}
# Plays come before their check. tests/integration runs them.
CHECKED_LATER = {"azure_scale", "node_remove", "storage"}


def test_machines_of_older_groups_join_ours() -> None:
    groups = {"slurm-master": ["head"], "slurm-nfs": ["head"], "slurm-node": ["n1", "n2"], "slurm_compute": ["n2"]}

    assert cluster_groups(groups) == [
        {"name": "head", "groups": ["slurm_controller", "nfs_server"]},
        {"name": "n1", "groups": ["slurm_compute"]},
    ]


def test_our_names_need_nothing() -> None:
    assert cluster_groups({"slurm_controller": ["head"], "slurm_compute": ["n1"], "rack-a": ["n1"]}) == []
    assert cluster_groups({"slurm-node": ["n1"], "slurm_compute": ["n1"]}) == []
    assert cluster_groups({}) == []


def test_ten_thousand_machines_take_no_second() -> None:
    with cheap(1):
        assert len(cluster_groups({"slurm-node": [f"n{number}" for number in range(10_000)]})) == 10_000


def test_what_is_no_mapping_is_refused() -> None:
    with pytest.raises(AnsibleFilterError, match="expected the variable groups"):
        cluster_groups(["head"])  # type: ignore[arg-type]


@pytest.mark.parametrize("path", PLAYBOOKS, ids=lambda path: path.stem)
def test_plays_name_groups_and_the_older_names_are_mapped_first(path: Path) -> None:
    plays = yaml_load(path.read_text(encoding="utf-8"))
    hosts = " ".join(str(play.get("hosts", "")) for play in plays)
    parts = [play for play in plays if str(play.get("ansible.builtin.import_playbook")).startswith("parts/")]

    assert "~" not in hosts, "a group, not a regular expression"
    if path.stem in WITHOUT_MACHINES or not (parts or "slurm_" in hosts or "nfs_" in hosts):
        return
    first = plays[0].get("ansible.builtin.import_playbook")
    assert first in ("groups.yml", "check_input.yml"), "a run of this playbook alone has to know older group names"
    checked = path.stem not in UNCHECKED | CHECKED_LATER
    assert (first == "check_input.yml") == checked, "its input is not checked first"


def test_each_part_of_the_site_runs_alone_after_the_same_checks() -> None:
    parts = {f"parts/{path.name}" for path in PLAYBOOKS[0].parent.glob("parts/*.yml")}
    imported = {
        path.name: [str(play.get("ansible.builtin.import_playbook")) for play in _plays(path)] for path in PLAYBOOKS
    }

    assert parts <= set(imported["site.yml"])
    for part in parts:
        assert part in imported[part.removeprefix("parts/")]
    # What site.yml checks once, each part that changes Slurm's machines checks when it runs alone.
    for name in ("site.yml", "users.yml", "slurm.yml"):
        assert imported[name][:2] == ["check_input.yml", "check_controller.yml"]


def _plays(path: Path) -> list[dict[str, t.Any]]:
    return list(yaml_load(path.read_text(encoding="utf-8")))
