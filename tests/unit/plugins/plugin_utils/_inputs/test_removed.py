# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of plugin_utils/_inputs/removed.py, over its whole table."""

from __future__ import annotations

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs import removed, rules


def test_each_removed_variable_is_refused_by_name() -> None:
    for known, instead in removed.table().items():
        name = known.replace("*", "enabled")
        assert removed.problems([name]) == {
            name: f"{name}: found a variable that the collection does not read; {instead}"
        }


def test_no_variable_of_today_is_refused() -> None:
    """A replacement under the same name, or a removed role whose prefix another role has, would lock users out."""
    assert removed.problems(rules.known()) == {}


def test_a_variable_of_the_site_with_such_a_name_is_not_refused() -> None:
    names = [known.replace("*", "enabled") for known in removed.table()]
    assert removed.problems(names, own=names) == {}


def test_each_row_ends_as_a_sentence_in_a_list_does() -> None:
    assert [row for row in removed.table().values() if row != row.strip() or row.endswith(".")] == []
