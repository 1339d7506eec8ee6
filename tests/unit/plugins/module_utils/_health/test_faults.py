# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every fault that a check exists for: planted on a healthy machine, found, and named with expected and found."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._health import (
    hardware,
    marker,
    topology,
    xid,
)
from ansible_collections.hpcai.gpucluster.plugins.module_utils._health.machine import Space
from ansible_collections.hpcai.gpucluster.plugins.module_utils._health.process import DONE, Result
from ansible_collections.hpcai.gpucluster.tests.unit.plugins.module_utils._health import machines

if t.TYPE_CHECKING:
    from collections.abc import Callable

    Fault = Callable[[machines.FakeMachine], object]

SIZE = "standard_nd96isr_h100_v5"
PORT = "/sys/class/infiniband/mlx5_ib2/ports/1"
TOPOLOGY = "/opt/microsoft/ndv5-topo.xml"


def _file(path: str, text: str) -> Fault:
    return lambda machine: machine.files.update({path: text})


def _lose(start: str) -> Fault:
    def lose(machine: machines.FakeMachine) -> None:
        machine.files = {path: text for path, text in machine.files.items() if not path.startswith(start)}
        machine.forget_names()

    return lose


def _tool(name: str, text: str, rc: int = 0) -> Fault:
    return lambda machine: machine.tools.update({name: machines.says(text, rc)})


def _gpu(number: int | str, **values: str) -> Fault:
    return lambda machine: t.cast("machines.Smi", machine.tools["nvidia-smi"]).shows(number, **values)


def _swap(path: str, old: str, new: str) -> Fault:
    return lambda machine: machine.files.update({path: machine.files[path].replace(old, new)})


def _log(text: str) -> Fault:
    return lambda machine: machine.log.append(f"3,9,99000000,-;{text}")


