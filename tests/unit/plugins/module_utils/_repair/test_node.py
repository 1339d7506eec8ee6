# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node prints, what follows from it, and what the configuration and Slurm say."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import socket
import subprocess
import sys
import tarfile
import time
import typing as t
from pathlib import Path

import pytest
from ansible.module_utils.common.yaml import yaml_load

from ansible_collections.hpcai.gpucluster.plugins.module_utils._repair import cli, journal, node, plan, slurm, states
from ansible_collections.hpcai.gpucluster.tests.patience import PATIENCE
from ansible_collections.hpcai.gpucluster.tests.unit.support.repair_cluster import packed

ROOT = Path(__file__).parents[5]
TOKEN = "5a" * 32
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
    ("other", "same"),
    [("59:59", True), ("59:50", True), ("59:49", False), ("None", False), ("", False)],
)
def test_a_boot_time_varies_by_the_time_of_a_message(other: str, same: bool) -> None:
    found = f"2026-11-23T05:{other}" if ":" in other else other

    assert states.same_boot(found, "2026-11-23T06:00:00") == same


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


@pytest.mark.parametrize(
    "printed",
    ["", "Segmentation fault", "{}", '{"checks": 3}', "[1]", '{"checks": [1]}', '{"checks": [{"check": "a"}]}'],
)
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


def test_an_archive_that_unpacks_to_more_than_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few bytes of a sick node would end the program with all repairs, again and again."""
    monkeypatch.setattr(node, "_MOST", 1 << 20)

    for printed in (packed({"a": "x" * (1 << 20)}), packed({str(one): "" for one in range(3000)})):
        with pytest.raises(node.OutputError, match="more than 1048576 bytes"):
            node.collect(printed, {})


def test_no_file_of_a_capture_leads_out_of_it() -> None:
    found = node._members(packed({"a/../../../../etc/cron.d/x": "x", "a..b": "y"}))

    assert found == {"a..b": b"y"}


def test_a_node_that_prints_without_end_does_not_take_the_memory_of_the_controller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cli, "_MOST", 1000)

    code, out, err = cli.run(["sh", "-c", "echo begun; exec cat /dev/zero"], PATIENCE)

    assert code
    assert out.startswith("begun\n")
    assert "printed more than 1000 bytes and was killed" in err


def test_a_capture_that_cannot_be_packed_is_no_capture_of_a_silent_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as on a full disk. The end of a pipe would say that all is well."""
    (tmp_path / "tar").write_text("#!/bin/sh\nexit 2\n", encoding="utf-8")
    (tmp_path / "tar").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    done = subprocess.run(["/bin/sh", "-c", node.CAPTURE], capture_output=True, timeout=PATIENCE, check=False)

    assert done.returncode


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
    port = _free_port()
    started = [_side("gpu1", port, code=script), _side("gpu2", port)]

    assert ([_ended(one)[0] for one in started] == [0, 0]) is not damaged


def test_the_first_connection_from_anybody_is_not_the_partner() -> None:
    port = _free_port()
    server = _side("gpu1", port)
    heard = b""
    for source in ("127.0.0.2", "127.0.0.1"):  # another machine, and a user of the partner
        stranger = _connected(port, source)
        with contextlib.suppress(OSError):  # it was refused
            stranger.sendall(bytes(1 << 16))
            while part := stranger.recv(1 << 16):
                heard += part
        stranger.close()
    partner = _side("gpu2", port)

    assert [_ended(server), _ended(partner)] == [(0, ""), (0, "")]
    assert len(heard) <= 64  # a random number and a proof, and no data


@pytest.mark.parametrize("wrong", ["gpu1", "gpu2"])
def test_a_side_without_the_token_of_the_step_gets_no_data(wrong: str) -> None:
    port = _free_port()
    brief = node.PAIR.replace("time.monotonic() + 30", "time.monotonic() + 2")
    sides = [_side(name, port, "00" * 32 if name == wrong else TOKEN, brief) for name in ("gpu1", "gpu2")]

    assert [(code, "no connection" in said) for code, said in map(_ended, sides)] == [(1, True), (1, True)]


PORTS = itertools.count(8 * os.getpid())  # the other worker has one of the next process ids


def _free_port() -> int:
    """Return a port that the kernel gives to nobody who asks for any."""
    for number in PORTS:
        port = node.PAIR_PORTS[number % len(node.PAIR_PORTS)]
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError


