# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each variable that the collection had once is refused by name, wherever an inventory has it."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import yaml

if t.TYPE_CHECKING:
    from ansible_collections.hpcai.gpucluster.tests.integration.conftest import Run

TABLE = Path(__file__).parents[3] / "plugins/plugin_utils/_inputs/removed.yml"
# check_input prints so many faults at most.
PART = 35


def test_each_removed_variable_is_refused_with_its_replacement(run: Run) -> None:
    rows = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    gone = {name.replace("*", "enabled"): instead for instead, names in rows.items() for name in names}
    names = sorted(gone)

    for part in (names[start : start + PART] for start in range(0, len(names), PART)):
        node = {"ansible_host": "127.0.0.1", "ansible_port": 1, "gpucluster_vm_size": "lab"}
        inventory = {
            "slurm_controller": {"hosts": {"head": {"ansible_host": "127.0.0.1", "ansible_port": 1}}},
            "slurm_compute": {"hosts": {"gpu1": {**node, **dict.fromkeys(part, "x")}}},
        }
        code, output = run(inventory, "playbooks/check_input.yml", ANSIBLE_CALLBACK_RESULT_FORMAT="json")
        said = re.sub(r"\s+", " ", output)

        assert code == 2
        lacking = [name for name in part if f"{name}: found a variable that the collection does not read" not in said]
        assert lacking == []
        assert [gone[name] for name in part if " ".join(gone[name].split())[:40] not in said.replace('\\"', '"')] == []
