# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of all unit tests."""

from __future__ import annotations

import gc
import os
import typing as t

import pytest
from ansible.plugins.loader import init_plugin_loader
from hypothesis import HealthCheck, settings

if t.TYPE_CHECKING:
    from collections.abc import Iterator

# Tests that template find the collection's filters; it comes before anything of the collection is imported.
init_plugin_loader([])

# A gate (.ci/run) has to give the same answer twice, also on a slow machine; chance belongs to the developer's runs.
settings.register_profile("gate", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
# Hypothesis itself does without chance where it finds the variable CI.
settings.register_profile("developer", deadline=None, derandomize=False)
settings.load_profile("developer")

# Nothing that is imported and collected becomes garbage, so nothing looks for garbage in it.
gc.disable()


@pytest.fixture(autouse=True)
def _own_environment() -> Iterator[None]:
    """Take back what a test changes in the environment: programs forget and set variables at their start."""
    before = dict(os.environ)
    yield
    # pytest keeps the name of the test there.
    for name in {*before, *os.environ} - {"PYTEST_CURRENT_TEST"}:
        if name not in before:
            del os.environ[name]
        elif os.environ.get(name) != before[name]:
            os.environ[name] = before[name]


def pytest_collection_finish() -> None:
    """Look for garbage of the tests from now on."""
    gc.freeze()
    gc.enable()