def _side(name: str, port: int, token: str = TOKEN, code: str = node.PAIR) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, "gpu1", "127.0.0.1", "127.0.0.1", str(port)],
        env={"SLURMD_NODENAME": name, node.PAIR_TOKEN: token},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _ended(side: subprocess.Popen[str]) -> tuple[int, str]:
    _out, err = side.communicate(timeout=PATIENCE)
    return side.returncode, err


def _connected(port: int, source: str) -> socket.socket:
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), PATIENCE, (source, 0))
        except ConnectionRefusedError:
            assert time.monotonic() < end
            time.sleep(0.05)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (1, "slurm_load_reservations error: Invalid authentication credential"),
        (1, "slurm_load_reservations error: Unable to contact slurm controller (connect failure)"),
        (1, "scontrol: error: host not found"),
        (1, "Reservation gpucluster_repair_gpu10 not found"),
        (1, ""),
        (0, ""),
    ],
)
def test_only_the_answer_that_there_is_none_means_no_reservation(code: int, said: str) -> None:
    with pytest.raises(slurm.SlurmError):
        slurm.Slurm(lambda args, seconds: (code, "", said)).owner("gpu1")

    assert (
        slurm.Slurm(lambda args, seconds: (1, "Reservation gpucluster_repair_gpu1 not found\n", "")).owner("gpu1") == ""
    )


@pytest.mark.parametrize("said", ["7 RUNNING", "7 RUNNING gpucluster-repair 0 x", "train\n7 RUNNING 0 x", "x" * 200])
def test_an_answer_that_is_no_list_of_jobs_is_no_idle_node(said: str) -> None:
    with pytest.raises(slurm.SlurmError, match="squeue printed"):
        slurm.Slurm(lambda args, seconds: (0, said, "")).jobs("gpu1")


def _configuration(**more: t.Any) -> str:
    rules = yaml_load((ROOT / "roles/repair/files/ladder.yml").read_text(encoding="utf-8"))
    base = {"mode": "observe", "max_nodes": "5%", "directory": "/x", "rules": rules}
    return json.dumps({**base, **more})


def test_the_configuration_is_read() -> None:
    assert cli.read_settings(_configuration()).mode == "observe"
    assert cli.read_settings(_configuration(), "act").mode == "act"


@pytest.mark.parametrize("more", [{"mode": "repair"}, {"max_nodes": "x"}, {"rules": [{}]}, {"colour": "red"}])
def test_a_wrong_configuration_is_refused(more: dict[str, t.Any]) -> None:
    with pytest.raises(plan.SettingsError):
        cli.read_settings(_configuration(**more))


def test_a_ticket_that_does_not_arrive_is_said() -> None:
    assert "http://127.0.0.1:9/" in cli.post("http://127.0.0.1:9/", {"id": "x"})


def test_a_removal_without_an_answer_of_slurm_is_refused_while_a_node_is_in_repair(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # no program of Slurm
    (tmp_path / "repair.json").write_text(_configuration(directory=str(tmp_path / "state")), encoding="utf-8")
    stop = ["--config", str(tmp_path / "repair.json"), "stop"]

    assert cli.main(stop) == 0
    with journal.alone(str(tmp_path / "state")):
        journal.Journal(str(tmp_path / "state"), lambda: 1.0).add("gpu1", "gpu1-x", journal.CLAIMED, reason="x")
    assert cli.main(stop) == 1
    assert "scontrol ping" in capsys.readouterr().err


def test_a_job_outside_of_a_reservation_is_a_job() -> None:
    said = "7 RUNNING 2001 (null)\n8 COMPLETING 0 \n9 PENDING 0 x\n10 RUNNING 0 gpucluster_repair_gpu1\n"
    found = slurm.Slurm(lambda args, seconds: (0, said, "")).jobs("gpu1")

    assert [(job.id, job.of("gpu1")) for job in found] == [("7", False), ("8", False), ("10", True)]


@pytest.mark.parametrize("said", ["State=IDLE ThreadsPer", "State=? Owner=N/A\n\n"])
def test_a_node_that_is_not_understood_is_a_fault_of_slurm(said: str) -> None:
    cluster = slurm.Slurm(lambda args, seconds: (0, f"NodeName=gpu1 \n   {said}", ""))

    for ask in (cluster.nodes, lambda: cluster.node("gpu1")):
        with pytest.raises(slurm.SlurmError, match="shows no state, or is cut"):
            ask()
