# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import isolation
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation import search, shortfalls, stages

NODES = ["gpu1", "gpu2", "gpu3", "gpu4"]


def facts(**changes: t.Any) -> dict[str, t.Any]:
    return {
        "versions": {"kernel": "6.8.0", "driver": None, "slurm": "24.11.5"},
        "clock": {"synchronized": True, "offset": None, "by": "chrony"},
        "own_name": {"name": "gpu", "addresses": ["10.0.0.21"]},
        "mounts": {"/home": "ok"},
        "users": {"alice": {"uid": 2001, "gid": 2001}},
        **changes,
    }


def state(name: str, word: str = "idle", answers: bool = True) -> dict[str, t.Any]:
    return {"name": name, "state": word, "answers": answers, "reason": "" if word == "idle" else "broken"}


def result(nodes: t.Sequence[str], busbw: float | None, collective: str = "all_reduce") -> dict[str, t.Any]:
    return {
        "nodes": list(nodes),
        "collective": collective,
        "state": "failed" if busbw is None else "ok",
        "message": "stopped because it took too long" if busbw is None else "",
        "busbw": busbw,
        "rows": [{"size": 1024, "busbw": busbw or 0.0}],
        "checked": True,
        "rc": 0,
    }


def step(node: str, code: int = 0, out: str = "", err: str = "") -> dict[str, t.Any]:
    return {"nodes": [node], "rc": code, "stdout": out, "stderr": err}


def bad(stage: dict[str, t.Any]) -> set[tuple[str, str | None, str]]:
    return {(item["check"], item["node"], item["status"]) for item in stage["checks"] if item["status"] != "pass"}


def not_passed(stage: dict[str, t.Any]) -> list[dict[str, t.Any]]:
    return [item for item in stage["checks"] if item["status"] != "pass"]


def test_settings_of_nccl_are_the_same_on_equal_nodes() -> None:
    usual, topo = {"NCCL_DEBUG": "WARN"}, {"NCCL_DEBUG": "WARN", "NCCL_TOPO_FILE": "/opt/x.xml"}
    found = {
        "gpu1": facts(nccl_conf=usual),
        "gpu2": facts(nccl_conf=topo),
        "gpu3": facts(nccl_conf=usual),
        "gpu4": facts(nccl_conf=None),
        "cpu1": facts(nccl_conf={}),
        "control": facts(nccl_conf={"NCCL_DEBUG": "INFO"}),
    }
    states = [{**state(name), "gres": "" if name == "cpu1" else "gpu:8"} for name in found if name != "control"]
    stage = stages.build("preflight", {"facts": found, "states": states})
    (wrong,) = (item for item in not_passed(stage) if item["status"] == "fail")

    assert (wrong["check"], wrong["node"]) == ("preflight.nccl_conf", "gpu2")
    assert wrong["message"] == "NCCL_TOPO_FILE is /opt/x.xml, but not set on most equal nodes"
    assert bad(stage) - {("preflight.nccl_conf", "gpu2", "fail")} == {("preflight.nccl_conf", "gpu4", "warn")}


def test_of_two_nodes_with_other_settings_of_nccl_both_fail() -> None:
    found = {"gpu1": facts(nccl_conf={}), "gpu2": facts(nccl_conf={"NCCL_TOPO_FILE": "/x"})}
    stage = stages.build("preflight", {"facts": found, "states": [state(name) for name in found]})
    messages = {item["node"]: item["message"] for item in not_passed(stage)}

    assert messages == {
        "gpu1": "NCCL_TOPO_FILE is not set, but /x on as many equal nodes",
        "gpu2": "NCCL_TOPO_FILE is /x, but not set on as many equal nodes",
    }


def test_nodes_that_are_alike_pass() -> None:
    stage = stages.build("preflight", {"facts": {n: facts() for n in NODES}, "states": [state(n) for n in NODES]})

    assert not bad(stage)
    assert len(stage["checks"]) == 4 * (1 + 1 + 2 + 1 + 1 + 1 + 1)
    assert not any(item["check"] == "preflight.version.driver" for item in stage["checks"])