FAULTS: list[tuple[str, Fault, str, str]] = [
    ("gpu_model", _gpu(4, name="NVIDIA A100-SXM4-80GB"), "unhealthy", "expected H100 with 81559 MiB, found GPU 4"),
    ("gpu_model", _gpu(4, name=""), "unknown", "GPU 4 (00000009:00:00.0): name is ''"),
    ("gpu_model", _gpu(4, memory__total="40960"), "unhealthy", "found GPU 4 (00000009:00:00.0): 40960 MiB"),
    ("gpu_model", _gpu(4, memory__total="[N/A]"), "unknown", "memory.total is '[N/A]', not a number"),
    ("gpu_model", _gpu("*", memory__total="[N/A]"), "unknown", "memory.total is '[N/A]', not a number"),
    ("gpu_model", _gpu("*", memory__total="[N/A]", name="NVIDIA GB10"), "unhealthy", "NVIDIA GB10"),
    ("gpu_model", _gpu("*", memory__total="[N/A]", name="NVIDIA GB10 H100"), "healthy", ""),
    ("gpu_model", _gpu("*", memory__total="", name="NVIDIA GB10 H100"), "unknown", "not a number"),
    ("gpu_model", _gpu("*", memory__total="[Unknown Error]"), "unknown", "not a number"),
    ("gpu_ecc", _gpu(1, ecc__mode__current="Disabled"), "unhealthy", "found GPU 1 (00000002:00:00.0): ECC Disabled"),
    ("gpu_ecc", _gpu(1, ecc__errors__uncorrected__volatile__sram="1"), "unhealthy", "1 uncorrected in SRAM"),
    ("gpu_ecc", _gpu(1, ecc__errors__uncorrected__volatile__dram="2"), "unhealthy", "2 uncorrected in DRAM"),
    ("gpu_ecc", _gpu(1, ecc__errors__corrected__volatile__dram="20000001"), "unhealthy", "20000001 corrected in DRAM"),
    ("gpu_ecc", _gpu(1, ecc__errors__corrected__volatile__sram="10000"), "healthy", ""),
    (
        "gpu_ecc",
        _gpu(1, ecc__errors__uncorrected__volatile__dram="[N/A]", ecc__errors__uncorrected__volatile__sram="[N/A]"),
        "unknown",
        "GPU 1 (00000002:00:00.0): ecc.errors.uncorrected.volatile.sram is '[N/A]', ecc.errors.uncorrected.vol",
    ),
    ("gpu_ecc", _gpu(1, ecc__errors__uncorrected__volatile__dram="[N/A]"), "unknown", "volatile.dram is '[N/A]'"),
    (
        "gpu_ecc",
        _gpu(1, ecc__errors__uncorrected__volatile__dram="[N/A]", ecc__errors__uncorrected__volatile__sram="1"),
        "unhealthy",
        "1 uncorrected in SRAM",
    ),
    *(
        (check, _gpu(1, **{field: ""}), "unknown", f"GPU 1 (00000002:00:00.0): {field.replace('__', '.')} is ''")
        for check, field in (
            ("gpu_count", "gpu_recovery_action"),
            ("gpu_ecc", "ecc__mode__current"),
            ("gpu_ecc", "ecc__errors__corrected__volatile__dram"),
            ("gpu_ecc", "ecc__errors__uncorrected__volatile__sram"),
            ("gpu_fabric", "mig__mode__current"),
            ("gpu_clocks", "clocks__applications__graphics"),
            ("gpu_remap", "remapped_rows__pending"),
            ("gpu_remap", "remapped_rows__uncorrectable"),
            ("gpu_fabric", "fabric__state"),
        )
    ),
    ("gpu_temperature", _gpu(6, temperature__gpu="94"), "unhealthy", "expected at most 93 C, found GPU 6"),
    ("gpu_temperature", _gpu(6, temperature__gpu="93"), "healthy", ""),
    ("gpu_temperature", _gpu(6, temperature__gpu="[N/A]"), "unknown", "'[N/A]', not a number"),
    ("gpu_pcie", _gpu(0, pcie__link__width__current="8"), "unhealthy", "expected PCIe generation 5 x16, found GPU 0"),
    ("gpu_pcie", _gpu(0, pcie__link__gen__current="3"), "unhealthy", "generation 3 x16"),
    ("gpu_pcie", _gpu(0, pcie__link__width__current="[GPU requires reset]"), "unknown", "not a number"),
    (
        "gpu_xid",
        _log("NVRM: Xid (PCI:0001:00:00): 79, pid=1, GPU has fallen off the bus."),
        "unhealthy",
        "Xid 79 on 0001:00:00",
    ),
    ("gpu_xid", _log("NVRM: Xid (PCI:0001:00:00): 48, pid=1"), "unhealthy", "found Xid 48"),
    ("gpu_xid", _log("NVRM: Xid (PCI:0001:00:00): 31, pid=1"), "healthy", "seen without being a fault: Xid 31"),
    ("gpu_xid", _log("NVRM: Xid (PCI:0001:00:00): 987, pid=1"), "unhealthy", "Xid 987"),
    (
        "gpu_xid",
        _log("nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30 LTSSM"),
        "unhealthy",
        "SXid 20034",
    ),
    ("gpu_xid", _log("nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 12028, Non-fatal, Link 2"), "healthy", ""),
    ("gpu_xid", lambda machine: machine.log.clear(), "unknown", "/dev/kmsg is empty"),
    (
        "nvlink",
        lambda machine: setattr(machine.tools["nvidia-smi"], "links", 17),
        "unhealthy",
        "expected 18 NVLinks up per GPU, found GPU 0: 17",
    ),
    ("nccl_topology", _lose(TOPOLOGY), "unhealthy", "found no such file"),
    ("nccl_topology", _swap(TOPOLOGY, "  <cpu", "\t<cpu"), "unhealthy", "got '\\t'"),
    (
        "nccl_topology",
        _swap(TOPOLOGY, '<system version="1">', '<?xml version="1.0"?><system version="1">'),
        "unhealthy",
        "got '?'",
    ),
    (
        "nccl_topology",
        _swap(TOPOLOGY, '<system version="1">', '<system version="2">'),
        "unhealthy",
        "version of <system> is '2'",
    ),
    ("nccl_topology", _swap(TOPOLOGY, "</system>", ""), "unhealthy", "unterminated <system>"),
    ("nccl_topology", _swap(TOPOLOGY, 'numaid="0"', 'numaid="7"'), "unhealthy", "0001:00:00.0 is at NUMA node 0"),
    (
        "nccl_topology",
        _swap(TOPOLOGY, '"0001:00:00.0"', '"00000001:00:00.0"'),
        "unhealthy",
        "busid '00000001:00:00.0'",
    ),
    ("nccl_topology", _file(TOPOLOGY, ""), "unhealthy", "the file has no element"),
    ("infiniband", _file(f"{PORT}/state", "1: DOWN\n"), "unhealthy", "at 400 Gb/s, found mlx5_ib2/1 DOWN/LinkUp"),
    ("infiniband", _file(f"{PORT}/phys_state", "3: Disabled\n"), "unhealthy", "mlx5_ib2/1 ACTIVE/Disabled"),
    ("infiniband", _file(f"{PORT}/rate", "100 Gb/sec (4X EDR)\n"), "unhealthy", "mlx5_ib2/1 100 Gb/s"),
    ("infiniband", _file(f"{PORT}/rate", "\n"), "unknown", "the rate is ''"),
    ("infiniband", _lose("/sys/class/infiniband/mlx5_ib2"), "unhealthy", "found mlx5_ib2 missing"),
    ("infiniband", _lose("/sys/class/infiniband"), "unhealthy", "found 0 ports"),
    ("infiniband_errors", _lose("/sys/class/infiniband"), "unknown", "no InfiniBand port"),
    ("infiniband_errors", _file(f"{PORT}/counters/symbol_error", "many\n"), "unknown", "not a count"),
    ("ethernet", _file("/sys/class/net/eth0/operstate", "down\n"), "unhealthy", "found eth0 down"),
    ("ethernet", _lose("/sys/class/net/eth0"), "unhealthy", "found eth0 missing"),
    ("memory", _file("/proc/meminfo", "MemFree: 1 kB\n"), "unknown", "no MemTotal"),
    (
        "memory",
        _file("/proc/meminfo", "MemTotal:       1024000000 kB\n"),
        "unhealthy",
        "expected 1915071 MiB (-5 %), found 1000000 MiB",
    ),
    (
        "cpus",
        _file("/sys/devices/system/cpu/online", "0-46,48-95\n"),
        "unhealthy",
        "expected 96 CPUs on 2 NUMA nodes, found 95 CPUs",
    ),
    ("cpus", _file("/sys/devices/system/node/has_cpu", "0\n"), "unhealthy", "found 96 CPUs on 1 NUMA nodes"),
    ("cpus", _file("/sys/devices/system/cpu/online", "\n"), "unknown", "no list of CPUs"),
    ("nvme", _lose("/sys/class/nvme/nvme3"), "unhealthy", "expected 8 NVMe drives live, found 7"),
    ("nvme", _file("/sys/class/nvme/nvme3/state", "dead\n"), "unhealthy", "found nvme3 dead"),
    (
        "raid",
        _file("/proc/mdstat", "md0 : active raid1 sdb1[1](F) sda1[0]\n 9 blocks [2/1] [U_]\n"),
        "unhealthy",
        "md0 is degraded [U_]",
    ),
    ("raid", _file("/proc/mdstat", "md128 : inactive nvme0n1[0](S)\n"), "unhealthy", "md128 inactive"),
    (
        "filesystems",
        lambda machine: machine.space.update({"/": Space(95.0, 1.0)}),
        "unhealthy",
        "found / 95.0 % of space",
    ),
    (
        "filesystems",
        lambda machine: machine.space.update({"/": Space(5.0, 99.0)}),
        "unhealthy",
        "found / 99.0 % of inodes",
    ),
    ("filesystems", lambda machine: machine.space.update({"/": "Input/output error"}), "unknown", "Input/output error"),
    (
        "mounts",
        lambda machine: machine.space.update({"/home": "no answer within 5 s"}),
        "unhealthy",
        "found /home: no answer",
    ),
    ("mounts", _file("/proc/self/mounts", "garbage\n"), "unknown", "garbage"),
    (
        "clock",
        _tool("chronyc", "7F7F0101,,10,0,0.5,0,0,0,0,0,0,0,1,Not synchronised\n"),
        "unhealthy",
        "found Not synchronised",
    ),
    (
        "clock",
        _tool("chronyc", "C0,h,3,0,-2.5,0,0,0,0,0,0,0,1,Normal\n"),
        "unhealthy",
        "expected an offset of at most 1 s, found 2.5 s",
    ),
    ("clock", _tool("chronyc", "506 Cannot talk to daemon", 1), "unknown", "506 Cannot talk to daemon"),
    ("munge", _tool("unmunge", "STATUS:          Expired credential (15)\n", 15), "unhealthy", "Expired credential"),
    ("munge", _tool("munge", "munge: Error: Failed to access socket", 6), "unhealthy", "Failed to access socket"),
    (
        "slurmd",
        _tool("scontrol", "slurm_load_slurmd_status: Unable to contact slurmd", 1),
        "unhealthy",
        "Unable to contact slurmd",
    ),
    ("slurmd", _tool("scontrol", ""), "unhealthy", "expected Slurmd PID, found nothing"),
]


