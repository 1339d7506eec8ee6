# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter release_serial: a serial that only grows, whatever the clock and the disk of the control node do."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.filter import release_serial as module

serial = module.FilterModule().filters()["release_serial"]
NOW, DAY = 1_800_000_000, 86400


def issue(content: str, before: t.Any = None, now: int = NOW, days: t.Any = 90, least: t.Any = 0) -> dict[str, t.Any]:
    return t.cast("dict[str, t.Any]", serial(content, json.dumps(before) if before else "", now, days, least))


def test_the_first_serial_is_the_time_and_the_release_has_an_end() -> None:
    found = issue("a")

    assert (found["serial"], found["expires"]) == (NOW, NOW + 90 * DAY)


def test_equal_content_keeps_its_serial_until_half_of_its_time_has_passed() -> None:
    first = issue("a")

    assert issue("a", first, NOW + 44 * DAY) == first
    assert issue("a", first, NOW + 46 * DAY)["serial"] == NOW + 46 * DAY


@pytest.mark.parametrize("now", [NOW, NOW - 900 * DAY])
def test_another_content_has_a_higher_serial_also_when_the_clock_stands_or_goes_back(now: int) -> None:
    first = issue("a")

    assert issue("b", first, now)["serial"] == NOW + 1
    assert issue("b", first, now)["expires"] == now + 90 * DAY


def test_a_clock_that_was_ahead_leaves_neither_a_late_end_nor_a_lower_serial() -> None:
    ahead = issue("a", now=NOW + 9000 * DAY)

    found = issue("a", ahead)

    assert found["serial"] == ahead["serial"] + 1
    assert found["expires"] == NOW + 90 * DAY


def test_a_serial_that_is_named_is_the_smallest() -> None:
    first = issue("a")

    assert issue("a", first, least=NOW + 500)["serial"] == NOW + 500
    assert issue("a", issue("a", first, least=NOW + 500), least=str(NOW + 500))["serial"] == NOW + 500


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"days": 0}, "pull_days: found 0; allowed: a number from 1 to 3650"),
        ({"days": "soon"}, "pull_days: found 'soon'"),
        ({"least": -1}, "pull_serial: found -1"),
        ({"before": ["x"]}, "serial.json in pull_directory cannot be read"),
    ],
)
def test_wrong_input_is_refused(given: dict[str, t.Any], message: str) -> None:
    with pytest.raises(AnsibleFilterError, match=message):
        issue("a", **given)
