# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of docs/security.md names tests that exist."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest

if t.TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/security.md"
_FILE = re.compile(r"`([\w/]+\.py)::(\w+)`")
_SCENARIO = re.compile(r"`(\w+)`: ")
_TEXT = re.compile(r'"([^"]+)"')


def _rows() -> list[list[str]]:
    lines = PAGE.read_text(encoding="utf-8").partition("## Who may do what")[2].partition("\n## ")[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")][2:]


def _missing(cell: str) -> Iterator[str]:
    """Yield what a cell names and what is not there: functions of tests, and texts of a scenario."""
    for path, name in _FILE.findall(cell):
        file = ROOT / "tests" / path
        if not file.is_file() or f"def {name}(" not in file.read_text(encoding="utf-8"):
            yield f"tests/{path}::{name}"
    for scenario in _SCENARIO.findall(cell):
        files = [path for path in (ROOT / "molecule" / scenario).rglob("*") if path.is_file()]
        content = "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in files)
        for text in _TEXT.findall(cell):
            if not all(part in content for part in re.split(r",? ?\.\.\. ?", text)):
                yield f"molecule/{scenario}: {text}"


@pytest.mark.parametrize("row", _rows(), ids=lambda row: f"{row[0]}: {row[1]}")
def test_each_line_names_a_test_that_exists(row: list[str]) -> None:
    named = _FILE.search(row[4]) or _SCENARIO.search(row[4])
    assert len(row) == 5
    assert named or (row[4] == "none" and not row[3]), "name the test of what this one may not do"
    assert list(_missing(row[4])) == []


def test_a_test_that_is_not_there_is_found() -> None:
    assert list(_missing("`unit/test_security_page.py::test_nothing`")) == [
        "tests/unit/test_security_page.py::test_nothing"
    ]
    assert list(_missing('`munge`: "No such play"')) == ["molecule/munge: No such play"]
