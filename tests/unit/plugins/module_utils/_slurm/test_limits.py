# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.hpcai.gpucluster.plugins.module_utils._slurm import limits


def parse(name: str, value: t.Any) -> t.Any:
    """Return a limit of a QOS in the form that is compared."""
    return limits.parse(limits.find(limits.QOS, name), value)


# The second of each pair is what sacctmgr 24.11.5 printed after the first was set.
@pytest.mark.parametrize(
    ("name", "given_value", "shown"),
    [
        ("GrpTRES", {"mem": 1500000, "cpu": 100000}, "cpu=100000,mem=1500000M"),
        ("GrpTRES", "mem=64G,gres/gpu=8", "gres/gpu=8,mem=64G"),
        ("GrpTRES", "mem=3T", "mem=3145728M"),
        ("GrpTRES", "mem=2P", "mem=2147483648M"),
        ("GrpTRESMins", "mem=99999999,cpu=5000000", "cpu=5000000,mem=99999999M"),
        ("GrpWall", "3-0", "3-00:00:00"),
        ("MaxWallDurationPerJob", "90:30", "01:31:00"),
        ("MaxWall", 120, "02:00:00"),
        ("MaxWall", "1-12:30:00", "1-12:30:00"),
        ("GraceTime", 90, "00:01:30"),
        ("GraceTime", "2:00", "00:02:00"),
        ("GraceTime", -1, "00:00:00"),
        ("UsageFactor", 2, "2.000000"),
        ("UsageFactor", -1, "1.000000"),
        ("UsageThreshold", 0.25, "0.250000"),
        ("UsageThreshold", None, ""),
        ("MaxJobsPU", 5, "5"),
        ("MaxJobsPerUser", "unlimited", ""),
        ("GrpTRES", {"cpu": None}, ""),
    ],
)
def test_what_is_set_equals_what_sacctmgr_shows(name: str, given_value: t.Any, shown: str) -> None:
    assert parse(name, given_value) == parse(name, shown)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("GrpTRES", "cpu=12x", "GrpTRES: cpu is '12x', expected a whole number"),
        ("GrpTRES", "cpu=1K", "GrpTRES: cpu is '1K', expected a whole number"),
        ("GrpTRES", {"mem": "1.5T"}, "GrpTRES: mem is '1.5T', expected a whole number of MiB, or"),
        ("GrpTRES", "gpu=8", "GrpTRES names the unknown TRES 'gpu'"),
        ("GrpTRES", "cpu", "GrpTRES holds 'cpu', expected pairs"),
        ("MaxWall", "soon", "MaxWallDurationPerJob is 'soon', expected minutes"),
        ("MaxWall", "1d", "MaxWallDurationPerJob is '1d'"),
        ("MaxJobsPU", "many", "MaxJobsPerUser is 'many', expected a whole number"),
        ("MaxJobsPU", -2, "MaxJobsPerUser is -2"),
        ("UsageFactor", "fast", "UsageFactor is 'fast', expected a number"),
        ("UsageFactor", "nan", "UsageFactor is 'nan', expected a number"),
        ("MaxNodes", 4, "unknown limit 'MaxNodes'; known limits: GraceTime"),
    ],
)
def test_what_slurm_would_misread_is_refused(name: str, value: t.Any, message: str) -> None:
    with pytest.raises(limits.LimitError, match=message.replace("[", "\\[")):
        parse(name, value)


def test_tres_that_are_no_longer_limited_are_cleared_one_by_one() -> None:
    limit = limits.find(limits.ASSOCIATION, "GrpTRES")

    assert (
        limits.settings(limit, {"cpu": 64, "node": 4}, {"gres/gpu": 8, "cpu": 32})
        == "GrpTRES=cpu=32,gres/gpu=8,node=-1"
    )
    assert limits.settings(limits.find(limits.ASSOCIATION, "MaxWall"), 60, None) == "MaxWallDurationPerJob=-1"


TRES = st.dictionaries(st.sampled_from(["cpu", "mem", "node", "gres/gpu", "gres/gpu:h100"]), st.integers(0, 10**9))


@settings(max_examples=50, deadline=None)
@given(TRES)
def test_tres_are_read_back_from_what_is_shown(tres: dict[str, int]) -> None:
    limit = limits.find(limits.QOS, "GrpTRES")

    assert limits.parse(limit, limits.text(limit, tres)) == tres


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6))
def test_minutes_are_read_back_from_what_is_shown(minutes: int) -> None:
    limit = limits.find(limits.QOS, "MaxWall")

    assert limits.parse(limit, limits.text(limit, minutes)) == minutes
