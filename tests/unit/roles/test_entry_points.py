# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All roles have one skeleton: entry points by the same names, each with a specification and a line in the README."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest
from ansible.module_utils.common.yaml import yaml_load

ROOT = Path(__file__).parents[3]
ROLES = sorted(path for path in (ROOT / "roles").iterdir() if path.is_dir())
CALLERS = [
    path
    for folder in ("playbooks", "molecule", "docs", "roles", "tests")
    for path in sorted((ROOT / folder).rglob("*"))
    if path.suffix in (".yml", ".md") and "fixtures" not in path.parts
]
# Other names of the entry points `check_input` and `remove`.
OTHER_NAMES = re.compile(r"validate(_|$)|preflight|check$|absent$|uninstall|cleanup|clean$")


def _specs(role: Path) -> dict[str, t.Any]:
    text = (role / "meta/argument_specs.yml").read_text(encoding="utf-8")
    return t.cast("dict[str, t.Any]", yaml_load(text)["argument_specs"])


def _called() -> set[tuple[str, str]]:
    """Return role and entry point of each call from outside, with the roles of a loop."""
    found = set()
    for path in CALLERS:
        text = path.read_text(encoding="utf-8")
        for name, rest in re.findall(r"name: \"?hpcai\.gpucluster\.(\{\{.*?\}\}|\w+)\"?\n((?:.*\n){1,3})", text):
            points = re.search(r"tasks_from: (.+)", rest)
            roles = re.findall(r"\w+", "".join(re.findall(r"loop: (\[[a-z_, ]+\])", text))) if "{" in name else [name]
            words = re.findall(r"'(\w+)'", points[1]) or [points[1].strip()] if points else ["main"]
            found |= {(role, word) for role in roles for word in words if (ROOT / "roles" / role).is_dir()}
    return found


CALLED = sorted(_called())


def test_calls_are_found() -> None:
    assert {("nfs", "server"), ("nfs", "remove"), ("scratch", "remove"), ("pyxis", "remove")} <= set(CALLED)
    assert {("enroot", "check_input"), ("users", "main"), ("base", "remove")} <= set(CALLED)


@pytest.mark.parametrize(("role", "point"), CALLED)
def test_a_called_entry_point_has_a_specification(role: str, point: str) -> None:
    assert point in _specs(ROOT / "roles" / role)


@pytest.mark.parametrize("role", ROLES, ids=lambda path: path.name)
def test_input_is_checked_and_a_role_is_removed_by_one_name(role: Path) -> None:
    names = {path.stem for path in (role / "tasks").glob("*.yml")} | set(_specs(role))

    assert not [name for name in names if OTHER_NAMES.match(name)]
    readme = (role / "README.md").read_text(encoding="utf-8")
    for name in ("check_input", "remove"):
        assert name in _specs(role) or f"no `{name}`, because" in " ".join(readme.split()), name
