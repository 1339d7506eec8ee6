# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lists in messages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import words

PLUGINS = Path(words.__file__).parents[2]


@pytest.mark.parametrize(
    ("items", "text"),
    [([], ""), (["a"], "a"), (["a", "b"], "a, b"), (["a", "b", "c"], "a, b and 1 more"), (range(9), "0, 1 and 7 more")],
)
def test_the_first_items_are_named_and_the_rest_counted(items: list[str], text: str) -> None:
    assert words.listed(items, 2) == text


def test_the_count_of_the_rest_is_written_in_one_place() -> None:
    found = [
        path.relative_to(PLUGINS)
        for path in sorted(PLUGINS.rglob("*.py"))
        if re.search(r"and \{[^}]*\} more", path.read_text(encoding="utf-8"))
    ]

    assert found == [Path("module_utils/_system/words.py")]
