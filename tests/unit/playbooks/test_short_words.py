# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Short words for the command line, which a site's inventory may use for something else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ansible.module_utils.common.yaml import yaml_load

ROOT = Path(__file__).parents[3]
WORDS = {
    "azure_scale": ["nodes"],
    "gpu_clocks": ["state"],
    "lab_fault": ["node", "fault"],
    "node_remove": ["node"],
    "repair": ["node"],
    "teardown": ["teardown"],
    "validate": ["nodes", "nodelist", "partition", "only", "baseline"],
}


@pytest.mark.parametrize("playbook", WORDS)
def test_only_the_command_line_is_stronger_than_the_playbook(playbook: str) -> None:
    plays = yaml_load((ROOT / f"playbooks/{playbook}.yml").read_text(encoding="utf-8"))
    first = next(play for play in plays if "hosts" in play)

    assert set(WORDS[playbook]) <= set(first["vars"])


@pytest.mark.parametrize(
    "path", sorted([*ROOT.glob("playbooks/*.yml"), *ROOT.glob("playbooks/parts/*.yml")]), ids=lambda path: path.stem
)
def test_every_short_word_of_a_playbook_is_known_here(path: Path) -> None:
    used = set(re.findall(r"-e '?([a-z]+)=", path.read_text(encoding="utf-8")))

    assert used <= set(WORDS.get(path.stem, []))


@pytest.mark.parametrize("path", sorted((ROOT / "roles").glob("*/defaults/main.yml")), ids=lambda path: path.parts[-3])
def test_no_role_takes_a_bare_word(path: Path) -> None:
    bare = set(re.findall(r"[{(\[]\s*([a-z]+)\s*\|\s*default", path.read_text(encoding="utf-8")))

    assert bare <= {"users"}, "users is the name that older playbooks of the field have for users_accounts"
