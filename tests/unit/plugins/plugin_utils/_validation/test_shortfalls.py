# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue import records
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation import shortfalls

BUSBW = {"expected": 450, "warn": 400, "fail": 300}


@pytest.mark.parametrize(
    ("value", "level"),
    [
        (460, None),
        (430, None),
        (400, None),
        (399.9, "warn"),
        (300, "warn"),
        (299, "fail"),
        (None, "fail"),
        ("9.5", "fail"),
    ],
)
def test_levels(value: t.Any, level: str | None) -> None:
    found = shortfalls.shortfalls({"busbw": value}, {"busbw": BUSBW})

    assert [item.level for item in found] == ([level] if level else [])


def test_numbers_are_compared_as_numbers() -> None:
    assert shortfalls.shortfalls({"h2d": {"a": "9.5", "b": "100.1"}}, {"h2d": 24})[0].name == "a"
    assert len(shortfalls.shortfalls({"h2d": {"a": "9.5", "b": "100.1"}}, {"h2d": 24})) == 1


@pytest.mark.parametrize(
    ("threshold", "words"),
    [
        ({"warn": 300, "fail": 400}, "warn .300. is below fail .400."),
        ({"expected": 100, "fail": 400}, "expected .100. is below fail"),
        ({"minimum": 3}, "must be a number or a mapping"),
        ({"fail": "high"}, "fail is 'high', but must be a number"),
        ({"fail": True}, "must be a number"),
        ("460", "must be a number or a mapping"),
    ],
)
def test_a_threshold_without_sense_is_refused(threshold: t.Any, words: str) -> None:
    with pytest.raises(shortfalls.ThresholdError, match=f"busbw: .*{words}"):
        shortfalls.shortfalls({"busbw": 1}, {"busbw": threshold})


@pytest.mark.parametrize("name", records.names())
def test_every_threshold_of_the_catalogue_makes_sense(name: str) -> None:
    for metric, threshold in records.find(name).get("thresholds", {}).items():
        assert shortfalls.levels(metric, threshold)


def test_an_outlier_is_found_without_a_threshold() -> None:
    values = {"gpu1": 190.1, "gpu2": 189.7, "gpu3": 190.4, "gpu4": 171.0, "gpu5": 190.0}
    found = shortfalls.shortfalls({"busbw": values}, {})

    assert [(item.name, item.level) for item in found] == [("gpu4", "warn")]
    assert not shortfalls.shortfalls({"busbw": values}, {}, outliers=False)


def test_a_little_less_than_others_that_agree_well_is_no_outlier() -> None:
    assert not shortfalls.shortfalls({"busbw": {"a": 190.0, "b": 190.0, "c": 190.0, "d": 185.0}}, {})


def test_fractions_of_the_median_of_the_others() -> None:
    found = shortfalls.shortfalls({"x": {"a": 10, "b": 10, "c": 4, "d": 7}}, {}, relative={"warn": 0.8, "fail": 0.5})

    assert [(item.name, item.level) for item in found] == [("c", "fail"), ("d", "warn")]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(1, 1000), min_size=1, max_size=30))
def test_equal_values_never_fall_short_of_each_other(values: list[float]) -> None:
    same = {str(place): values[0] for place in range(len(values))}

    assert not shortfalls.shortfalls({"x": same}, {}, relative={"fail": 0.9})


def test_three_others_that_agree_make_an_outlier_and_two_do_not() -> None:
    three = shortfalls.shortfalls({"busbw": {"a": 450, "b": 451, "c": 452, "d": 300}}, {})
    two = shortfalls.shortfalls({"busbw": {"a": 450, "b": 451, "d": 300}}, {})

    assert [item.name for item in three] == ["d"]
    assert two == []


def test_the_limit_of_a_fraction_is_told_in_the_unit_of_the_figure() -> None:
    (found,) = shortfalls.shortfalls({"busbw": {"a": 400, "b": 400, "c": 100}}, {}, relative={"fail": 0.5})

    assert (found.name, found.level, found.limit) == ("c", "fail", 200.0)