def test_the_odd_one_out_is_named() -> None:
    nodes = {
        "gpu1": facts(),
        "gpu2": facts(versions={"kernel": "6.8.0", "driver": None, "slurm": "23.11.1"}),
        "gpu3": {"unreachable": True, "msg": "timed out"},
        "gpu4": facts(users={"alice": {"uid": 1000, "gid": 2001}}, mounts={"/home": "hangs"}),
        "gpu5": facts(clock={"synchronized": False, "offset": None, "by": "timedatectl"}),
    }
    states = [state(name) for name in nodes if name != "gpu3"] + [state("gpu3", "down", False)]
    stage = stages.build("preflight", {"facts": nodes, "states": states})

    assert bad(stage) == {
        ("preflight.version.slurm", "gpu2", "fail"),
        ("preflight.answers", "gpu3", "fail"),
        ("preflight.slurm_state", "gpu3", "fail"),
        ("preflight.users", "gpu4", "fail"),
        ("preflight.mounts", "gpu4", "fail"),
        ("preflight.clock", "gpu5", "fail"),
    }


def test_a_controller_without_gpus_is_no_odd_one_but_its_slurm_must_fit() -> None:
    nodes = {
        "control": facts(versions={"kernel": "6.12.0", "driver": None, "nccl": None, "slurm": "25.05.1"}),
        **{
            name: facts(versions={"kernel": "6.8.0", "driver": "580", "nccl": "2.28.9", "slurm": "24.11.5"})
            for name in NODES
        },
    }
    stage = stages.build("preflight", {"facts": nodes, "states": [state(name) for name in NODES]})

    assert bad(stage) == {("preflight.version.slurm", "control", "fail")}


def test_a_clock_of_which_nobody_knows_is_no_pass() -> None:
    clock = {"synchronized": None, "offset": None, "by": "timedatectl"}
    stage = stages.build("preflight", {"facts": {"gpu1": facts(clock=clock)}, "states": []})

    assert bad(stage) == {("preflight.clock", "gpu1", "warn")}


@pytest.mark.parametrize(
    ("addresses", "status"),
    [
        (["10.0.0.21", "127.0.1.1"], "pass"),
        (["fd00::21"], "pass"),
        (["127.0.1.1", "10.0.0.21"], "fail"),
        (["::1"], "fail"),
        ([], "fail"),
        (None, "warn"),
    ],
)
def test_a_node_that_finds_itself_at_a_loopback_address_fails(addresses: list[str] | None, status: str) -> None:
    own = {"name": "gpu1", "addresses": addresses}
    control = facts(own_name={"name": "control", "addresses": ["127.0.1.1"]})
    stage = stages.build(
        "preflight", {"facts": {"gpu1": facts(own_name=own), "control": control}, "states": [state("gpu1")]}
    )

    found = {(item["node"], item["status"]) for item in stage["checks"] if item["check"] == "preflight.own_name"}
    assert found == {("gpu1", status)}


def test_jobs_mpi_and_what_has_not_run() -> None:
    stage = stages.build(
        "scheduler",
        {
            "job": [step("gpu1"), step("gpu2", 1, err="srun: error: Task launch failed"), step("gpu3", 124)],
            "busy": ["gpu4"],
            "mpi": [{**result(NODES, 1.0), "world": 4, "checked": False}],
            "controllers": {"status": "fail", "message": "control (primary) is UP, gpu4 (backup) is DOWN"},
            "accounting": {"status": "not_run", "message": "accounting is off"},
        },
    )

    assert bad(stage) == {
        ("scheduler.job", "gpu2", "fail"),
        ("scheduler.job", "gpu3", "fail"),
        ("scheduler.job", "gpu4", "not_run"),
        ("scheduler.mpi", None, "fail"),
        ("scheduler.controllers", None, "fail"),
        ("scheduler.accounting", None, "not_run"),
    }


def test_no_node_that_ran_a_job_means_no_proof_of_mpi_and_the_reason_of_slurm_is_shown() -> None:
    job = [{**step("gpu1", 1), "lost": "drained: expected 8 GPUs, found 2"}]
    containers = {"plugin": True, "image": "ubuntu", "results": [], "mpi": []}
    stage = stages.build("scheduler", {"job": job, "mpi": [], "containers": containers})

    assert [(item["check"], item["status"], item["message"]) for item in stage["checks"]] == [
        ("scheduler.job", "fail", "drained: expected 8 GPUs, found 2"),
        ("scheduler.mpi", "not_run", "no node ran a job"),
        ("scheduler.container", "not_run", "no node ran a job"),
        ("scheduler.container_mpi", "not_run", "no node ran a job"),
    ]


