# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Alerts and boards of the monitoring: each series has a source, and each alert has a text and a test."""

from __future__ import annotations

import json
import re
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.hpcai.gpucluster.plugins.module_utils._monitoring import gpu

ROOT = Path(__file__).parents[3]
FILES = ROOT / "roles/monitoring/files"
FIXTURES = ROOT / "tests/unit/fixtures"
BOARDS = sorted((FILES / "boards").glob("*.json"))
RULES = yaml.safe_load((FILES / "alerts.yml").read_text(encoding="utf-8"))["groups"][0]["rules"]
TESTS = yaml.safe_load((ROOT / "molecule/monitoring/files/alerts_test.yml").read_text(encoding="utf-8"))["tests"]
PAGE = (ROOT / "docs/monitoring.md").read_text(encoding="utf-8")
# Of Prometheus itself, and a name that only DCGM 4 has.
OTHERS = {"up", "ALERTS", "DCGM_FI_DEV_CLOCKS_EVENT_REASONS"}
_SERIES = re.compile(r"\b(?:up|ALERTS|(?:node|slurm|gpucluster)_[a-z_A-Z0-9]+|DCGM_[A-Z_0-9]+)\b")
_QUOTED = re.compile(r'"[^"]*"')


def sources() -> set[str]:
    """Return the names of all series that the exporters, Slurm and the collection serve."""
    own = set(re.findall(r"^\| `(gpucluster_\w+)", PAGE, re.MULTILINE))
    listed = [*FIXTURES.glob("slurm/26.05.3/metrics.txt"), *FIXTURES.glob("node_exporter/*/names.txt")]
    names = {name for path in listed for name in path.read_text(encoding="utf-8").split()}
    return own | names | set(gpu.SERIES) | OTHERS


def series(expression: str) -> set[str]:
    return set(_SERIES.findall(_QUOTED.sub('""', expression)))


def expressions(board: Path) -> list[str]:
    data = json.loads(board.read_text(encoding="utf-8"))
    variables = [one["query"] for one in data["templating"]["list"]]
    return [*variables, *(target["expr"] for panel in data["panels"] for target in panel["targets"])]


@pytest.mark.parametrize("board", BOARDS, ids=lambda path: path.stem)
def test_every_series_of_a_board_has_a_source(board: Path) -> None:
    used = set().union(*map(series, expressions(board)))

    assert used
    assert used <= sources()


def test_there_are_four_boards_with_names_of_their_own() -> None:
    boards = [json.loads(path.read_text(encoding="utf-8")) for path in BOARDS]
    defined = yaml.safe_load((ROOT / "roles/monitoring/vars/main.yml").read_text(encoding="utf-8"))

    assert len({board["uid"] for board in boards}) == 4
    assert {path.stem for path in BOARDS} == set(defined["__monitoring_boards"])
    for board in boards:
        assert {panel["datasource"]["uid"] for panel in board["panels"]} == {"gpucluster"}
        assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule["alert"]))
def test_an_alert_has_a_source_a_text_and_a_line_in_the_page(rule: dict[str, t.Any]) -> None:
    assert series(rule["expr"])
    assert series(rule["expr"]) <= sources()
    assert rule["labels"]["severity"] in ("critical", "warning", "info")
    assert {"summary", "action", "page"} == set(rule["annotations"])
    assert f"`{rule['alert']}`" in PAGE.partition("## Alerts")[2]


def test_each_alert_is_seen_to_fire_and_to_be_silent() -> None:
    fired = set()
    for one in TESTS:
        before, after = one["promql_expr_test"]
        assert before["exp_samples"] == []
        fired |= {sample["labels"] for sample in after["exp_samples"]}

    assert fired == {f'{{alertname="{rule["alert"]}"}}' for rule in RULES}


def alternatives(expression: str) -> int:
    """Return in how many ways an alert can fire: operands of "or", each with the names that a service can have."""
    names = [match[1].split("|") for match in re.finditer(r'\{name=~"\(([^)]*)\)', expression)]
    return len(re.split(r"\bor\b", expression)) + sum(len(found) - 1 for found in names)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule["alert"]))
def test_each_alternative_of_an_alert_is_seen_to_fire(rule: dict[str, t.Any]) -> None:
    own = [one for one in TESTS if rule["alert"] in one["promql_expr_test"][1]["exp_samples"][0]["labels"]]
    planted = {str(one["input_series"]) for one in own}
    used = set().union(*(series(text) for text in planted))

    assert len(planted) >= alternatives(rule["expr"])
    assert series(rule["expr"]) <= used


def test_a_series_without_a_source_is_found() -> None:
    found = series('sum(node_nothing{x="slurm_in_quotes"}) + DCGM_FI_DEV_NOTHING * up')

    assert found == {"node_nothing", "DCGM_FI_DEV_NOTHING", "up"}
    assert found - sources() == {"node_nothing", "DCGM_FI_DEV_NOTHING"}


def test_the_page_lists_what_the_program_writes() -> None:
    code = "".join(path.read_text(encoding="utf-8") for path in Path(gpu.__file__).parent.glob("*.py"))
    written = set(re.findall(r'"(gpucluster_[a-z_]+)"', code))

    assert written == {name for name in sources() if name.startswith("gpucluster_")}