@pytest.mark.parametrize(("check", "fault", "status", "words"), FAULTS, ids=[f"{row[0]}-{row[3]}" for row in FAULTS])
def test_a_planted_fault_is_found_and_named(check: str, fault: Fault, status: str, words: str) -> None:
    machine = machines.healthy(SIZE)
    config = machines.expectations(SIZE, **{check: {"samples": 1}})
    before = machines.judge(machine, config, names=[check])[check].status
    fault(machine)
    verdict = machines.judge(machine, config, names=[check])[check]

    assert before in ("healthy", "not applicable")
    assert verdict.status == status
    assert words in verdict.reason


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (["/home"], ""),
        (["/data"], "/data not mounted"),
        ([{"path": "/home", "fstype": "nfs"}], ""),
        ([{"path": "/home", "fstype": "lustre"}], "/home of type nfs4 instead of lustre"),
        ([{"path": "/home", "options": ["rw", "hard"]}], ""),
        ([{"path": "/home", "options": ["ro"]}], "/home without the option ro"),
    ],
)
def test_mounts_are_what_they_should_be(wanted: list[t.Any], words: str) -> None:
    config = machines.expectations(SIZE, mounts={"mounts": wanted, "samples": 1})
    verdict = machines.judge(machines.healthy(SIZE), config, names=["mounts"])["mounts"]

    assert verdict.status == ("unhealthy" if words else "healthy")
    assert words in verdict.reason


