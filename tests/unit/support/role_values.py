# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a role makes of its input, by Ansible's own templating; no machine is touched."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

ROOT = Path(__file__).parents[3]


def role_values(
    folder: Path, role: str, expression: str, cases: t.Mapping[str, t.Mapping[str, t.Any]]
) -> dict[str, t.Any]:
    """Return the value of an expression in each case: the variables of one host, whose play is in C(folder)."""
    loader = DataLoader()
    loader.set_basedir(str(folder))
    files = [ROOT / "roles" / role / name for name in ("defaults/main.yml", "vars/main.yml")]
    variables: dict[str, t.Any] = {}
    for file in files:
        variables |= t.cast("dict[str, t.Any]", loader.load_from_file(str(file), trusted_as_template=True))
    content = trust_as_template("{{ {'value': " + expression + "} | to_json }}")
    found = {}
    for name, case in cases.items():
        given = {"inventory_hostname": name, **_trusted(case)}
        found[name] = json.loads(Templar(loader=loader, variables={**variables, **given}).template(content))["value"]
    return found


def _trusted(value: t.Any) -> t.Any:
    """Return a value of an inventory, whose texts are templates."""
    if isinstance(value, str):
        return trust_as_template(value)
    if isinstance(value, t.Mapping):
        return {key: _trusted(item) for key, item in value.items()}
    return [_trusted(item) for item in value] if isinstance(value, (list, tuple)) else value
