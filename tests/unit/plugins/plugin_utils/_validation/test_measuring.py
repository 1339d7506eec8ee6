# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the stages do on the host that submits jobs, and what they hand to each other."""

from __future__ import annotations

import json
import re
import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._hardware import record as paths
from ansible_collections.hpcai.gpucluster.plugins.module_utils._repair import cli as repair_cli
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue import records
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation import report as results
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation import report_page, stages
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation import settings as inputs
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation.session import Nodes, Session
from ansible_collections.hpcai.gpucluster.tests.unit.support.repair_cluster import FakeSlurm
from ansible_collections.hpcai.gpucluster.tests.unit.support.slurm_hosts import SETTINGS, Host

if t.TYPE_CHECKING:
    from pathlib import Path

A100, H100 = "Standard_ND96asr_v4", "Standard_ND96isr_H100_v5"
FACTS = {
    "versions": {"slurm": "24.11.5"},
    "clock": {"synchronized": True, "offset": 0.0, "by": "x"},
    "mounts": {},
    "own_name": {"name": "gpu1", "addresses": ["10.0.0.21"]},
}


def session(host: Host, nodes: Nodes | None = None, **changes: t.Any) -> Session:
    return Session({**SETTINGS, **changes}, nodes or Nodes(), host.call, host.lines.append, lambda _seconds: None)


def stage(name: str, host: Host, nodes: Nodes | None = None, facts: t.Any = None, **changes: t.Any) -> dict[str, t.Any]:
    return stages.build(name, stages.run(name, session(host, nodes, **changes), facts or {}))


def statuses(found: dict[str, t.Any], check: str) -> dict[str | None, str]:
    return {item["node"]: item["status"] for item in found["checks"] if item["check"] == check}


def messages(found: dict[str, t.Any], check: str) -> list[str]:
    return [item["message"] for item in found["checks"] if item["check"] == check]


@pytest.mark.parametrize("number", [4, 9, 40])
def test_the_search_names_the_slow_node_in_one_call_and_says_what_it_does(number: int) -> None:
    host = Host(number, slow=["gpu3"])
    found = stage("nccl", host)

    assert statuses(found, "isolation.node") == {"gpu3": "fail"}
    assert found["isolation"]["complete"]
    assert sum("measure all_reduce" in line for line in host.lines) == len(host.called("nccl_test"))
    assert number < 9 or "search, round 1: measure all_reduce in groups of suspects: 2 groups" in host.lines
    assert any(line.startswith("slowest: ") and line.endswith("gpu3, all_reduce: 40 GB/s") for line in host.lines)
    assert host.lines[0] == f"nodes: gpu[1-{number}]"


def test_a_search_that_may_not_go_on_says_so() -> None:
    found = stage("nccl", Host(9, slow=["gpu3"]), search_rounds=0)

    assert found["isolation"]["complete"] is False


def test_pairs_take_one_operation_and_what_fell_short_is_measured_once_more() -> None:
    host = Host(4, slow=["gpu3"])
    stage("nccl", host, search_rounds=0, repeats=3)
    node, pair, whole, again = host.called("nccl_test")[:4]

    assert node["groups"] == [["gpu1"], ["gpu2"], ["gpu3"], ["gpu4"]]
    assert (node["collectives"], pair["collectives"]) == (["all_reduce", "alltoall"], ["all_reduce"])
    assert len(pair["groups"]) == 6
    assert whole["groups"] == [host.names]
    assert (again["collectives"], again["repeat"]) == (["all_reduce"], 2)
    assert all("gpu3" in group for group in again["groups"])


def test_the_record_of_the_nodes_says_how_to_measure_and_what_must_be_reached() -> None:
    host = Host(2)
    hardware = [{"hosts": "gpu[1-2]", "record": records.find(H100)}]
    found = stage("nccl", host, hardware=hardware, environment={"NCCL_DEBUG": "WARN"})
    call = host.called("nccl_test")[0]

    assert (call["tasks_per_node"], call["gpus_per_node"], call["command"]) == (8, 8, ["{collective}_perf"])
    assert call["environment"]["NCCL_DEBUG"] == "WARN"
    assert set(call["environment"]) > {"NCCL_DEBUG"}
    assert found["limits"][0]["why"] == f"hardware record {H100}"
    assert "container_image" not in call


