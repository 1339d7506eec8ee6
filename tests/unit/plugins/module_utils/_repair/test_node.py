# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node prints, what follows from it, and what the configuration and Slurm say."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import tarfile
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.hpcai.gpucluster.plugins.module_utils._repair import cli, node, plan, slurm, states
from ansible_collections.hpcai.gpucluster.tests.patience import PATIENCE
from ansible_collections.hpcai.gpucluster.tests.unit.support.repair_cluster import packed

ROOT = Path(__file__).parents[5]
SHOWN = """NodeName=gpu1 Arch=x86_64 CoresPerSocket=2
   Gres=gpu:h100:8(S:0)
   NodeAddr=10.0.0.7 NodeHostName=gpu1 Version=24.11.5
   State=DOWN*+DRAIN+MAINTENANCE+REBOOT_ISSUED+RESERVED ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A
   Partitions=batch,all
   BootTime=2026-11-22T04:10:29 SlurmdStartTime=2026-11-22T18:48:13
   CurrentWatts=0 AveWatts=0
   
   Reason=repair: reboot: NHC: gpu_count: x : reboot issued [slurm@2026-11-22T18:51:49]

NodeName=gpu2 Arch=x86_64 CoresPerSocket=2
   Gres=(null)
   State=IDLE ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A
   Partitions=batch
   BootTime=2026-11-22T04:10:28 SlurmdStartTime=2026-11-22T18:48:13
   CurrentWatts=0 AveWatts=0
   

"""  # noqa: W293 - as Slurm 24.11.5 prints it


def test_nodes_are_read_as_slurm_prints_them() -> None:
    first, second = states.parse(SHOWN)

    assert first.mine
    assert first.rebooting
    assert not first.answers
    assert (first.gpus, first.partition, first.address) == (8, "batch", "10.0.0.7")
    assert first.boot == "2026-11-22T04:10:29"
    assert second.free
    assert (second.reason, second.gpus) == ("", 0)


@pytest.mark.parametrize(
    ("said", "active"),
    [
        ("Slurmctld(primary) at control is UP", "control"),
        ("Slurmctld(primary) at one is DOWN\nSlurmctld(backup) at two is UP", "two"),
        ("Slurmctld(primary) at one is DOWN", ""),
    ],
)
def test_only_the_first_controller_that_is_up_repairs(said: str, active: str) -> None:
    found = slurm.Slurm(lambda args, seconds: (0, said, ""))

    if active:
        assert found.active() == active
    else:
        with pytest.raises(slurm.SlurmError):
            found.active()


@pytest.mark.parametrize("why", ["prolog", "requeue"])
def test_a_step_that_slurm_aborted_before_its_tasks_began_has_not_passed(why: str) -> None:
    said = (ROOT / f"tests/unit/fixtures/slurm/24.11.5/srun-aborted-{why}.txt").read_text(encoding="utf-8")
    aborted = slurm.Slurm(lambda args, seconds: (0, "", said))
    ran = slurm.Slurm(lambda args, seconds: (0, "", "srun: job 7 queued and waiting for resources"))

    assert aborted.step("7", ["gpu1"], ["true"], 60) == (1, "", said)
    assert ran.step("7", ["gpu1"], ["true"], 60)[0] == 0


def _report(**status: str) -> dict[str, t.Any]:
    return {"checks": [{"check": name, "status": said} for name, said in status.items()]}


@pytest.mark.parametrize(
    ("found", "named", "ok"),
    [
        (_report(a="healthy", b="not applicable"), ["a"], True),
        (_report(a="healthy", b="not run"), ["a"], False),
        (_report(a="healthy", b="unknown"), ["a"], False),
        (_report(a="healthy", b="suspect"), ["a"], False),
        (_report(a="healthy", b="unhealthy"), ["a"], False),
        (_report(a="not applicable"), ["a"], False),
        (_report(a="healthy"), ["a", "missing"], False),
        (_report(), [], False),
    ],
)
def test_only_a_node_that_passed_every_check_is_healthy(found: dict[str, t.Any], named: list[str], ok: bool) -> None:
    assert node.judge(found, named)[0] is ok


@pytest.mark.parametrize("printed", ["", "Segmentation fault", "{}", '{"checks": 3}', "[1]"])
def test_no_report_is_no_health(printed: str) -> None:
    with pytest.raises(node.OutputError):
        node.report(printed)


def test_the_physical_host_comes_from_the_pool_of_hyper_v() -> None:
    def record(key: str, value: str) -> bytes:
        return key.encode().ljust(512, b"\0") + value.encode().ljust(2048, b"\0")

    pool = record("HostName", "host") + record("PhysicalHostNameFullyQualified", "GGBB90904476") + b"half a record"

    assert node.key_values(pool)["PhysicalHostNameFullyQualified"] == "GGBB90904476"


@pytest.mark.parametrize(
    "printed", ["bm90IGEgdGFy", "!!!", packed({"a": "b"})[:40]], ids=["no archive", "no base64", "interrupted"]
)
def test_a_damaged_archive_is_refused(printed: str) -> None:
    with pytest.raises(node.OutputError):
        node.collect(printed, {})


def test_the_capture_keeps_what_each_tool_says_also_if_it_is_missing(tmp_path: Path) -> None:
    done = subprocess.run(["/bin/sh", "-c", node.CAPTURE], capture_output=True, text=True, check=True, timeout=PATIENCE)

    found = node.collect(done.stdout, {"node.txt": "x"})

    (tmp_path / "capture.tar.gz").write_bytes(found.archive)
    with tarfile.open(tmp_path / "capture.tar.gz") as archive:
        names = set(archive.getnames())
    assert names >= {"nvidia-smi-q.txt", "gpu-serials.csv", "dmesg.txt", "xids.txt", "ibstat.txt", "health.json"}
    assert names >= {"machine.txt", "controller/node.txt"}


@pytest.mark.parametrize("damaged", [False, True])
def test_two_nodes_exchange_data(damaged: bool) -> None:
    script = node.PAIR.replace("hashlib.sha256(data)", "hashlib.sha256(data[1:])") if damaged else node.PAIR
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code, "gpu1", "127.0.0.1", port],
            env={"SLURMD_NODENAME": name},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for name, code in (("gpu1", script), ("gpu2", node.PAIR))
    ]
    codes = [process.wait(PATIENCE) for process in started]
    for process in started:
        process.communicate()

    assert (codes == [0, 0]) is not damaged


def _configuration(**more: t.Any) -> str:
    rules = yaml.safe_load((ROOT / "roles/repair/files/ladder.yml").read_text(encoding="utf-8"))
    base = {"mode": "observe", "max_nodes": "5%", "directory": "/x", "rules": rules, "commands": {}}
    return json.dumps({**base, **more})


def test_the_configuration_is_read() -> None:
    assert cli.read_settings(_configuration()).mode == "observe"
    assert cli.read_settings(_configuration(), "act").mode == "act"


@pytest.mark.parametrize(
    "more", [{"mode": "repair"}, {"max_nodes": "x"}, {"rules": [{}]}, {"colour": "red"}, {"azure": {"steps": []}}]
)
def test_a_wrong_configuration_is_refused(more: dict[str, t.Any]) -> None:
    with pytest.raises(plan.SettingsError):
        cli.read_settings(_configuration(**more))


def test_a_ticket_that_does_not_arrive_is_said() -> None:
    assert "http://127.0.0.1:9/" in cli.post("http://127.0.0.1:9/", {"id": "x"})
