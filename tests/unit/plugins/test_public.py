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
from ansible.module_utils.common.yaml import yaml_load

from ansible_collections.hpcai.gpucluster.tests.unit.support.places import expect_none, place

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

    used = any(map(name.search, [*USERS, *PAGES])) or any(f"`{path.stem}`" in text for text in PAGES)
    assert used, (
        f"{place(path)}: nothing uses the filter: call hpcai.gpucluster.{path.stem} in a role or a playbook, or "
        f"describe `{path.stem}` in a page of docs/"
    )


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_a_module_is_used_by_a_role_a_playbook_or_an_action(path: Path) -> None:
    name = re.compile(rf"hpcai\.gpucluster\.{path.stem}\b")
    code = [*(ROOT / "plugins/action").glob("*.py"), *(ROOT / "plugins/plugin_utils").rglob("*.py")]
    actions = [file.read_text(encoding="utf-8") for file in code]

    used = any(map(name.search, [*USERS, *actions]))
    assert used, f"{place(path)}: nothing uses the module: call hpcai.gpucluster.{path.stem} in a role or a playbook"


@pytest.mark.parametrize("path", [*FILTERS, *MODULES], ids=lambda path: path.stem)
def test_each_plugin_says_what_it_takes_and_returns(path: Path) -> None:
    texts = _texts(path)
    where = place(path, "DOCUMENTATION =")
    expect_none(
        f'{where}: add {name} = r"""..."""' for name in ("DOCUMENTATION", "EXAMPLES", "RETURN") if name not in texts
    )
    documentation, returned = (yaml_load(texts[name]) for name in ("DOCUMENTATION", "RETURN"))

    faults = [] if documentation.get("description") else [f"{where}: add description to DOCUMENTATION"]
    if path in MODULES and "_attributes" not in str(documentation.get("extends_documentation_fragment")):
        faults.append(
            f"{where}: add the attributes to DOCUMENTATION: extends_documentation_fragment with a fragment of "
            "plugins/doc_fragments/_attributes.py, such as hpcai.gpucluster._attributes.info_module"
        )
    for text, values, parts in (
        ("DOCUMENTATION", documentation.get("options"), "suboptions"),
        ("RETURN", returned, "contains"),
    ):
        for name in _described(values or {}, parts):
            faults.append(
                f"{place(path, f'{name.rpartition(chr(46))[2]}:')}: add description and type of {name} to {text}"
            )
    if f"hpcai.gpucluster.{path.stem}" not in texts["EXAMPLES"]:
        faults.append(f"{place(path, 'EXAMPLES =')}: add an example that calls hpcai.gpucluster.{path.stem}")
    expect_none(faults)


@pytest.mark.parametrize("path", FILTERS, ids=lambda path: path.stem)
def test_no_filter_imports_another(path: Path) -> None:
    assert "plugins.filter" not in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_a_module_that_only_reads_is_named_info(path: Path) -> None:
    fragments = yaml_load(_texts(path).get("DOCUMENTATION", "{}")).get("extends_documentation_fragment") or []

    # Those of this list fail for what they find, wait, measure, or run what they are given.
    asserts = (
        *("older_names", "vm_sizes"),
        *(
            "check_controller",
            "check_input",
            "nccl_test",
            "slurm_job",
            "slurm_release",
            "slurm_wait",
            "validation_stage",
        ),
        "validation_report",
    )
    reads = "hpcai.gpucluster._attributes.info_module" in fragments
    named = path.stem.endswith("_info") or path.stem in asserts
    assert not reads or named, (
        f"{place(path, '_attributes.info_module')}: name the module {path.stem}_info, or add it to `asserts` in "
        f"{place(Path(__file__), 'asserts = (')}"
    )


WITH_OPTIONS = [
    path
    for path in (*FILTERS, *MODULES)
    if yaml_load(_texts(path).get("DOCUMENTATION", "options: {unknown: {}}")).get("options")
]


@pytest.mark.parametrize("path", WITH_OPTIONS, ids=lambda path: path.stem)
def test_what_has_options_has_unit_tests_by_its_name(path: Path) -> None:
    found = list((ROOT / "tests/unit/plugins").rglob(f"test_{path.stem}.py"))

    wanted = f"tests/unit/plugins/{path.parent.name}/test_{path.stem}.py"
    tested = any("def test_" in one.read_text(encoding="utf-8") for one in found)
    assert tested, f"{place(path)} has options but no unit test: add {wanted}"