def test_processes_that_run_each_by_itself_are_no_mpi() -> None:
    stage = stages.build("scheduler", {"mpi": [{**result(NODES, 1.0), "world": 1}]})

    assert bad(stage) == {("scheduler.mpi", None, "fail")}
    assert "4 processes were started, but they ran each by itself" in stage["checks"][0]["message"]


@pytest.mark.parametrize(
    ("containers", "status", "words"),
    [
        ({"plugin": False}, "not_run", "pyxis is not installed"),
        ({"image": ""}, "not_run", "validate_container_image is empty"),
        ({"mpi": []}, "not_run", "two nodes"),
        ({"mpi": [{**result(NODES[:2], None), "world": 0, "rc": 127}]}, "not_run", "img has no Python 3.7"),
        ({"mpi": [{**result(NODES[:2], 1.0), "world": 1}]}, "fail", "each by itself"),
        ({"mpi": [{**result(NODES[:2], None), "world": 0, "rc": 1}]}, "fail", "took too long"),
        ({"mpi": [{**result(NODES[:2], 1.0), "world": 2}]}, "pass", "2 nodes through PMIx"),
    ],
)
def test_mpi_inside_of_containers_is_proved_or_it_is_said_why_not(
    containers: dict[str, t.Any], status: str, words: str
) -> None:
    usual = {"plugin": True, "image": "img", "results": [step("gpu1"), step("gpu2")], "mpi": []}
    stage = stages.build("scheduler", {"containers": {**usual, **containers}})
    found = {item["check"]: item for item in stage["checks"]}

    assert found["scheduler.container_mpi"]["status"] == status
    assert words in found["scheduler.container_mpi"]["message"]


def test_a_node_outside_of_the_container_is_named() -> None:
    results = [step("gpu1"), step("gpu2", 1, err="not in a container")]
    stage = stages.build("scheduler", {"containers": {"plugin": True, "image": "img", "results": results, "mpi": []}})

    assert stage["checks"][0]["status"] == "fail"
    assert stage["checks"][0]["message"] == "gpu2: not in a container"


def test_a_node_that_slurm_drained_since_is_no_longer_well() -> None:
    raw = {
        "before": [state("gpu1"), state("gpu2"), state("gpu3"), state("gpu4", "down"), state("gpu5")],
        "states": [state("gpu1"), state("gpu2", "drained"), state("gpu4", "down"), state("gpu5", "drained")],
        "meant": ["gpu1", "gpu2", "gpu3", "gpu4"],
    }
    stage = stages.build("after", raw)

    assert bad(stage) == {("preflight.slurm_state", "gpu2", "fail"), ("preflight.slurm_state", "gpu3", "fail")}
    assert sorted(stage["lost"]) == ["gpu2", "gpu3"]


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("transition", ["powered down", "powering down", "about to reboot", "rebooting"])
def test_a_node_that_is_switched_off_or_reboots_is_not_measured(transition: str, before: bool) -> None:
    """sinfo calls it idle, with a mark."""
    gone = {**state("gpu2"), "transition": transition}
    raw = {"before": [state("gpu1"), state("gpu2")], "states": [state("gpu1"), gone], "meant": ["gpu1", "gpu2"]}
    stage = stages.build("after", raw) if before else stages.build("preflight", {"facts": {}, "states": [gone]})
    found = [item for item in stage["checks"] if item["check"] == "preflight.slurm_state"]

    assert [(item["node"], item["status"]) for item in found] == [("gpu2", "not_run")]
    assert f"idle, {transition}" in found[0]["message"]
    assert not stage.get("lost")


def test_nodes_that_are_all_well_at_the_end_pass_and_silence_does_not() -> None:
    raw = {"before": [state("gpu1")], "states": [state("gpu1")], "meant": ["gpu1"], "measured": ["gpu1"]}

    assert [item["status"] for item in stages.build("after", raw)["checks"]] == ["pass"]
    assert bad(stages.build("after", {"before": [], "states": [], "meant": [], "error": "sinfo exited 1"})) == {
        ("stage", None, "fail")
    }