def one_gpu(found: dict[str, t.Any]) -> list[dict[str, t.Any]]:
    return [item for item in found["checks"] if item["check"].startswith("nccl.node.")]


def test_nodes_with_one_gpu_have_no_bandwidth_between_gpus() -> None:
    """It is 0 by definition, and a threshold for it would fail every such node."""
    host = Host(2, gpus=1)
    found = stage("nccl", host, search_rounds=0, thresholds={"node": 100})

    assert {(item["status"], item["message"], item["measured"]) for item in one_gpu(found)} == {
        ("not_run", "not measured: one GPU", None)
    }
    assert len(one_gpu(found)) == 4
    assert all(len(group) == 2 for call in host.called("nccl_test") for group in call["groups"])
    assert stage("nccl", Host(1, gpus=1))["checks"]


def test_a_result_of_one_rank_alone_is_no_measurement() -> None:
    result = {"nodes": ["gpu1"], "collective": "all_reduce", "state": "ok", "message": "", "busbw": 0.0, "rows": []}
    raw = {"program": "nccl", "thresholds": {"node": 100}}

    (check,) = one_gpu(stages.build("nccl", {**raw, "node": [{**result, "checked": True, "world": 1}]}))

    assert (check["status"], check["message"]) == ("not_run", "not measured: one GPU")
    (check,) = one_gpu(stages.build("nccl", {**raw, "node": [{**result, "checked": True, "world": 8}]}))
    assert check["status"] == "fail"


def test_the_page_says_of_an_unjudged_figure_what_its_check_says() -> None:
    """A limit that is a part of the figure itself would make each figure pass by the same percentage."""
    found = stage("nccl", Host(2, gpus=1), search_rounds=0)
    page = report_page.page(results.build([found], {"run": "x", "stages": ["nccl"]}))
    (pair,) = (item for item in found["checks"] if item["check"] == "nccl.pair.all_reduce")

    assert (pair["status"], pair["limits"], found["pairs"]["limits"]) == ("not_run", {}, {})
    assert "above the limit" not in page
    assert "17.6 %" not in page
    assert "no limit is known" in page
    assert "<b>0 <small>" not in page


def test_a_figure_above_every_path_of_the_record_is_no_measurement() -> None:
    """18 NVLinks of 25 GB/s, of which a reduction in the switch may seem to use twice the bandwidth."""
    host = Host(2)
    host.bandwidth = 9000.0
    found = stage("nccl", host, hardware=[{"hosts": "gpu[1-2]", "record": records.find(H100)}], search_rounds=0)

    assert set(statuses(found, "nccl.node.all_reduce").values()) == {"fail"}
    assert "9000 GB/s is no measurement: the hardware record allows at most 900 GB/s" in messages(
        found, "nccl.node.all_reduce"
    )


@pytest.mark.parametrize(
    ("record", "most"),
    [
        ({"gpus": {"model": "H100", "nvlinks": 18, "pcie_generation": 5}}, 900),
        ({"gpus": {"model": "GB200", "nvlinks": 18}}, 1800),
        ({"gpus": {"model": "A100", "nvlinks": 12}, "infiniband": {"hcas": ["a"] * 8, "rate_gbps": 400}}, 800),
        ({"gpus": {"model": "L40S", "pcie_generation": 4}}, 64),
        ({"gpus": {"model": "L40S"}, "infiniband": {"hcas": ["a"], "rate_gbps": 400}}, None),
        ({}, None),
    ],
)
def test_the_most_that_a_record_allows(record: dict[str, t.Any], most: float | None) -> None:
    assert paths.most(record) == most


