# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What every role promises, which no linter checks."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
from ansible.module_utils.common.yaml import yaml_load

from ansible_collections.hpcai.gpucluster.tests.unit.support.places import expect_none, place

ROLES = sorted(path for path in (Path(__file__).parents[3] / "roles").iterdir() if path.is_dir())


@pytest.fixture(params=ROLES, ids=lambda path: path.name)
def role(request: pytest.FixtureRequest) -> Path:
    return t.cast("Path", request.param)


def _load(path: Path) -> dict[str, t.Any]:
    return (yaml_load(path.read_text(encoding="utf-8")) or {}) if path.exists() else {}


def _options(role: Path) -> dict[str, dict[str, t.Any]]:
    specs = _load(role / "meta/argument_specs.yml")["argument_specs"]
    return {name: option for spec in specs.values() for name, option in (spec.get("options") or {}).items()}


def test_every_entry_point_has_a_spec(role: Path) -> None:
    specs = role / "meta/argument_specs.yml"

    expect_none(
        f"{place(specs, f'  {point}:')}: remove the entry point `{point}`, or add {place(role / f'tasks/{point}.yml')}"
        for point in _load(specs)["argument_specs"]
        if not (role / f"tasks/{point}.yml").exists()
    )


def test_every_default_is_documented(role: Path) -> None:
    defaults = _load(role / "defaults/main.yml")
    options = _options(role)
    specs = role / "meta/argument_specs.yml"

    expect_none(
        [
            f"{place(specs, 'options:')}: add the option `{name}` (description, type, default: {json.dumps(value)}) to "
            "each entry point that reads it"
            for name, value in defaults.items()
            if name not in options
        ]
        + [
            f"{place(specs, f'{name}:')}: the default of `{name}` must be {json.dumps(value)}, as in "
            f"{place(role / 'defaults/main.yml', f'{name}:')}"
            for name, value in defaults.items()
            if name in options and "{{" not in str(value) and options[name].get("default") != value
        ]
    )


def test_every_documented_default_is_real(role: Path) -> None:
    defaults = _load(role / "defaults/main.yml")

    expect_none(
        f"{place(role / 'defaults/main.yml')}: add `{name}: {json.dumps(option.get('default'))}` with a comment, or "
        f"set required: true in {place(role / 'meta/argument_specs.yml', f'{name}:')}"
        for name, option in _options(role).items()
        if not option.get("required") and name not in defaults
    )


def test_descriptions_are_text(role: Path) -> None:
    """A colon and a space make a mapping of a sentence, which no tool notices."""
    specs = _load(role / "meta/argument_specs.yml")["argument_specs"]

    for spec in [*specs.values(), *_options(role).values()]:
        lines = spec["description"] if isinstance(spec["description"], list) else [spec["description"]]
        wrong = [line for line in lines if not isinstance(line, str)]
        where = place(role / "meta/argument_specs.yml", f"{next(iter(wrong[0]))}:" if wrong else "")
        assert not wrong, f"{where}: put this description in quotes, it has a colon and a space"


def test_names_carry_the_role_prefix(role: Path) -> None:
    prefixes = dict.fromkeys(role.glob("vars/*.yml"), f"__{role.name}_")

    expect_none(
        f"{place(path, f'{name}:')}: begin the name `{name}` with {prefix}"
        for path, prefix in {**prefixes, role / "defaults/main.yml": f"{role.name}_"}.items()
        for name in _load(path)
        if not name.startswith(prefix)
    )


def test_role_knows_neither_the_inventory_nor_another_role(role: Path) -> None:
    for path in [*role.glob("tasks/*.yml"), *role.glob("templates/*"), *role.glob("defaults/*.yml")]:
        text = path.read_text(encoding="utf-8")
        expect_none(
            f"{place(path, word)}: a role must not contain {word!r}: take it as an input, which the playbook sets"
            for word in ("groups[", "hostvars[", "include_role", "import_role")
            if word in text
        )