@pytest.mark.parametrize(("named", "status"), [(True, "fail"), (False, "not_run")])
@pytest.mark.parametrize(
    ("name", "check", "raw"),
    [
        ("scheduler", "scheduler.job", {"job": [step("gpu1")]}),
        ("node", "node.part", {"dcgm": []}),
        ("nccl", "nccl.part", {}),
        ("nccl", "nccl.part", {"error": "it broke off"}),
    ],
)
def test_a_node_that_is_left_out_is_not_forgotten(
    name: str, check: str, raw: dict[str, t.Any], named: bool, status: str
) -> None:
    unusable = [state("gpu3", "drained"), state("gpu4", "reserved"), {**state("gpu5", "idle", False), "reason": ""}]
    stage = stages.build(name, {**raw, "busy": ["gpu2"], "unusable": unusable, "named": named})

    assert bad(stage) - {("stage", None, "fail")} == {
        (check, "gpu2", "not_run"),
        (check, "gpu3", status),
        (check, "gpu4", status),
        (check, "gpu5", status),
    }
    assert [item["message"] for item in stage["checks"] if item["node"] in ("gpu3", "gpu5")] == [
        "skipped: drained: broken",
        "skipped: idle, slurmd does not answer",
    ]


def test_what_is_not_installed_has_not_run() -> None:
    stage = stages.build("node", {"check": [step("gpu1", 127)], "dcgm": [step("gpu1", 127)]})

    assert bad(stage) == {("node.check", "gpu1", "not_run"), ("node.dcgm", "gpu1", "not_run")}


def test_the_slowest_gpu_of_a_node_counts() -> None:
    out = "Running host_to_device_memcpy_ce.\n  0  1\n 0  55.6  13.9\n"
    raw = {"nvbandwidth": [step("gpu1", 0, out)], "thresholds": {"host_to_device_gbps": {"warn": 52, "fail": 48}}}
    stage = stages.build("node", raw)
    found = {item["check"]: item for item in stage["checks"]}

    assert found["node.host_to_device"]["status"] == "fail"
    assert found["node.host_to_device"]["measured"] == 13.9
    assert found["node.device_to_host"]["status"] == "fail"  # no figure is no pass
    unlimited = stages.build("node", {"nvbandwidth": raw["nvbandwidth"]})["checks"]
    assert [item["message"] for item in unlimited if item["status"] == "pass"] == [
        "slowest of 2 GPUs; median 34.75; no limit is known"
    ]


def test_a_gpu_that_was_not_measured_is_a_failure() -> None:
    out = "Running host_to_device_memcpy_ce.\n  0  1\n 0  55.6  N/A\n"
    found = stages.build("node", {"nvbandwidth": [step("gpu1", 0, out)], "gpus": 2})["checks"]
    short = stages.build("node", {"nvbandwidth": [step("gpu1", 0, out.replace("N/A", "55.1"))], "gpus": 8})["checks"]
    odd = stages.build("node", {"nvbandwidth": [step("gpu1", 0, out.replace("N/A", "99999"))], "most": 64})["checks"]

    assert odd[0]["message"] == "1 of 2 GPUs measured; 99999 GB/s is no measurement: at most 64 is possible"
    assert [(item["status"], item["message"]) for item in (odd[0], found[0], short[0])][1:] == [
        ("fail", "1 of 2 GPUs measured"),
        ("fail", "2 of 8 GPUs measured"),
    ]


def pairs(slow: str, good: float = 190.0) -> list[dict[str, t.Any]]:
    games = [pair for games in isolation.tournament(NODES) for pair in games]
    return [result(pair, good * (0.01 if slow in pair else 1.0)) for pair in games]


def searched(raw: dict[str, t.Any]) -> dict[str, t.Any]:
    raw = {**raw, "search": []}
    while groups := search.isolate(raw)["next"]:
        raw["search"] += [result(g, 1.9 if "gpu3" in g else 190.0) for g in groups]
    return {**raw, "isolation": search.isolate(raw)["verdict"]}


