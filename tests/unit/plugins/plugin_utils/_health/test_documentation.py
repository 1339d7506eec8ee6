# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/health.md names every check, every parameter and its default."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._health import expectations
from ansible_collections.hpcai.gpucluster.tests.unit.plugins.module_utils._health import machines

PAGE = (Path(__file__).parents[5] / "docs/health.md").read_text(encoding="utf-8")
ROWS = [line for line in PAGE.splitlines() if line.startswith("| `")]
CHECKS = machines.expectations("standard_nd96isr_h100_v5")["checks"]


@pytest.mark.parametrize("name", CHECKS)
def test_every_check_has_one_row_with_all_its_parameters(name: str) -> None:
    rows = [row for row in ROWS if f"`{name}`" in row.split("|")[1]]

    assert len(rows) == 1
    missing = [key for key in CHECKS[name] if key not in expectations.COMMON and f"`{key}`" not in rows[0]]
    assert missing == []


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [(name, key, value) for name, params in expectations.THRESHOLDS.items() for key, value in params.items()],
)
def test_defaults_are_those_of_the_table(name: str, key: str, value: object) -> None:
    row = next(row for row in ROWS if f"`{name}`" in row.split("|")[1])
    values = value if isinstance(value, list) else [*value.values()] if isinstance(value, dict) else [value]

    assert all(str(one) in row for one in values if not isinstance(one, bool) and one is not None)
