# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/health.md names every check, every parameter and its default."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._health import expectations
from ansible_collections.hpcai.gpucluster.tests.unit.plugins.module_utils._health import machines
from ansible_collections.hpcai.gpucluster.tests.unit.support.places import expect_none, place

PAGE = Path(__file__).parents[5] / "docs/health.md"
ROWS = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
CHECKS = machines.expectations("standard_nd96isr_h100_v5")["checks"]


def _rows(name: str) -> list[str]:
    return [row for row in ROWS if f"`{name}`" in row.split("|")[1]]


def _shown(name: str, key: str) -> str:
    """Return a parameter as the page shows it."""
    value = expectations.THRESHOLDS[name].get(key, "record")
    return f"`{key}` ({'none' if value in (None, [], {}) else value})"


def _parameters(name: str) -> list[str]:
    own = [key for key in CHECKS[name] if key not in expectations.COMMON or key in expectations.THRESHOLDS[name]]
    return [_shown(name, key) for key in own]


def test_every_check_has_one_row_with_all_its_parameters() -> None:
    faults = []
    for name, params in CHECKS.items():
        rows = _rows(name)
        if not rows:
            row = f"| `{name}` | what makes the node unhealthy | {', '.join(_parameters(name))} | source |"
            faults.append(f"{place(PAGE, '## Checks')}, a table of section Checks: add the row  {row}")
        elif len(rows) > 1:
            faults.append(f"{place(PAGE, rows[1])}: remove the second row of `{name}`, or merge both")
        else:
            faults += [
                f"{place(PAGE, rows[0])}, row `{name}`, column parameters: add {_shown(name, key)}"
                for key in params
                if key not in expectations.COMMON and f"`{key}`" not in rows[0]
            ]

    expect_none(faults)


def test_defaults_are_those_of_the_table() -> None:
    faults = []
    for name, params in expectations.THRESHOLDS.items():
        for row in _rows(name)[:1]:
            for key, value in params.items():
                values = value if isinstance(value, list) else [*value.values()] if isinstance(value, dict) else [value]
                if not all(str(one) in row for one in values if not isinstance(one, bool) and one is not None):
                    faults.append(f"{place(PAGE, row)}, row `{name}`, column parameters: write {_shown(name, key)}")

    expect_none(faults)