@pytest.mark.parametrize("thresholds", [{}, {"pair": {"warn": 180, "fail": 170}, "all": {"fail": 170}}])
def test_a_slow_node_of_four_is_named_with_and_without_thresholds(thresholds: dict[str, t.Any]) -> None:
    raw = searched({"nodes": NODES, "pair": pairs("gpu3"), "all": [result(NODES, 1.9)], "thresholds": thresholds})
    stage = stages.build("nccl", raw)

    assert [item["node"] for item in stage["checks"] if item["check"] == "isolation.node"] == ["gpu3"]
    assert sum(item["status"] == "fail" for item in stage["checks"]) == 3 + 1 + 1
    assert len(stage["pairs"]["values"]) == 6
    assert sum(curve["bad"] for curve in stage["curves"]) == 4


H100 = {"pair": {"expected": 450, "warn": 400, "fail": 300}, "all": {"expected": 450, "warn": 400, "fail": 300}}


def level(raw: dict[str, t.Any], value: t.Callable[[t.Sequence[str]], float]) -> dict[str, t.Any]:
    games = [pair for games in isolation.tournament(NODES) for pair in games]
    raw = {**raw, "nodes": NODES, "pair": [result(pair, value(pair)) for pair in games], "search": []}
    raw["all"] = [result(NODES, value(NODES))]
    while groups := search.isolate(raw)["next"]:
        raw["search"] += [result(group, value(group)) for group in groups]
    return stages.build("nccl", {**raw, "isolation": search.isolate(raw)["verdict"]})


def test_what_is_worth_a_warning_fails_no_run() -> None:
    stage = level({"thresholds": H100}, lambda group: 390.0)
    found = [item for item in stage["checks"] if item["check"].startswith("isolation")]

    assert {status for _check, _node, status in bad(stage)} == {"warn"}
    assert [item["message"] for item in found] == ["none of 6 groups is good, so no node can be told from the others"]


@pytest.mark.parametrize(("slow", "status"), [(390.0, "warn"), (290.0, "fail")])
def test_a_node_that_is_slower_than_it_should_be_is_named_even_if_it_does_not_fail(slow: float, status: str) -> None:
    stage = level({"thresholds": H100}, lambda group: slow if "gpu3" in group else 450.0)

    assert [item[1:] for item in bad(stage) if item[0] == "isolation.node"] == [("gpu3", status)]
    assert {item[2] for item in bad(stage)} == {status}


@pytest.mark.parametrize(("slow", "status"), [(390.0, "warn"), (290.0, "fail")])
def test_a_path_and_a_fabric_that_are_slow_fail_only_below_what_fails(slow: float, status: str) -> None:
    path = level({"thresholds": H100}, lambda group: slow if {"gpu1", "gpu2"} <= set(group) else 450.0)
    fabric = level({"thresholds": H100}, lambda group: slow if len(group) > 2 else 450.0)

    assert {item[2] for item in bad(path) | bad(fabric)} == {status}
    assert ("isolation.link", None, status) in bad(path)
    assert ("isolation.shared", None, status) in bad(fabric)


def test_a_job_that_hung_in_the_search_is_no_warning() -> None:
    stage = level({"thresholds": {"pair": {"warn": 400}}}, lambda group: 0.0 if "gpu3" in group else 450.0)

    assert ("isolation.node", "gpu3", "fail") in bad(stage)


def test_a_good_cluster_needs_no_search() -> None:
    raw = {"nodes": NODES, "pair": pairs("none"), "all": [result(NODES, 185.0)]}

    assert search.isolate(raw) == {"again": {}, "next": [], "verdict": None}
    assert not bad(stages.build("nccl", {**raw, "isolation": None, "thresholds": {"pair": 170, "all": 120}}))


def test_without_a_limit_a_good_comparison_is_a_warning() -> None:
    raw = {"nodes": NODES, "node": [result([name], 5.0) for name in NODES], "pair": pairs("none", good=5.0)}
    limits = {item["check"]: item["message"] for item in stages.build("nccl", raw)["checks"]}["nccl.limits"]

    assert bad(stages.build("nccl", raw)) == {("nccl.limits", None, "warn")}
    assert limits.startswith("no limit is known for the bandwidth in one node and between two nodes: figures are only")
    known = {"thresholds": {"node": {"warn": 4.0}, "pair": {"expected": 190}}}
    stage = stages.build("nccl", {**raw, **known})
    assert bad(stage) == {("nccl.limits", None, "warn")}
    assert "between two nodes" in stage["checks"][-1]["message"]
    assert "in one node" not in stage["checks"][-1]["message"]


