# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an administrator has set in a shell does not change what a program that acts alone sees and does."""

from __future__ import annotations

import contextlib
import importlib
import os
import time
import typing as t

import pytest

if t.TYPE_CHECKING:
    from collections.abc import Iterator

UTILS = "ansible_collections.hpcai.gpucluster.plugins.module_utils"
# By package, a call of its program that ends soon on a machine without its configuration.
PROGRAMS = {
    "_backup": ["list"],
    "_elastic": ["--config", "/nonexistent", "suspend", "x"],
    "_health": ["--list"],
    "_monitoring": ["--config", "/nonexistent"],
    "_repair": ["--config", "/nonexistent", "status"],
}


@pytest.fixture(autouse=True)
def _own_time_zone() -> Iterator[None]:
    yield
    time.tzset()


@pytest.mark.parametrize("package", PROGRAMS)
def test_no_habit_of_a_person_reaches_the_commands_of_slurm(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQUEUE_USERS hides the jobs of others. In another time zone, a node seems to have booted."""
    for name in ("SQUEUE_USERS", "SLURM_CLUSTERS", "SLURM_TIME_FORMAT", "TZ"):
        monkeypatch.setenv(name, "alice")
    monkeypatch.setenv("SLURM_CONF", "/etc/slurm/slurm.conf")
    cli = importlib.import_module(f"{UTILS}.{package}.cli")
    if package == "_backup":
        monkeypatch.setattr(cli, "CONFIG", "/nonexistent")

    with contextlib.suppress(OSError):
        cli.main(PROGRAMS[package])

    assert {"SQUEUE_USERS", "SLURM_CLUSTERS", "SLURM_TIME_FORMAT", "TZ"}.isdisjoint(os.environ)
    assert "SLURM_CONF" in os.environ
