# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings that follow the number of nodes."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import actions, check, conf, scale, settings
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import nodes as node_groups
from ansible_collections.hpcai.gpucluster.tests.unit.support.slurm_inputs import LAB, inputs

PAGE = Path(__file__).parents[5] / "docs/scale.md"
EDGES = sorted({least for rule in scale.table().values() for least in rule["from"]} | {0, 2, 500, 10_000})


def config(count: int, **given: t.Any) -> dict[str, t.Any]:
    """Return slurm.conf of a cluster with so many nodes."""
    names = [f"gpu{number}" for number in range(1, count + 1)]
    groups = node_groups.group(names, dict.fromkeys(names, LAB))
    return settings.slurm_conf(inputs(slurm_nodes=groups, **given))


@pytest.mark.parametrize("count", EDGES)
def test_every_size_has_settings_that_slurm_accepts(count: int) -> None:
    found = config(count)

    assert check.problems(check.Cluster(found, conf.collect([], []), records={})) == []
    assert found["UnkillableStepTimeout"] >= 5 * found["MessageTimeout"]
    assert found["SlurmdTimeout"] > 2 * found["MessageTimeout"]


@pytest.mark.parametrize("count", [4369, 10_000, 11_155, 30_000])
def test_three_hops_reach_all_nodes(count: int) -> None:
    width = scale.settings(count)["TreeWidth"]

    assert width + width**2 + width**3 >= count


def test_slurm_chooses_the_tree_where_its_default_is_enough() -> None:
    assert "TreeWidth" not in scale.settings(4368)


def test_a_small_cluster_keeps_its_file() -> None:
    text = conf.render(config(2))

    assert "SlurmctldParameters=enable_configless\n" in text
    assert "SchedulerParameters=nohold_on_prolog_fail\n" in text
    assert "MessageTimeout=60\nSlurmctldTimeout=120\nSlurmdTimeout=300\nBatchStartTimeout=60\n" in text
    assert "HealthCheckInterval" not in text


def test_parameters_join_those_that_every_cluster_has() -> None:
    text = conf.render(config(500, slurm_health_check_program="/x"))

    assert "SlurmctldParameters=enable_configless,conmgr_max_connections=512\n" in text
    assert "SchedulerParameters=nohold_on_prolog_fail,bf_continue,max_rpc_cnt=150\n" in text
    assert "HealthCheckInterval=300\n" in text


@pytest.mark.parametrize("key", sorted(scale.table()))
def test_the_site_always_wins(key: str) -> None:
    given: t.Any = {"max_rpc_cnt": 9, "conmgr_max_connections": 9} if key.endswith("Parameters") else 9
    found = config(12_000, slurm_config={key.upper(): given}, slurm_health_check_program="/x")

    lines = [line for line in conf.render(found).splitlines() if line.lower().startswith(f"{key.lower()}=")]
    assert len(lines) == 1
    assert lines[0].endswith("=9") or "max_rpc_cnt=9" in lines[0]


@pytest.mark.parametrize("key", sorted(scale.table()))
def test_the_site_can_remove_a_key(key: str) -> None:
    assert f"\n{key}=" not in conf.render(config(12_000, slurm_config={key: None}, slurm_health_check_program="/x"))


@pytest.mark.parametrize("count", EDGES[1:])
def test_a_cluster_that_grows_restarts_no_daemon(count: int) -> None:
    """All daemons read a change of these settings with a reconfigure."""
    before, after = conf.render(config(2)), conf.render(config(count))

    assert actions.action(before, after, "slurm.conf", "24.11")["restart"] == []
    assert actions.restart_keys(config(2)) == actions.restart_keys(config(count))


def test_every_row_has_a_source() -> None:
    assert all(len(rule["source"]) > 40 and rule["from"] for rule in scale.table().values())


@pytest.mark.parametrize("key", sorted(scale.table()))
def test_the_page_has_every_value(key: str) -> None:
    row = next(line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith(f"| `{key}` |"))

    for least, value in scale.table()[key]["from"].items():
        assert re.search(rf"\b{least} nodes?\b", row)
        for item in value.items() if isinstance(value, dict) else [("", value)]:
            assert all(re.search(rf"\b{part}\b", row) for part in map(str, item) if part not in ("", "True"))