def test_what_is_compared_with_itself_has_not_run() -> None:
    raw = {"nodes": NODES[:2], "pair": [result(NODES[:2], 5.0), result(NODES[:2], 4.0, "all_gather")]}
    stage = stages.build("nccl", raw)

    assert bad(stage) == {
        ("nccl.pair.all_reduce", None, "not_run"),
        ("nccl.pair.all_gather", None, "not_run"),
        ("nccl.limits", None, "warn"),
    }
    text = "gpu1 - gpu2: 5 GB/s, but no limit is known and nothing to compare with"
    assert stage["checks"][0]["message"] == text
    assert not any(curve["bad"] for curve in stage["curves"])
    assert not bad(stages.build("nccl", {**raw, "thresholds": {"pair": 4.5}}))


def test_between_cpus_a_limit_is_not_missed_but_the_report_says_so() -> None:
    raw = {"nodes": NODES[:2], "pair": [result(NODES[:2], 0.4)], "program": "mpi", "note": "No GPU took part."}
    stage = stages.build("nccl", raw)

    assert not bad(stage)
    assert stage["notes"][0].startswith("no limit is known for the bandwidth between two nodes")


def test_what_failed_is_measured_again_even_if_no_limit_is_known() -> None:
    raw: dict[str, t.Any] = {"nodes": ["gpu1"], "node": [result(["gpu1"], None)], "thresholds": {}}
    again = {"node": {"groups": [["gpu1"]], "collectives": ["all_reduce"]}}

    assert search.isolate(raw)["again"] == again
    assert search.isolate(raw, repeats=1)["again"] == {}

    lucky = {**raw, "program": "mpi", "node": [*raw["node"], result(["gpu1"], 3.0)]}
    (found,) = [item for item in stages.build("nccl", lucky)["checks"] if item["check"].startswith("nccl.node")]
    assert (found["status"], found["message"]) == (
        "warn",
        "3 GB/s; measured 2 times: failed, 3; the failure: stopped because it took too long",
    )

    still = {**raw, "node": [*raw["node"], result(["gpu1"], None)]}
    assert search.isolate(still)["again"] == {}
    assert [item["status"] for item in not_passed(stages.build("nccl", still))] == ["fail"]


@pytest.mark.parametrize("later", [0, 1, 2])
def test_wrong_results_are_not_forgotten_after_right_ones(later: int) -> None:
    wrong = {**result(["gpu1"], None), "wrong": True, "message": "wrong results: 7 values out of bounds"}
    measured = [*(result(["gpu1"], 300.0) for _number in range(later)), wrong, result(["gpu1"], 310.0)]
    raw: dict[str, t.Any] = {"nodes": ["gpu1"], "node": measured, "thresholds": {"node": 250.0}}

    assert search.isolate({**raw, "node": [wrong]})["again"] == {}, "a repetition changes nothing"
    assert [item["message"] for item in not_passed(stages.build("nccl", raw))] == [wrong["message"]]


def test_what_fell_short_once_is_measured_again_before_it_counts() -> None:
    measured = pairs("none")
    unlucky = measured[1]["nodes"]
    measured[1] = result(unlucky, 5.0)
    raw: dict[str, t.Any] = {
        "nodes": NODES,
        "node": [result(["gpu1"], 300.0), result(["gpu2"], 20.0, "alltoall")],
        "pair": measured,
        "thresholds": {"node": 250.0, "pair": 150.0},
    }

    assert search.isolate(raw)["again"] == {
        "node": {"groups": [["gpu2"]], "collectives": ["alltoall"]},
        "pair": {"groups": [unlucky], "collectives": ["all_reduce"]},
    }

    lucky = {
        **raw,
        "pair": [*measured, result(unlucky[::-1], 185.0)],
        "node": [*raw["node"], result(["gpu2"], 290.0, "alltoall")],
    }
    assert search.isolate(lucky)["again"] == {}
    assert not bad(stages.build("nccl", lucky))

    seen = {**lucky, "pair": measured, "search": [result(unlucky, 185.0)]}
    assert not bad(stages.build("nccl", seen)), "what the search measured counts, too"

    still = {**raw, "node": [], "pair": [*measured, result(unlucky, 6.0)]}
    assert search.isolate(still)["again"] == {}
    assert [item["message"] for item in stages.build("nccl", still)["checks"] if item["status"] == "fail"] == [
        f"{unlucky[0]} - {unlucky[1]}: 6 is below 150 GB/s; measured 2 times: 5, 6"
    ]