def test_a_mount_that_still_hangs_is_not_asked_again() -> None:
    machine = machines.healthy(SIZE)
    machine.files["/proc/77/stat"] = "77 (gpucluster-check) D 1 1"
    remembered: dict[str, t.Any] = {"mounts": {"keep": {"stuck": {"/home": 77}}}}
    asked: list[str] = []
    machine.spaces = lambda paths, _timeout: asked.extend(paths) or {}  # type: ignore[method-assign, assignment, func-returns-value]
    config = machines.expectations(SIZE, mounts={"samples": 1})
    verdict = machines.judge(machine, config, remembered, ["mounts"])["mounts"]

    assert verdict.reason.endswith("found /home still hangs")
    assert asked == []
    machine.files["/proc/77/stat"] = "77 (gpucluster-check) Z 1 1"
    machines.judge(machine, config, remembered, ["mounts"])
    assert asked == ["/home"]


def test_an_xid_counts_until_the_next_boot_or_until_it_is_forgotten() -> None:
    machine = machines.healthy(SIZE)
    config = machines.expectations(SIZE)
    remembered: dict[str, t.Any] = {}
    machine.log.append("3,9,5000000,-;NVRM: Xid (PCI:0001:00:00): 79, pid=1")
    first = machines.judge(machine, config, remembered, ["gpu_xid"])["gpu_xid"]
    machine.log.pop()  # the ring buffer went round
    second = machines.judge(machine, config, remembered, ["gpu_xid"])["gpu_xid"]
    machine.log.append("3,9,5000000,-;NVRM: Xid (PCI:0001:00:00): 79, pid=1")
    third = machines.judge(machine, config, {"gpu_xid": {"keep": {"since": 6.0}}}, ["gpu_xid"])["gpu_xid"]

    assert [first.status, second.status, third.status] == ["unhealthy", "unhealthy", "healthy"]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (
            "[  12.5] NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
            ["Xid 79 on 0000:3b:00"],
        ),
        ("NVRM: Xid (0000:03:00): 13, Graphics Exception", ["Xid 13 on 0000:03:00"]),
        # The forms with MIG, as the driver's sources and NVIDIA's notes on memory errors print them.
        (
            "NVRM: Xid (PCI:0000:01:00 GPU-I:05): 95, pid=7194, Uncontained: LTC TAG (0x2,0x0). RST: No, D-RST: No",
            ["Xid 95 on 0000:01:00 GPU-I:05"],
        ),
        ("NVRM: Xid (PCI:0000:3b:00 GPU-I:01 GPU-CI:02): 13, pid=9", ["Xid 13 on 0000:3b:00 GPU-I:01 GPU-CI:02"]),
        ("NVRM: GPU at PCI:0000:01:00: GPU-1234", []),
        ("user said NVRM: Xid is bad", []),
        ("audit: NVRM: Xid (PCI:0000:3b:00): lots", []),
    ],
)
def test_xids_are_read_in_every_form(line: str, found: list[str]) -> None:
    assert [event.key() for event in xid.events([line])] == found


