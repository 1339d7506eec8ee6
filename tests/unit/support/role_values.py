# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a role makes of its input, by Ansible's own templating; no machine is touched."""

from __future__ import annotations

import json
import subprocess
import sys
import typing as t
from pathlib import Path

import yaml

from ansible_collections.hpcai.gpucluster.tests.patience import PATIENCE

ROOT = Path(__file__).parents[3]


def role_values(
    folder: Path, role: str, expression: str, cases: t.Mapping[str, t.Mapping[str, t.Any]]
) -> dict[str, t.Any]:
    """Return the value of an expression in each case; a case is the variables of one host of an inventory."""
    files = [ROOT / "roles" / role / name for name in ("defaults/main.yml", "vars/main.yml")]
    variables = {name: value for file in files for name, value in yaml.safe_load(file.read_text("utf-8")).items()}
    inventory = {"all": {"vars": variables, "hosts": {name: dict(case) for name, case in cases.items()}}}
    output = folder / "{{ inventory_hostname }}"
    task = {
        "ansible.builtin.copy": {"dest": str(output), "content": "{{ {'value': " + expression + "} | to_json }}"},
        "vars": {"ansible_python_interpreter": sys.executable},
    }
    play = [{"hosts": "all", "gather_facts": False, "connection": "local", "tasks": [task]}]
    for name, content in (("hosts.json", inventory), ("play.json", play)):
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
    command = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", "hosts.json", "play.json"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return {name: json.loads((folder / name).read_text(encoding="utf-8"))["value"] for name in cases}