def test_every_threshold_of_the_catalogue_is_possible() -> None:
    for name in records.names():
        record = records.find(name)
        most = paths.most(record)
        for key in ("nccl_allreduce_busbw_gbps", "nccl_allreduce_multinode_busbw_gbps"):
            least = record.get("thresholds", {}).get(key) or {}
            assert most is None or max(filter(None, least.values()), default=0) < most, (name, key)
        for key in ("host_to_device_gbps", "device_to_host_gbps"):
            least = record.get("thresholds", {}).get(key) or {}
            assert max(filter(None, least.values()), default=0) < paths.most_copies(record), (name, key)


def test_nodes_without_gpus_are_measured_with_mpi_between_cpus() -> None:
    host = Host(2, gpus=0)
    found = stage("nccl", host, container_image="img")
    (call,) = host.called("nccl_test")

    assert call["command"] == ["python3", "-c", "print()", "{collective}"]
    assert (call["max_bytes"], call["factor"], call["tasks_per_node"]) == ("4M", 4, 1)
    assert {"gpus_per_node", "container_image"}.isdisjoint(call)
    assert "No GPU took part" in found["notes"][-1]


def test_an_interrupted_run_is_cancelled_before_nodes_are_chosen() -> None:
    host = Host(2)
    stage("nccl", host)

    assert [name for name, _arguments in host.calls[:2]] == ["slurm_job", "slurm_nodes_info"]
    assert host.calls[0][1] == {"name": "gpucluster-validate", "state": "absent"}


def test_nodes_that_are_skipped_are_in_the_report() -> None:
    host = Host(4)
    host.busy, host.unusable = ["gpu2"], ["gpu4"]
    found = stage("nccl", host, facts={"gpu3": {"unreachable": True}}, nodelist=["gpu[1-4]"])

    assert found["nodes"] == ["gpu1"], "gpu3 does not answer Ansible"
    assert statuses(found, "nccl.part") == {"gpu2": "not_run", "gpu4": "fail"}


def test_what_was_measured_before_a_stage_stopped_is_kept() -> None:
    host = Host(3, slow=["gpu3"])
    answer, calls = host.call, iter(range(99))

    def call(module: str, arguments: dict[str, t.Any]) -> dict[str, t.Any]:
        if module.endswith("nccl_test") and next(calls) == 3:
            return {"failed": True, "msg": "job 17 did not start"}
        return answer(module, arguments)

    host.call = call  # type: ignore[method-assign]
    found = stage("nccl", host)

    assert messages(found, "stage") == ["job 17 did not start"]
    assert len(found["pairs"]["values"]) == 3
    assert [item["name"] for item in found["isolation"]["bad"]] == ["gpu3"]


def test_only_nodes_that_ran_a_job_go_on_and_without_any_nothing_is_submitted() -> None:
    host, nodes = Host(3), Nodes()
    host.lost = {"gpu2": "drained: broken"}
    found = stage("scheduler", host, nodes)

    assert statuses(found, "scheduler.job") == {"gpu1": "pass", "gpu2": "fail", "gpu3": "pass"}
    assert nodes.taken == ["gpu1", "gpu3"]
    assert host.called("nccl_test")[0]["groups"] == [["gpu1", "gpu3"]]
    assert found["nodes"] == ["gpu1", "gpu3"]

    host.lost = dict.fromkeys(host.names, "drained: broken")
    nodes, before = Nodes(), len(host.called("nccl_test"))
    found = stage("scheduler", host, nodes)
    assert statuses(found, "scheduler.mpi") == {None: "not_run"}
    assert messages(stage("nccl", host, nodes), "stage.follows") == [
        "nothing was done, for none of the chosen nodes ran a job"
    ]
    assert len(host.called("nccl_test")) == before