def test_with_three_measurements_the_middle_one_counts() -> None:
    values = [190.0, 40.0, 45.0]
    raw = {"nodes": NODES[:2], "pair": [result(NODES[:2], value) for value in values], "thresholds": {"pair": 150.0}}

    assert [item["measured"] for item in stages.build("nccl", raw)["checks"]] == [45.0]


def test_good_pairs_that_fall_short_together_are_no_node() -> None:
    raw = {"nodes": NODES, "pair": pairs("none"), "all": [result(NODES, 50.0), result(NODES, 50.0)]}
    outcome = search.isolate(raw)

    assert outcome["next"] == []
    assert outcome["verdict"]["shared"] == [NODES]
    assert ("isolation.shared", None, "fail") in bad(stages.build("nccl", {**raw, "isolation": outcome["verdict"]}))


def test_a_hung_pair_falls_short() -> None:
    raw = {"nodes": NODES, "pair": [result(["gpu1", "gpu2"], None), result(["gpu3", "gpu4"], 190.0)]}

    assert search.isolate(raw)["next"] == [["gpu1", "gpu3"], ["gpu2", "gpu4"]]


def test_what_was_not_measured_says_nothing_about_its_nodes() -> None:
    lost = {"state": "not_measured", "message": "job 17 was COMPLETED before this was measured", "busbw": None}
    raw = {
        "nodes": NODES,
        "pair": [
            result(NODES[:2], 190.0),
            result(NODES[2:], 190.0),
            {**result(NODES[1:3], None), **lost},
            {**result(NODES[:2], None), **lost},
        ],
        "search": [{**result(NODES[:2], None), **lost}],
    }
    outcome = search.isolate(raw)
    stage = stages.build("nccl", raw)

    assert outcome == {"again": {}, "next": [], "verdict": None}
    assert bad(stage) == {("nccl.pair.all_reduce", None, "not_run"), ("nccl.limits", None, "warn")}
    assert len(stage["pairs"]["values"]) == len(stage["curves"]) == 2


def test_cpus_are_judged_less_strictly_than_gpus() -> None:
    raw = {"nodes": NODES, "pair": [result(["gpu1", "gpu2"], 0.4), result(["gpu3", "gpu4"], 1.2)]}

    assert not bad(stages.build("nccl", {**raw, "program": "mpi"}))
    assert bad(stages.build("nccl", {**raw, "program": "nccl"}))


def test_another_operation_is_not_green_without_a_judgement() -> None:
    thresholds = {"all": {"fail": 170}, "pair": {"fail": 170}}
    raw = {"nodes": NODES, "all": [result(NODES, 188.0), result(NODES, 94.0, "all_gather")], "thresholds": thresholds}

    assert bad(stages.build("nccl", raw)) == {("nccl.all.all_gather", None, "warn")}


def test_unchecked_results_warn() -> None:
    raw = {"nodes": NODES[:2], "pair": [{**result(NODES[:2], 190.0), "checked": False}], "thresholds": {"pair": 170}}

    assert bad(stages.build("nccl", raw)) == {("nccl.pair.all_reduce", None, "warn")}


def test_a_stage_that_broke_off_fails_and_keeps_what_it_has() -> None:
    stage = stages.build("scheduler", {"error": "no idle node: 4 drained", "job": [step("gpu1")]})

    assert bad(stage) == {("stage", None, "fail")}
    assert len(stage["checks"]) == 2
    assert bad(stages.build("preflight", {"error": "sinfo exited 1"})) == {("stage", None, "fail")}


def test_contradicting_thresholds_and_unknown_stages_are_refused() -> None:
    with pytest.raises(shortfalls.ThresholdError, match="pair: warn"):
        search.isolate({"nodes": NODES, "pair": pairs("none"), "thresholds": {"pair": {"warn": 1, "fail": 2}}})
    with pytest.raises(stages.StageError, match="unknown stage 'fabric'"):
        stages.build("fabric", {})
