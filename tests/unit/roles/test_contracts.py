# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What every role promises, which no linter checks."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
import yaml

ROLES = sorted(path for path in (Path(__file__).parents[3] / "roles").iterdir() if path.is_dir())


@pytest.fixture(params=ROLES, ids=lambda path: path.name)
def role(request: pytest.FixtureRequest) -> Path:
    return t.cast("Path", request.param)


def _load(path: Path) -> dict[str, t.Any]:
    return (yaml.safe_load(path.read_text(encoding="utf-8")) or {}) if path.exists() else {}


def _options(role: Path) -> dict[str, dict[str, t.Any]]:
    specs = _load(role / "meta/argument_specs.yml")["argument_specs"]
    return {name: option for spec in specs.values() for name, option in (spec.get("options") or {}).items()}


def test_every_entry_point_has_a_spec(role: Path) -> None:
    specs = _load(role / "meta/argument_specs.yml")["argument_specs"]

    for entry_point in specs:
        assert (role / f"tasks/{entry_point}.yml").exists(), entry_point


def test_every_default_is_documented(role: Path) -> None:
    defaults = _load(role / "defaults/main.yml")
    options = _options(role)

    assert set(defaults) <= set(options)
    for name, value in defaults.items():
        if "{{" not in str(value):
            assert options[name].get("default") == value, name


def test_every_documented_default_is_real(role: Path) -> None:
    defaults = _load(role / "defaults/main.yml")

    for name, option in _options(role).items():
        assert option.get("required") or name in defaults, name


def test_descriptions_are_text(role: Path) -> None:
    """A colon and a space make a mapping of a sentence, which no tool notices."""
    specs = _load(role / "meta/argument_specs.yml")["argument_specs"]

    for spec in [*specs.values(), *_options(role).values()]:
        lines = spec["description"] if isinstance(spec["description"], list) else [spec["description"]]
        assert all(isinstance(line, str) for line in lines), lines


def test_names_carry_the_role_prefix(role: Path) -> None:
    assert all(name.startswith(f"{role.name}_") for name in _load(role / "defaults/main.yml"))
    assert all(name.startswith(f"__{role.name}_") for path in role.glob("vars/*.yml") for name in _load(path))


def test_role_knows_neither_the_inventory_nor_another_role(role: Path) -> None:
    for path in [*role.glob("tasks/*.yml"), *role.glob("templates/*"), *role.glob("defaults/*.yml")]:
        text = path.read_text(encoding="utf-8")
        assert "groups[" not in text, path
        assert "hostvars[" not in text, path
        assert "include_role" not in text, path
        assert "import_role" not in text, path