def test_ports_of_other_adapters_are_no_matter_of_the_fabric() -> None:
    machine = machines.healthy(SIZE)
    machine.files.update(machines.adapter_files("mlx5_storage", "InfiniBand", 200))
    config = machines.expectations(SIZE)

    assert machines.judge(machine, config, names=["infiniband"])["infiniband"].status == "healthy"


def test_ports_with_other_names_are_counted() -> None:
    machine = machines.healthy(SIZE)
    machine.files = {path.replace("mlx5_ib", "mlx5_"): text for path, text in machine.files.items()}
    config = machines.expectations(SIZE, infiniband={"samples": 1})
    seen = [machines.judge(machine, config, names=["infiniband"])["infiniband"]]
    _lose("/sys/class/infiniband/mlx5_3")(machine)
    seen.append(machines.judge(machine, config, names=["infiniband"])["infiniband"])

    assert seen[0].status == "healthy"
    assert seen[1].reason.endswith("found 7 ports")


def test_a_kernel_log_that_cannot_be_read_is_unknown() -> None:
    machine = machines.healthy(SIZE)

    def denied(path: str) -> list[str]:
        raise PermissionError(1, "Operation not permitted", path)

    machine.kernel_log = denied  # type: ignore[method-assign]
    verdict = machines.judge(machine, machines.expectations(SIZE), names=["gpu_xid"])["gpu_xid"]

    assert verdict.line() == "gpu_xid: unknown: /dev/kmsg cannot be read: Operation not permitted"


