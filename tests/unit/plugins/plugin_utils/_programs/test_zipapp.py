# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs as one file: the same bytes for the same sources, complete, and without Ansible."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import typing as t
import zipfile

import pytest

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._programs import zipapp
from ansible_collections.hpcai.gpucluster.tests.patience import PATIENCE

if t.TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ENTRIES = ("_health.cli", "_nvidia.boot")
EVERY = sorted(zipapp.ROOT.glob("_*/*.py"))


def _names(node: ast.stmt, package: list[str]) -> Iterator[str]:
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        return
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        above = [*zipapp.PACKAGE.split("."), *package[: len(package) - node.level + 1]] if node.level else []
        base = ".".join([*above, *([node.module] if node.module else [])])
        yield from (base, *(f"{base}.{alias.name}" for alias in node.names))
    for child in ast.iter_child_nodes(node):
        yield from _names(t.cast("ast.stmt", child), package)


def test_imports_are_those_that_the_parser_finds() -> None:
    assert len(EVERY) > 100
    for source in EVERY:
        text = source.read_text(encoding="utf-8")
        expected = {name for node in ast.parse(text).body for name in _names(node, [source.parent.name])}

        assert zipapp.imports(text, [source.parent.name]) == expected, source


@pytest.mark.parametrize("entry", ENTRIES)
def test_the_same_sources_give_the_same_bytes(entry: str, tmp_path: Path) -> None:
    for source in sorted(zipapp.sources(entry), reverse=True):
        copy = tmp_path / source.relative_to(zipapp.ROOT)
        copy.parent.mkdir(exist_ok=True)
        copy.write_bytes(source.read_bytes())
        os.utime(copy, (1, 1))

    assert zipapp.build(entry, "/usr/bin/python3", tmp_path) == zipapp.build(entry, "/usr/bin/python3")


def test_another_source_or_interpreter_gives_other_bytes(tmp_path: Path) -> None:
    (tmp_path / "_a").mkdir()
    (tmp_path / "_a/main.py").write_text("def main(): return 3\n", encoding="utf-8")
    before = zipapp.build("_a.main", "/usr/bin/python3", tmp_path)
    assert zipapp.build("_a.main", "/opt/python", tmp_path) != before
    (tmp_path / "_a/main.py").write_text("def main(): return 4\n", encoding="utf-8")

    assert zipapp.build("_a.main", "/usr/bin/python3", tmp_path) != before


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_program_holds_every_module_that_it_imports(entry: str, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(zipapp.build(entry, sys.executable))
    with zipfile.ZipFile(program) as archive:
        names = [name for name in archive.namelist() if not name.endswith("__init__.py") and "/" in name]
    modules = ",".join(name[: -len(".py")].replace("/", ".") for name in names)
    code = f"import sys; sys.path.insert(0, {str(program)!r}); import {modules}; print('ansible' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-IS", "-c", code], capture_output=True, text=True, check=False, timeout=PATIENCE
    )

    assert (done.stdout, done.stderr) == ("False\n", "")
    assert len(names) > 8


def test_a_program_starts_by_its_name_and_returns_its_status(tmp_path: Path) -> None:
    (tmp_path / "_a").mkdir()
    (tmp_path / "_a/main.py").write_text("def main():\n    print('here')\n    return 3\n", encoding="utf-8")
    program = tmp_path / "program"
    program.write_bytes(zipapp.build("_a.main", sys.executable, tmp_path))
    program.chmod(0o755)
    done = subprocess.run([str(program)], capture_output=True, text=True, check=False, timeout=PATIENCE)

    assert (done.returncode, done.stdout, done.stderr) == (3, "here\n", "")


def test_what_needs_ansible_is_no_program(tmp_path: Path) -> None:
    (tmp_path / "_a").mkdir()
    (tmp_path / "_a/main.py").write_text("from ansible.module_utils.basic import AnsibleModule\n", encoding="utf-8")

    with pytest.raises(zipapp.BuildError, match=r"_a/main\.py imports ansible\.module_utils\.basic"):
        zipapp.build("_a.main", "/usr/bin/python3", tmp_path)
    with pytest.raises(zipapp.BuildError, match="there is no module"):
        zipapp.build("_a.other", "/usr/bin/python3", tmp_path)
