# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Single values in every spelling that nvidia-smi has for them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia import values

NOT_AVAILABLE = [
    "N/A",
    "[N/A]",
    "[Not Supported]",
    "Not Supported",
    "[Unknown Error]",
    "Unknown Error",
    "[Insufficient Permissions]",
    "[GPU requires reset]",
    "GPU is lost",
    "[GPU is lost]",
    "ERR!",
    "Not Found",
    "None",
    "",
    None,
    "[Requested functionality has been deprecated]",
    "Requested functionality has been deprecated",
]


@pytest.mark.parametrize("text", NOT_AVAILABLE)
def test_every_spelling_of_not_available_is_nothing(text: str | None) -> None:
    assert values.number(text) is None
    assert values.integer(text) is None
    assert values.flag(text) is None
    assert values.word(text) is None


@pytest.mark.parametrize("text", ["", "  ", "[]"])
def test_an_empty_text_is_damage_and_no_report_of_the_driver(text: str) -> None:
    assert not values.is_absent(text)
    assert not values.is_missing(text)
    assert values.is_absent(None)


@pytest.mark.parametrize(
    ("text", "unit", "expected"),
    [
        ("1980 MHz", "MHz", 1980),
        ("1980", "MHz", 1980),
        ("1980", "", 1980),
        ("81.11 W", "W", 81.11),
        ("143771 MiB", "MiB", 143771),
        ("16x", "x", 16),
        ("-8 C", "C", -8),
        ("0 %", "%", 0),
    ],
)
def test_numbers_lose_their_unit(text: str, unit: str, expected: float) -> None:
    assert values.number(text, unit) == expected


@pytest.mark.parametrize(
    ("text", "unit", "field"),
    [
        *[("-1980 MHz", "MHz", ""), ("999999999 MHz", "MHz", ""), ("-81.11 W", "W", ""), ("9999 C", "C", "")],
        *[
            ("-5", "", ""),
            ("-1980", "", "clocks.max.sm"),
            ("999999", "", "clocks.max.sm"),
            ("4096", "", "temperature.gpu"),
        ],
        *[("1000", "", "utilization.gpu"), ("999999999", "", "memory.used"), ("-1", "", "pcie.link.width.current")],
    ],
)
def test_a_number_that_no_gpu_has_is_unknown(text: str, unit: str, field: str) -> None:
    assert values.number(text, unit, field) is None
    assert values.integer(text, unit, field) is None


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("0x", ""),
        ("0x", "C"),
        ("34 MHz", "C"),
        ("34 C", ""),
        ("3O", ""),
        ("\ufeff34", ""),
        ("\x1b[0m34", "C"),
        ("C", "C"),
    ],
)
def test_another_unit_is_no_number(text: str, unit: str) -> None:
    assert values.number(text, unit) is None
    assert values.integer(text, unit) is None
    assert not values.is_missing(text)


def test_a_count_has_no_decimals() -> None:
    assert values.integer("1.5") is None


@pytest.mark.parametrize("text", ["580.159.O4", "58O.159.04", "\ufeff580.159.04", "580.159.", "580"])
def test_a_damaged_version_is_no_shorter_version(text: str) -> None:
    assert values.version(text) is None


@pytest.mark.parametrize("text", ["\ufeffNVIDIA H200", "NVIDIA \x1b[0mH200", "NVIDIA \ufffdH200"])
def test_a_string_that_cannot_be_printed_is_nothing(text: str) -> None:
    assert values.word(text) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [("Enabled", True), ("Disabled", False), ("Yes", True), ("No", False), ("Active", True), ("Not Active", False)],
)
def test_words_of_a_switch(text: str, expected: bool) -> None:
    assert values.flag(text) is expected


@pytest.mark.parametrize(
    "text", ["00000000:00:06.0", "0000:00:06.0", "00:06.0", "0:6.0", "00000000:00:06.0 "], ids=lambda text: text.strip()
)
def test_every_form_of_an_address_is_one(text: str) -> None:
    assert values.bus_id(text) == "0000:00:06.0"


def test_a_domain_of_hyper_v_is_kept_whole() -> None:
    assert values.bus_id("0000B6C8:00:00.0") == "b6c8:00:00.0"
    assert values.bus_id("0001C0DE:00:00.0") == "1c0de:00:00.0"


@pytest.mark.parametrize("text", ["N/A", "", None, "6", "GPU-0a000000", "00:06.9", "x:06.0"])
def test_what_is_no_address_is_nothing(text: str | None) -> None:
    assert values.bus_id(text) is None


def test_the_note_of_driver_610_is_no_part_of_its_version() -> None:
    text = "610.57.04 [Deprecated; will be removed in CUDA 14.0. Use KMD Version instead]"

    assert values.version(text) == "610.57.04"
    assert values.major(values.version(text)) == 610
    assert values.major(None) == 0


@pytest.mark.parametrize("text", ["[GPU requires reset]", "GPU is lost", "[Unknown Error]", "ERR!"])
def test_a_broken_gpu_is_told_from_a_missing_feature(text: str) -> None:
    assert values.fault(text) == text.strip("[]")
    assert values.fault("[Not Supported]") is None


@settings(deadline=None)
@given(st.text())
def test_no_text_makes_a_reader_fail(text: str) -> None:
    for reader in (
        values.number,
        values.integer,
        values.flag,
        values.word,
        values.version,
        values.bus_id,
        values.fault,
    ):
        reader(text)
    values.bus_ids(text)