@pytest.mark.parametrize(
    ("members", "mdstat", "status"),
    [
        ({"md128": 2}, "md128 : active raid0 nvme1n1[1] nvme0n1[0]\n 9 blocks super 1.2\n", "healthy"),
        ({"md128": 8}, "md128 : active raid0 nvme1n1[1] nvme0n1[0]\n", "unhealthy"),
        ({"md128": 8}, "", "unhealthy"),
        ({}, "md1 : active raid1 b[1] a[0]\n 9 blocks [2/2] [UU]\n", "healthy"),
        ({}, "md1 : active (auto-read-only) raid1 b[1] a[0]\n 9 blocks [2/2] [UU]\n", "healthy"),
    ],
)
def test_arrays_have_their_members(members: dict[str, int], mdstat: str, status: str) -> None:
    assert hardware.judge_raid(members, mdstat).status == status


def test_topology_lists_no_more_than_a_line_holds() -> None:
    devices = {f"{number:04x}:00:00.0": 0 for number in range(300)}
    gpu = '<system version="1"><cpu numaid="0"><pci busid="ffff:00:00.0" class="0x030200"/></cpu></system>'
    reason = topology.judge("/x", gpu, devices, {}).reason

    assert "and 296 more" in reason
    assert len(reason) <= 300


def test_state_with_the_marks_that_slurm_appends_is_read() -> None:
    node = marker.node("State=MIXED*+DRAIN ThreadsPerCore=1\n   Reason=NHC: memory: x [slurm@2026-11-20T10:00:00]\n")

    assert node == marker.Node(frozenset({"MIXED", "DRAIN"}), "NHC: memory: x")


def test_systemd_stands_in_where_chrony_is_missing() -> None:
    machine = machines.healthy(SIZE)
    del machine.tools["chronyc"]
    config = machines.expectations(SIZE, clock={"samples": 1})
    seen = [machines.judge(machine, config, names=["clock"])["clock"].status]
    for word in ("yes\n", "no\n", "perhaps\n"):
        machine.tools["timedatectl"] = machines.says(word)
        seen.append(machines.judge(machine, config, names=["clock"])["clock"].status)
    machine.tools["timedatectl"] = lambda _argv, _stdin: Result(DONE, 1, "", "no bus")
    seen.append(machines.judge(machine, config, names=["clock"])["clock"].status)

    assert seen == ["not run", "healthy", "unhealthy", "unknown", "unknown"]


# An application's own fault, and what the driver says of a page that it has set aside.
@pytest.mark.parametrize("number", [13, 31, 43, 45, 63, 66, 94, 154])
def test_a_harmless_xid_convicts_nobody(number: int) -> None:
    machine = machines.healthy(SIZE)
    _log(f"NVRM: Xid (PCI:0001:00:00): {number}, pid=1")(machine)

    assert machines.judge(machine, machines.expectations(SIZE), names=["gpu_xid"])["gpu_xid"].status == "healthy"


@pytest.mark.parametrize("number", [48, 61, 62, 64, 74, 79, 92, 95, 119, 120, 140])
def test_an_xid_of_the_hardware_convicts(number: int) -> None:
    machine = machines.healthy(SIZE)
    _log(f"NVRM: Xid (PCI:0001:00:00): {number}, pid=1")(machine)

    assert machines.judge(machine, machines.expectations(SIZE), names=["gpu_xid"])["gpu_xid"].status == "unhealthy"


@pytest.mark.parametrize(
    ("single", "double", "status"), [(61, 0, "healthy"), (31, 31, "unhealthy"), (0, 62, "unhealthy")]
)
def test_retired_pages_are_counted_together(single: int, double: int, status: str) -> None:
    size = "standard_nd40rs_v2"
    machine = machines.healthy(size)
    values = {"retired_pages__single_bit_ecc__count": str(single), "retired_pages__double_bit__count": str(double)}
    _gpu(2, **values)(machine)

    assert machines.judge(machine, machines.expectations(size), names=["gpu_remap"])["gpu_remap"].status == status