@pytest.mark.parametrize(
    ("command", "said", "check", "status", "message"),
    [
        ("scontrol", "Slurmctld(primary) at head is DOWN", "scheduler.controllers", "fail", "head (primary) is DOWN"),
        ("scontrol", "Slurmctld(primary) at head is UP", "scheduler.controllers", "pass", "head (primary) is UP"),
        ("sacct", "", "scheduler.accounting", "fail", "sacct does not know the job"),
        ("sacct", "17", "scheduler.accounting", "pass", "job 17"),
        ("srun", "", "scheduler.container", "not_run", "pyxis is not installed"),
    ],
)
def test_what_slurm_says_is_judged(command: str, said: str, check: str, status: str, message: str) -> None:
    host = Host(2)
    host.said[command] = said
    found = stage("scheduler", host)

    assert (statuses(found, check), messages(found, check)) == ({None: status}, [message])
    asked = [call["argv"][3] for call in host.called("command")].count("sacct")
    assert asked == (11 if not host.said["sacct"] else 1)


def test_a_slurm_that_says_nothing_stops_the_stage() -> None:
    host = Host(2)
    host.said["scontrol"] = ""

    assert messages(stage("scheduler", host), "stage") == ["scontrol ping: no output"]
    assert not host.called("nccl_test")


def test_containers_run_on_each_node_and_mpi_between_two() -> None:
    host = Host(3)
    found = stage("scheduler", host, container_image="img", container_mounts=["/shared"])
    inside = host.called("slurm_job")[-1]
    between = host.called("nccl_test")[-1]

    assert inside["step_options"] == ["--container-image=img"]
    assert (between["groups"], between["container_mounts"]) == ([["gpu1", "gpu2"]], ["/shared"])
    assert between["command"][2].startswith("read -r inside outside count < /proc/self/uid_map;")
    assert statuses(found, "scheduler.container_mpi") == {None: "pass"}


def test_a_program_that_fails_as_a_whole_does_not_keep_the_next_one_from_running() -> None:
    host = Host(2)
    host.faults["slurm_job"] = "sbatch exited 1"
    nodes = Nodes(known=host.nodes, meant=host.names, taken=list(host.names))
    found = stage("node", host, nodes)

    assert len(host.called("slurm_job")) == 3
    assert messages(found, "stage") == ["sbatch exited 1"]


def test_a_node_that_is_drained_by_a_test_takes_no_part_in_the_next_stage() -> None:
    host, nodes = Host(2), Nodes()
    host.lost = {"gpu2": "drained: bad"}
    stage("node", host, nodes)

    assert nodes.taken == ["gpu1"]
    assert host.called("slurm_job")[1]["step_options"] == ["--gpus-per-node=8"]


def test_a_controller_is_compared_with_the_nodes_and_other_nodes_are_not() -> None:
    host, nodes = Host(3), Nodes()
    host.names = ["gpu1"]
    facts = {name: {**FACTS, "users": {}} for name in ("control", "gpu1", "gpu2")}
    found = stage("preflight", host, nodes, facts)

    assert set(statuses(found, "preflight.answers")) == {"control", "gpu1"}
    assert (found["nodes"], nodes.meant) == (["control", "gpu1"], ["gpu1"])


def test_nodes_are_compared_with_those_of_the_beginning() -> None:
    host, nodes = Host(2), Nodes()
    stage("preflight", host, nodes, {"gpu1": {**FACTS, "users": {}}})
    host.nodes = [host.nodes[0], {**host.nodes[1], "state": "drained"}]
    found = stage("after", host, nodes, hardware=records.find(A100))

    assert found["lost"] == ["gpu2"]
    assert found["hardware"][0]["size"] == A100
    assert not host.called("slurm_job")


