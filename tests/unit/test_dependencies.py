# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The collections that ours needs are those that its installation brings."""

from __future__ import annotations

import re
from pathlib import Path

from ansible.module_utils.common.yaml import yaml_load

ROOT = Path(__file__).parents[2]
TASK = re.compile(r"^ *(?:- )?([a-z]+\.[a-z_]+)\.[a-z_]+:(?: |$)", re.MULTILINE)
OURS = {"ansible.builtin", "hpcai.gpucluster"}


def test_galaxy_names_every_collection_whose_modules_are_used() -> None:
    places = ("roles/*/tasks/*.yml", "roles/*/handlers/*.yml", "playbooks/*.yml", "playbooks/parts/*.yml")
    files = [path for place in places for path in ROOT.glob(place)]
    used = {name for path in files for name in TASK.findall(path.read_text(encoding="utf-8"))} - OURS

    assert used == set(yaml_load((ROOT / "galaxy.yml").read_text(encoding="utf-8"))["dependencies"])


def test_a_checkout_asks_for_the_same_collections() -> None:
    galaxy = yaml_load((ROOT / "galaxy.yml").read_text(encoding="utf-8"))["dependencies"]
    wanted = yaml_load((ROOT / "requirements.yml").read_text(encoding="utf-8"))["collections"]

    assert {item["name"]: item["version"] for item in wanted} == galaxy
