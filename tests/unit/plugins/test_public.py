# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Public means wanted: each filter and module is used or described, and says what it takes, returns and is good for."""

from __future__ import annotations

import ast
import re
import typing as t
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[3]
FILTERS = sorted((ROOT / "plugins/filter").glob("*.py"))
MODULES = sorted((ROOT / "plugins/modules").glob("*.py"))
USERS = [
    path.read_text(encoding="utf-8")
    for folder, pattern in (("roles", "*/*/*"), ("playbooks", "**/*.*"), ("inventories", "**/*.yml"))
    for path in sorted((ROOT / folder).glob(pattern))
    if path.suffix in (".yml", ".j2")
]
PAGES = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").glob("*.md"))]


def _texts(path: Path) -> dict[str, str]:
    """Return the texts of a plugin that ansible-doc shows."""
    return {
        target.id: str(node.value.value)
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _described(values: t.Mapping[str, t.Any], parts: str) -> t.Iterator[str]:
    """Yield the names whose description or type is missing."""
    for name, value in values.items():
        if not value.get("description") or not value.get("type"):
            yield name
        for inner in _described(value.get(parts) or {}, parts):
            yield f"{name}.{inner}"


@pytest.mark.parametrize("path", FILTERS, ids=lambda path: path.stem)
def test_a_filter_is_used_by_a_role_or_a_playbook_or_described_for_users(path: Path) -> None:
    name = re.compile(rf"hpcai\.gpucluster\.{path.stem}\b")

    assert any(map(name.search, [*USERS, *PAGES])) or any(f"`{path.stem}`" in text for text in PAGES)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_a_module_is_used_by_a_role_a_playbook_or_an_action(path: Path) -> None:
    name = re.compile(rf"hpcai\.gpucluster\.{path.stem}\b")
    code = [*(ROOT / "plugins/action").glob("*.py"), *(ROOT / "plugins/plugin_utils").rglob("*.py")]
    actions = [file.read_text(encoding="utf-8") for file in code]

    assert any(map(name.search, [*USERS, *actions]))


@pytest.mark.parametrize("path", [*FILTERS, *MODULES], ids=lambda path: path.stem)
def test_each_plugin_says_what_it_takes_and_returns(path: Path) -> None:
    texts = _texts(path)
    documentation, returned = (yaml.safe_load(texts[name]) for name in ("DOCUMENTATION", "RETURN"))

    assert documentation["description"]
    assert not list(_described(documentation.get("options") or {}, "suboptions"))
    assert not list(_described(returned or {}, "contains"))
    assert f"hpcai.gpucluster.{path.stem}" in texts["EXAMPLES"]


@pytest.mark.parametrize("path", FILTERS, ids=lambda path: path.stem)
def test_no_filter_imports_another(path: Path) -> None:
    assert "plugins.filter" not in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_a_module_that_only_reads_is_named_info(path: Path) -> None:
    fragments = yaml.safe_load(_texts(path)["DOCUMENTATION"]).get("extends_documentation_fragment") or []

    # Those of this list fail for what they find, wait, measure, or run what they are given.
    asserts = (
        *("older_names", "vm_sizes"),
        *("check_input", "nccl_test", "slurm_job", "slurm_release", "slurm_wait", "validation_stage"),
        "validation_report",
    )
    reads = "hpcai.gpucluster._attributes.info_module" in fragments
    assert not reads or path.stem.endswith("_info") or path.stem in asserts


WITH_OPTIONS = [path for path in (*FILTERS, *MODULES) if yaml.safe_load(_texts(path)["DOCUMENTATION"]).get("options")]


@pytest.mark.parametrize("path", WITH_OPTIONS, ids=lambda path: path.stem)
def test_what_has_options_has_unit_tests_by_its_name(path: Path) -> None:
    found = list((ROOT / "tests/unit/plugins").rglob(f"test_{path.stem}.py"))

    assert any("def test_" in one.read_text(encoding="utf-8") for one in found)
