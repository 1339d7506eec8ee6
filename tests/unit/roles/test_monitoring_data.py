# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Alerts and the board of the monitoring: each series has a source, and each alert has a text and a test."""

from __future__ import annotations

import json
import re
import typing as t
from pathlib import Path

import pytest
from ansible.module_utils.common.yaml import yaml_load

from ansible_collections.hpcai.gpucluster.plugins.module_utils._monitoring import gpu, slurm
from ansible_collections.hpcai.gpucluster.tests.unit.support.places import expect_none, place

ROOT = Path(__file__).parents[3]
FILES = ROOT / "roles/monitoring/files"
FIXTURES = ROOT / "tests/unit/fixtures"
BOARDS = sorted((FILES / "boards").glob("*.json"))
RULES = yaml_load((FILES / "alerts.yml").read_text(encoding="utf-8"))["groups"][0]["rules"]
TESTS = yaml_load((ROOT / "molecule/monitoring/files/alerts_test.yml").read_text(encoding="utf-8"))["tests"]
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


def _without_source(file: Path, used: set[str]) -> list[str]:
    """Return what is to do about the series of a file that nothing serves."""
    return [
        f"{place(file, name)}: nothing serves the series {name}: correct the name, or add it to the names of its "
        "exporter (tests/unit/fixtures/node_exporter/*/names.txt, SERIES of module_utils/_monitoring/gpu.py), or "
        "as a row to the table of gpucluster_ series in docs/monitoring.md"
        for name in sorted(used - sources())
    ]


@pytest.mark.parametrize("board", BOARDS, ids=lambda path: path.stem)
def test_every_series_of_a_board_has_a_source(board: Path) -> None:
    used = set().union(*map(series, expressions(board)))

    assert used
    expect_none(_without_source(board, used))


def test_the_role_provisions_the_board() -> None:
    boards = [json.loads(path.read_text(encoding="utf-8")) for path in BOARDS]
    defined = yaml_load((ROOT / "roles/monitoring/vars/main.yml").read_text(encoding="utf-8"))

    assert {path.stem for path in BOARDS} == set(defined["__monitoring_boards"])
    for board in boards:
        assert {panel["datasource"]["uid"] for panel in board["panels"]} == {"gpucluster"}
        assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


ALERTS = FILES / "alerts.yml"
ALERTS_TEST = ROOT / "molecule/monitoring/files/alerts_test.yml"


def alternatives(expression: str) -> int:
    """Return in how many ways an alert can fire: operands of "or", each with the names that a service can have."""
    names = [match[1].split("|") for match in re.finditer(r'\{name=~"\(([^)]*)\)', expression)]
    return len(re.split(r"\bor\b", expression)) + sum(len(found) - 1 for found in names)


def _lacks(rule: dict[str, t.Any]) -> t.Iterator[str]:
    """Yield what an alert lacks, with the file and the line for it."""
    name, used = str(rule["alert"]), series(rule["expr"])
    here = f"{place(ALERTS, f'alert: {name}')}, alert {name}"
    if [one["alert"] for one in RULES].count(name) > 1:
        yield f"{here}: give the new alert another name, because {name} stands there twice"
    if not used:
        yield f"{here}: expr reads no series that an exporter serves"
    yield from _without_source(ALERTS, used)
    if rule.get("labels", {}).get("severity") not in ("critical", "warning", "info"):
        yield f"{here}: add `labels: {{severity: critical, warning or info}}`"
    if set(rule.get("annotations", {})) != {"summary", "action", "page"}:
        yield f"{here}: annotations must have summary, action and page, and no other"
    if f"`{name}`" not in PAGE.partition("## Alerts")[2]:
        yield f"{place('docs/monitoring.md', '| alert | fires if |')}: add the row  | `{name}` | what makes it fire |"
    sample = f'{{alertname="{name}"}}'
    fired = [one for one in TESTS if one["promql_expr_test"][1]["exp_samples"][0]["labels"] == sample]
    planted = {str(one["input_series"]) for one in fired}
    wanted = alternatives(rule["expr"])
    if len(planted) < wanted:
        yield (
            f"{place(ALERTS_TEST, 'tests:')}: add a test `- name: {name}` in the form of the first one, "
            f"with input_series that make it fire; it has {len(planted)}, and its expr can fire in {wanted} ways"
        )
    elif missing := used - set().union(*map(series, planted)):
        yield f"{place(ALERTS_TEST, f'name: {name}')}: add to input_series: {', '.join(sorted(missing))}"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule["alert"]))
def test_an_alert_has_a_source_a_text_a_row_in_the_page_and_tests(rule: dict[str, t.Any]) -> None:
    expect_none(_lacks(rule))


def test_each_alert_is_seen_to_be_silent_and_then_to_fire() -> None:
    known = {f'{{alertname="{rule["alert"]}"}}' for rule in RULES}
    faults = []
    for one in TESTS:
        before, after = one["promql_expr_test"]
        where = place(ALERTS_TEST, f"name: {one['name']}")
        if before["exp_samples"]:
            faults.append(f"{where}: the first exp_samples must be [], nothing fires before the fault")
        faults += [
            f"{where}: there is no alert {sample['labels']} in {place(ALERTS)}: remove the test, or correct the name"
            for sample in after["exp_samples"]
            if sample["labels"] not in known
        ]

    assert all(one["promql_expr_test"][1]["exp_samples"] for one in TESTS)
    expect_none(faults)


def test_a_series_without_a_source_is_found() -> None:
    found = series('sum(node_nothing{x="slurm_in_quotes"}) + DCGM_FI_DEV_NOTHING * up')

    assert found == {"node_nothing", "DCGM_FI_DEV_NOTHING", "up"}
    assert found - sources() == {"node_nothing", "DCGM_FI_DEV_NOTHING"}


def test_the_page_lists_what_the_program_writes() -> None:
    code = "".join(path.read_text(encoding="utf-8") for path in Path(gpu.__file__).parent.glob("*.py"))
    written = set(re.findall(r'"(gpucluster_[a-z_]+)"', code))

    listed = {name for name in sources() if name.startswith("gpucluster_")}
    table = place("docs/monitoring.md", "| `gpucluster_")
    expect_none(
        [f"{table}: add a row `{name}` to this table" for name in sorted(written - listed)]
        + [f"{place('docs/monitoring.md', f'`{name}')}: remove the row `{name}`" for name in sorted(listed - written)]
    )


def test_prometheus_drops_what_the_program_writes_instead() -> None:
    template = (ROOT / "roles/monitoring/templates/prometheus.yml.j2").read_text(encoding="utf-8")

    assert f'regex: "{slurm.FILLED.pattern}", action: drop' in template
