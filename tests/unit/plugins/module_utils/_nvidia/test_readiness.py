# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A driver that is not ready gets time; another failure is final."""

from __future__ import annotations

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia.readiness import NOT_READY, when_ready
from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia.smi import NvidiaSmiError


class Driver:
    """Fails some times, then answers; its clock advances only by sleeping."""

    def __init__(self, failures: int, kind: str = "no_driver") -> None:
        self.failures = failures
        self.kind = kind
        self.calls = 0
        self.now = 0.0

    def __call__(self) -> str:
        self.calls += 1
        if self.calls <= self.failures:
            raise NvidiaSmiError(self.kind, "not ready")
        return "set"

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def wait(self, seconds: float) -> str:
        return when_ready(self, seconds, lambda: self.now, self.sleep)


@pytest.mark.parametrize("kind", NOT_READY)
def test_a_driver_that_becomes_ready_is_used(kind: str) -> None:
    driver = Driver(3, kind)

    assert (driver.wait(60), driver.calls) == ("set", 4)  # bound: by the clock of the test


def test_the_time_is_limited() -> None:
    driver = Driver(1000)
    with pytest.raises(NvidiaSmiError):
        driver.wait(5)  # bound: by the clock of the test

    assert (driver.now, driver.calls) == (5, 4)


@pytest.mark.parametrize(("kind", "seconds"), [("not_installed", 60), ("lost", 60), ("no_driver", 0)])
def test_another_failure_is_final_and_zero_seconds_are_one_try(kind: str, seconds: int) -> None:
    driver = Driver(1, kind)
    with pytest.raises(NvidiaSmiError):
        driver.wait(seconds)

    assert (driver.calls, driver.now) == (1, 0)
