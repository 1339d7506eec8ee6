# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tools that measure, as files of their real names on a real machine: found, started, and read."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._health import checks, process
from ansible_collections.hpcai.gpucluster.plugins.module_utils._health.case import Case
from ansible_collections.hpcai.gpucluster.plugins.module_utils._health.machine import Machine
from ansible_collections.hpcai.gpucluster.tests.patience import PATIENCE
from ansible_collections.hpcai.gpucluster.tests.unit.plugins.module_utils._health import machines

if t.TYPE_CHECKING:
    from ansible_collections.hpcai.gpucluster.plugins.module_utils._health.verdict import Verdict

SIZE = "standard_nd96isr_h100_v5"
RECORDED = Path(__file__).parents[3] / "fixtures/gpucluster_check/all_reduce_perf-2.19.6-h200-x4.txt"
GIB = 1 << 30
# As the manual of perftest prints it.
WRITTEN = """\
---------------------------------------------------------------------------------------
                    RDMA_Write BW Test
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 65536      2946400          0.00               392.86               0.749323
---------------------------------------------------------------------------------------
"""
NAMES = {"nvlink_allreduce": "all_reduce_perf", "infiniband_bandwidth": "ib_write_bw"}


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(tmp_path, monkeypatch)


class Bench:
    """This machine with one adapter below another root, and an empty PATH."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.gpus = folder, 8
        self.root = folder / "root"
        for path, text in machines.adapter_files("mlx5_ib0", "InfiniBand", 400).items():
            file = Path(f"{self.root}{path}")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        monkeypatch.setenv("PATH", f"{folder}/path:/usr/bin:/bin")
        monkeypatch.setattr(process, "_PATH", process._PATH.replace("/opt/", f"{folder}/opt/"))

    def install(self, where: str, name: str, largest: int = 16 * GIB, mode: int = 0o755) -> Path:
        """Put a program there that takes the arguments of the real one, and prints what that printed."""
        table = RECORDED.read_text(encoding="utf-8").replace(" 536870912 ", f" {largest} ")
        assert f" {largest} " in table
        file = self.folder / where / name
        file.parent.mkdir(parents=True, exist_ok=True)
        output = {"all_reduce_perf": table, "ib_write_bw": WRITTEN}[name]
        file.write_text(f'#!/bin/sh\necho "$@" >> {self.folder}/calls\ncat <<"END"\n{output}END\n', encoding="utf-8")
        file.chmod(mode)
        return file

    def judge(self, check: str, least: float, **tools: str) -> Verdict:
        params = {**machines.expectations(SIZE)["checks"][check], "timeout_seconds": 20}
        params |= {"gpus": self.gpus} if "gpus" in params else {}
        params["gbps_min" if check == "nvlink_allreduce" else "gbitps_min"] = least
        config = {"checks": {check: params}, "tools": tools}
        ((verdict, _after),) = checks.run([check], config, Machine(PATIENCE, str(self.root)), {})
        return verdict


@pytest.mark.parametrize("where", ["path", "opt/nccl-tests/build", "anywhere"])
def test_nvlink_is_measured(bench: Bench, where: str) -> None:
    path = bench.install(where, "all_reduce_perf")
    tools = {"all_reduce_perf": str(path)} if where == "anywhere" else {}

    assert bench.judge("nvlink_allreduce", 340, **tools).line() == "nvlink_allreduce: healthy: 347.53 GB/s"
    assert bench.judge("nvlink_allreduce", 460, **tools).status == "unhealthy"
    assert "-g 8 -b 16G -e 16G" in (bench.folder / "calls").read_text(encoding="utf-8")


def test_a_node_with_one_gpu_has_no_bandwidth_between_gpus(bench: Bench) -> None:
    bench.gpus = 1
    verdict = bench.judge("nvlink_allreduce", 340)

    assert verdict.line() == "nvlink_allreduce: not applicable: not measured: one GPU"


@pytest.mark.parametrize("where", ["path", "opt/perftest/bin", "anywhere"])
def test_an_adapter_is_measured(bench: Bench, where: str) -> None:
    path = bench.install(where, "ib_write_bw")
    tools = {"ib_write_bw": str(path)} if where == "anywhere" else {}

    assert (
        bench.judge("infiniband_bandwidth", 375, **tools).line().endswith("healthy: 392.86 Gb/s at the slowest adapter")
    )
    assert bench.judge("infiniband_bandwidth", 395, **tools).status == "unhealthy"
    assert "-d mlx5_ib0" in (bench.folder / "calls").read_text(encoding="utf-8")


def test_a_table_that_ends_below_the_size_asked_for_is_not_judged(bench: Bench) -> None:
    bench.install("path", "all_reduce_perf", 8 * GIB)
    verdict = bench.judge("nvlink_allreduce", 1)

    assert (verdict.status, verdict.reason) == (
        "unknown",
        f"all_reduce_perf measured {8 * GIB} bytes at most, not {16 * GIB}",
    )


@pytest.mark.parametrize("check", NAMES)
def test_a_missing_tool_is_named_as_it_is_called(bench: Bench, check: str) -> None:
    verdict = bench.judge(check, 1)

    assert verdict.line() == f"{check}: not run: {NAMES[check]} is missing"


@pytest.mark.parametrize("check", NAMES)
def test_a_tool_that_cannot_be_started_is_not_missing(bench: Bench, check: str) -> None:
    bench.install("path", NAMES[check]).write_text("#!/no/such/interpreter\n", encoding="utf-8")
    bench.folder.joinpath("path", NAMES[check]).unlink()
    bench.folder.joinpath("path", NAMES[check]).mkdir()
    verdict = bench.judge(check, 1)

    assert verdict.status == "unknown"
    assert "Permission denied" in verdict.reason


def test_tools_are_named_as_programs_or_as_variables() -> None:
    def tool(**tools: str) -> str:
        return Case(machines.FakeMachine({}), {}, tools=tools).tool("nvidia-smi")

    assert tool() == "nvidia-smi"
    assert tool(nvidia_smi="/a/nvidia-smi") == "/a/nvidia-smi"
    assert tool(**{"nvidia-smi": "/b/nvidia-smi"}) == "/b/nvidia-smi"
