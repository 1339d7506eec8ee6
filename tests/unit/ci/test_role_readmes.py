# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The README of each role lists its entry points and inputs as they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.hpcai.gpucluster.tests.unit.support.ci_program import ci_program
from ansible_collections.hpcai.gpucluster.tests.unit.support.places import place

ROOT = Path(__file__).parents[3]
role_readmes = ci_program("role_readmes")

ROLES = [role for role in sorted((ROOT / "roles").iterdir()) if role.is_dir()]


@pytest.mark.parametrize("role", ROLES, ids=lambda path: path.name)
def test_the_tables_are_those_of_the_specifications(role: Path) -> None:
    readme = (role / "README.md").read_text(encoding="utf-8")

    wanted = role_readmes.rendered(role)
    # Not compared in the assertion, which would show the whole page.
    same, rows = readme == wanted, [line for line in wanted.splitlines() if line not in readme.splitlines()]
    where = place(role / "README.md", "<!-- The rest of this file")
    assert same, f"{where}: run .ci/role_readmes.py {role.name}, which writes: {rows or 'fewer rows'}"


def test_markup_becomes_code() -> None:
    option = {
        "description": ["Size, as P(hpcai.gpucluster.vm_size#filter) or V(a|b) of O(ignore:users)\n says. More."],
        "default": ["x"],
    }
    lines = role_readmes._tables("r", {"main": {"short_description": "Do C(it)", "options": {"r_size": option}}})

    assert "| `main` | Do `it` |" in lines
    assert lines[-1] == '| `r_size` | `["x"]` | Size, as `vm_size` or `a\\|b` of `users` says. |'