@pytest.mark.parametrize(
    ("blocks", "inodes", "status", "words"),
    [
        (90.0, 98.0, "healthy", "at most 90 % of space and 98 % of inodes used on /"),
        (90.1, 2.0, "unhealthy", "found / 90.1 % of space"),
        (40.0, 98.1, "unhealthy", "found / 98.1 % of inodes"),
    ],
)
def test_a_file_system_may_be_as_full_as_its_limit(blocks: float, inodes: float, status: str, words: str) -> None:
    machine = machines.healthy(SIZE)
    machine.space["/"] = Space(blocks, inodes)
    verdict = machines.judge(machine, machines.expectations(SIZE), names=["filesystems"])["filesystems"]

    assert verdict.status == status
    assert words in verdict.reason


def test_application_clocks_count_only_where_they_are_wanted() -> None:
    machine = machines.healthy(SIZE)
    _gpu(3, clocks__applications__graphics="345")(machine)
    seen = []
    for application in (True, False):
        config = machines.expectations(SIZE, gpu_clocks={"application": application})
        seen.append(machines.judge(machine, config, names=["gpu_clocks"])["gpu_clocks"].status)

    assert seen == ["unhealthy", "healthy"]


@pytest.mark.parametrize(
    ("offset", "status"), [("1.000000", "healthy"), ("-1.000000", "healthy"), ("-1.1", "unhealthy")]
)
def test_a_clock_may_be_off_by_its_limit(offset: str, status: str) -> None:
    machine = machines.healthy(SIZE)
    fields = f"C0A80101,192.168.1.1,3,1763623000.1,{offset},0.00001,0.00002,-1.2,0.0,0.1,0.001,0.01,64.2,Normal\n"
    _tool("chronyc", fields)(machine)
    config = machines.expectations(SIZE, clock={"samples": 1})

    assert machines.judge(machine, config, names=["clock"])["clock"].status == status


@pytest.mark.parametrize(("user", "status"), [("2001", "healthy"), ("0", "unhealthy")])
def test_a_file_system_that_a_user_mounted_drains_no_node(user: str, status: str) -> None:
    machine = machines.healthy(SIZE)
    line = f"x /home/alice/x fuse.blobfuse2 rw,nosuid,nodev,relatime,user_id={user},group_id={user} 0 0\n"
    machine.files["/proc/self/mounts"] += line
    machine.space["/home/alice/x"] = "Permission denied"
    config = machines.expectations(SIZE, mounts={"samples": 1})

    assert machines.judge(machine, config, names=["mounts"])["mounts"].status == status


@pytest.mark.parametrize(
    ("action", "status"),
    [
        ("None", "healthy"),
        ("N/A", "healthy"),
        ("[N/A]", "healthy"),
        ("Drain P2P", "healthy"),
        ("Reset", "unhealthy"),
        ("Reboot", "unhealthy"),
        ("Drain and Reset", "unhealthy"),
        ("Res", "unknown"),
    ],
)
def test_the_action_that_the_driver_names_is_read(action: str, status: str) -> None:
    machine = machines.healthy(SIZE)
    _gpu(1, gpu_recovery_action=action)(machine)
    verdict = machines.judge(machine, machines.expectations(SIZE), names=["gpu_count"])["gpu_count"]

    assert verdict.status == status
    assert (f"gpu_recovery_action is {action}" in verdict.reason) == (status == "unhealthy")


@pytest.mark.parametrize("driver", ["470.256.02", "535.288.01", "580.159.04"])
def test_a_driver_without_a_field_does_not_fail_the_other_checks(driver: str) -> None:
    machine = machines.healthy(SIZE)
    t.cast("machines.Smi", machine.tools["nvidia-smi"]).config["driver"] = driver
    found = machines.judge(machine, machines.expectations(SIZE), names=["gpu_count", "gpu_ecc", "gpu_temperature"])

    assert {verdict.status for verdict in found.values()} == {"healthy"}
