# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which machines the plays of the playbook teardown take."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import typing as t
from pathlib import Path

CHECKOUT = Path(__file__).parents[3]


def _plays(tmp_path: Path, **groups: str) -> dict[str, list[str]]:
    """Return the machines of each play, where each group has one."""
    children: dict[str, t.Any] = {group: {"hosts": {host: {}}} for group, host in groups.items()}
    path = tmp_path / "inventory.json"
    path.write_text(json.dumps({"all": {"children": children}}), encoding="utf-8")
    command = [
        str(Path(sys.executable).parent / "ansible-playbook"),
        "-i",
        str(path),
        "--list-hosts",
        "playbooks/teardown.yml",
    ]
    environment = os.environ | {"ANSIBLE_CONFIG": str(CHECKOUT / "ansible.cfg")}
    output = subprocess.run(
        command, cwd=CHECKOUT, env=environment, capture_output=True, text=True, timeout=120, check=True
    ).stdout
    found = re.findall(r"\): (.+?)\s+TAGS:.*\n.*\n    hosts \(\d+\):((?:\n      \S+)*)", output)
    return {name: hosts.split() for name, hosts in found}


def test_the_database_goes_wherever_it_is(tmp_path: Path) -> None:
    plays = _plays(tmp_path, slurm_controller="head", slurm_database="head", slurm_login="head", slurm_compute="gpu1")

    assert plays["Remove the database"] == plays["End all jobs"] == ["head"]
    assert list(plays).index("Remove the database") < list(plays).index("Remove the nodes")
    assert sorted(plays["Remove the nodes"] + plays["Remove controllers and the rest"]) == ["gpu1", "head"]