def test_the_report_has_the_repairs_of_the_nodes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = FakeSlurm(tmp_path)
    for name in ("gpu1", "gpu2"):
        cluster.sicken(name, "reboot")
        cluster.go_on()
    config = tmp_path / "repair.json"
    config.write_text(json.dumps(cluster.settings()._asdict()), encoding="utf-8")
    assert repair_cli.main(["--config", str(config), "status", "--json"]) == 0
    host, nodes = Host(1), Nodes()
    host.repairs = capsys.readouterr().out
    stage("preflight", host, nodes, {"gpu1": {**FACTS, "users": {}}})

    after = stage("after", host, nodes, hardware=records.find(A100))
    page = report_page.page(results.build([after], {"run": "20261120T101500Z", "stages": ["after"], "cluster": "c"}))

    assert [case["node"] for case in after["repairs"]] == ["gpu1"]  # gpu2 was not validated
    table = page[page.index("<h2>Repairs</h2>") :]
    assert re.search(r"gpu1.*returned.*NHC: gpu_count.* gpu_reset; [0-9:]+ health failed: gpu_count.* reboot; ", table)


@pytest.mark.parametrize("printed", [None, "", "{}", "no JSON", '{"cases": null}'])
def test_without_repairs_the_report_has_no_table_of_them(printed: str | None) -> None:
    host, nodes = Host(1), Nodes()
    host.repairs = printed
    stage("preflight", host, nodes, {"gpu1": {**FACTS, "users": {}}})

    after = stage("after", host, nodes, hardware=records.find(A100))

    assert after["repairs"] == []
    assert [item["status"] for item in after["checks"]] == ["pass"]
    assert "Repairs" not in report_page.page(results.build([after], {"stages": ["after"], "cluster": "c"}))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"thresholds": {"pairs": 1}}, "validate_thresholds: found pairs; allowed: node, pair, all, host"),
        ({"thresholds": {"pair": {"warn": 1, "fail": 2}}}, r"validate_thresholds: pair: warn \(1\) is below fail"),
        ({"thresholds": {"pair": "high"}}, "validate_thresholds: pair: 'high' must be a number"),
        ({"relative": {"pair": "high"}}, "validate_relative: found pair: 'high'; allowed: numbers"),
        ({"hardware": {"gpus": 8}}, "validate_hardware: gpus must be a mapping"),
        ({"hardware": {}}, "validate_hardware: found nothing; allowed: a hardware record"),
        ({"hardware": ["gpu1"]}, "validate_hardware: found 'gpu1'; allowed: mappings of hosts and record"),
        ({"hardware": "DGX_H100"}, "validate_hardware: a hardware record must be a mapping, not str"),
    ],
)
def test_wrong_settings_are_refused_before_anything_is_measured(changes: dict[str, t.Any], words: str) -> None:
    host = Host()

    with pytest.raises(inputs.SettingsError, match=words):
        stage("nccl", host, **changes)
    assert not host.calls


def mixed(**changes: t.Any) -> list[str]:
    host = Host(3)
    host.nodes[2]["gpus"] = changes.pop("gpus", 8)
    return messages(stage("nccl", host, **changes), "stage")


def test_nodes_of_several_kinds_are_not_measured_together() -> None:
    hardware = [{"hosts": hosts, "record": records.find(size)} for hosts, size in (("gpu1", A100), ("gpu2", H100))]

    assert mixed(gpus=0)[0].startswith(
        "Nodes with and without GPUs cannot be measured together. Slurm knows GPUs of gpu[1-2], and none of gpu3."
    )
    assert not mixed(gpus=0, gpus_per_node=8)
    assert not mixed(gpus=0, program="mpi")
    assert f"together: gpu1 is {A100}, gpu2 is {H100}, gpu3 has none in the inventory." in mixed(hardware=hardware)[0]
    assert not mixed(hardware=records.find(H100))
    assert not mixed(hardware=hardware, nodelist=[], stages=["scheduler"])


def test_nodes_with_different_device_files_are_measured_together() -> None:
    found = [records.find(H100) for _node in range(3)]
    for number, record in enumerate(found):
        record["gpus"]["first_device"] = 8 * number
    hardware = [{"hosts": f"gpu{number}", "record": record} for number, record in enumerate(found, 1)]

    assert not mixed(hardware=hardware)


def test_an_unknown_stage_is_refused() -> None:
    with pytest.raises(stages.StageError, match="unknown stage 'fabric'; there are preflight, scheduler, node, nccl"):
        stages.run("fabric", session(Host()), {})
