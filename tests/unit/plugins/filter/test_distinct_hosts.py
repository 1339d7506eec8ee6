# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from jinja2 import UndefinedError

from ansible_collections.hpcai.gpucluster.plugins.filter.distinct_hosts import FilterModule


class _Unknown(dict):  # type: ignore[type-arg]
    """Variables that need facts."""

    def __getitem__(self, name: str) -> t.Any:
        raise UndefinedError(name)


def _distinct(hostvars: dict[str, t.Any], *variables: str) -> list[str]:
    kinds: list[str] = FilterModule().filters()["distinct_hosts"](list(hostvars), hostvars, list(variables))
    return kinds


def test_equal_hosts_are_one_kind() -> None:
    assert _distinct({"a": {"nfs_x": [1]}, "b": {"nfs_x": [1]}, "c": {"nfs_x": [2]}}, "nfs_*") == ["a", "c"]


def test_only_the_named_variables_count() -> None:
    assert _distinct({"a": {"x": 1, "size": 1}, "b": {"x": 2, "size": 1, "xsize": 3}}, "nfs_*", "size") == ["a"]


def test_a_variable_that_is_missing_makes_a_kind() -> None:
    assert _distinct({"a": {}, "b": {"size": None}}, "size") == ["a", "b"]


def test_what_cannot_be_known_yet_counts_as_equal() -> None:
    assert _distinct({"a": _Unknown(size=1), "b": _Unknown(size=2)}, "size") == ["a"]
