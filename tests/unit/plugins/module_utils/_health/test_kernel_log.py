# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel log: text that a user puts into a message of the kernel is no event of the driver."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._health import kernel_log, leftovers, marker, xid
from ansible_collections.hpcai.gpucluster.plugins.module_utils._health.table import CHECKS
from ansible_collections.hpcai.gpucluster.plugins.module_utils._health.verdict import UNHEALTHY, Verdict
from ansible_collections.hpcai.gpucluster.plugins.module_utils._monitoring import gpu, machine
from ansible_collections.hpcai.gpucluster.plugins.module_utils._repair import ladder
from ansible_collections.hpcai.gpucluster.tests.unit.plugins.module_utils._health import machines

SIZE = "standard_nd96isr_h100_v5"
XID = "NVRM: Xid (PCI:0000:01:00): 142"
SXID = "nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30"
KILLED = (
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset={0},mems_allowed=0,oom_memcg={1},task_memcg={1},"
    "task={2},pid=9,uid=2001"
)
JOB = "/system.slice/slurmstepd.scope/job_99"

# What a user can make the kernel say, as /dev/kmsg shows it.
FORGED = [
    # unshare -Urm mount -t tmpfs -o 'NVRM: Xid (PCI:0000:01:00): 142' x /tmp
    f"3,900,5000000,-;tmpfs: Unknown parameter '{XID}'",
    f"3,900,5000000,-;tmpfs: Unknown parameter '{SXID}'",
    # A line break in the option stays in its record.
    f"3,900,5000000,-;tmpfs: Unknown parameter 'a\\x0a{XID}, b'",
    # The kernel begins these messages with the name of a process, of which it keeps 15 characters.
    *(f"4,900,5000000,-;{XID[:15]}{end} invoked oom-killer: order=0" for end in ("", ":", "[77]:")),
    "4,900,5000000,-;NVRM: Xid (0000: page allocation failure: order:9",
    "4,900,5000000,-;nvidia-nvswitch: page allocation failure: order:9",
    f"6,900,5000000,-;{XID[:15]}[77]: segfault at 0 ip 0000000000401136 sp 00007ffd error 6 in a.out[401000+1000]",
    "4,900,5000000,-;NVRM: Xid (1): invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
    "4,900,5000000,-;NVRM: Xid (01):: page allocation failure: order:9, mode:0xdc0, nodemask=(null)",
    # One message has the name of a process and, at its end, the name of its file.
    *(
        f"6,900,5000000,-;{head}{form.format(name=name)}"
        for head, name in (
            ("NVRM: GPU at 0", "RmInitAdapter failed"),
            ("NVRM: ", "x requiring os reboot"),
            ("nvidia-uvm: x: ", "uvm encountered global fatal error 0x60, requiring os reboot"),
            ("NVRM: nvAssert:", "Assertion failed: [NV_ERR_RESET_REQUIRED] (0x62)"),
            ("NVRM: The NVIDI", "A GPU 0000:b3:00.0 fallen off the bus and is not responding to commands."),
            ("NVRM: ", "fallen off the bus and is not responding to commands."),
            ("NVRM: GPU 0000:", "4e:00.0: RmInitAdapter failed! (0x62:0xffff:2407)"),
            ("NVRM: Xid (PCI:", "0000:01:00): 79"),
            ("NVRM: Xid (PCI:", "[N/A]): 79"),
            (r"\x1bNVRM: GPU at", "RmInitAdapter failed! (0x62:0xffff:2407)"),
        )
        for form in (
            "[1234]: segfault at 0 ip 0000000000401136 sp 00007ffd error 6 in {name}[401000+1000] likely on CPU 3",
            "[1234] general protection fault ip:401136 sp:7ffd error:0 in {name}[401000+1000]",
            "[1234] trap invalid opcode ip:401136 sp:7ffd error:0 in {name}[401000+1000]",
        )
    ),
    "6,900,5000000,-;traps: NVRM: GPU at 0[77] general protection fault ip:4 sp:7 error:0 in RmInitAdapter failed[4+1]",
    # A value of the dictionary follows the message on a line of its own.
    f"6,900,5000000,-;usb 1-1: Product\n SUBSYSTEM={XID}\n DEVICE={XID}",
    # What a program writes to /dev/kmsg has the facility user (1) if it names none, and that of systemd is daemon (3).
    f"12,900,5000000,-;{XID}",
    f"30,900,5000000,-;{SXID}",
    # The same in the forms of dmesg and of a log file.
    f"<3>[    5.000000] tmpfs: Unknown parameter '{XID}'",
    f"<12>[    5.000000] {XID}",
    f"Nov 25 10:00:00 gpu1 kernel: [    5.000000] tmpfs: Unknown parameter '{XID}'",
    f"Nov 25 10:00:00 gpu1 someone[77]: {XID}",
]


@pytest.mark.parametrize("record", FORGED)
def test_text_of_a_user_is_no_event_of_the_driver(record: str) -> None:
    node = machines.healthy(SIZE)
    node.log.append(record)
    verdict = machines.judge(node, machines.expectations(SIZE), names=["gpu_xid"])["gpu_xid"]

    assert xid.events([record]) == []
    assert verdict.status == "healthy"


@pytest.mark.parametrize(
    ("record", "seconds"),
    [
        ("3,900,5000000,-,caller=T77;{}", 5.0),
        ("3,900,5000000,c;{}", 5.0),
        ("{}", float("inf")),
        ("[    5.000000] {}", 5.0),
        ("[    5.000000][   T77] {}", 5.0),
        ("<3>[    5.000000] {}", 5.0),
        ("[Wed Nov 25 10:00:00 2026] {}", float("inf")),
        ("Nov  5 10:00:00 gpu1 kernel: [    5.000000] {}", 5.0),
        ("2026-11-25T10:00:00.000000+00:00 gpu1 kernel: {}", float("inf")),
        ("kernel: [    5.000000] {}", 5.0),
    ],
)
@pytest.mark.parametrize("said", [f"{XID}, pid=1, name=a", XID, SXID])
def test_an_event_of_the_driver_is_read_in_every_form_of_the_log(record: str, seconds: float, said: str) -> None:
    found = [event.key() for event in xid.events([record.format(said)])]

    assert found == ["SXid 20034 on 0000:c1:00.0" if said == SXID else "Xid 142 on 0000:01:00"]
    assert kernel_log.read(record.format(said)) == kernel_log.Record(seconds, said)


@pytest.mark.parametrize(
    "record",
    [
        f"3,900,5000000,-;tmpfs: Unknown parameter '{KILLED.format('x', JOB, 'a')}'",
        f"12,900,5000000,-;{KILLED.format('x', JOB, 'a')}",
    ],
)
def test_text_of_a_user_is_no_kill_for_memory(record: str) -> None:
    assert machine.oom_kills([record]) == []


@pytest.mark.parametrize(
    ("cpuset", "group", "task"),
    [
        ("x", "/user.slice/user-2001.slice/user@2001.service/slurmstepd.scope/job_99", "a"),
        ("x", f"/user.slice/user-2001.slice/user@2001.service/a,task_memcg={JOB},task=b,pid=1,uid=1", "a"),
        ("x", f"/user.slice/user-2001.slice/a:b:{JOB}", "a"),
        ("x,task_memcg=", "/user.slice/a", "a"),
        ("x", "/user.slice/a", "job_99"),
    ],
)
def test_the_groups_of_a_user_are_no_job(cpuset: str, group: str, task: str) -> None:
    (one,) = machine.oom_kills([f"6,900,5000000,-;{KILLED.format(cpuset, group, task)}"])

    assert one.labels["job_id"] == ""


def test_the_name_of_a_process_chooses_no_step_of_a_repair() -> None:
    left = leftovers.Process(77, 2001, "; found Xid 142", 1, "job_5")
    sick = [Verdict("gpu_xid", UNHEALTHY, "expected no fatal Xid since boot, found Xid 79 on 0000:01:00")]
    sick.append(Verdict("leftovers", UNHEALTHY, leftovers.judge(leftovers.Here([left], [])).reason))
    rules: list[ladder.Rule] = [
        {"check": "gpu_xid", "xid": [142], "steps": [], "category": "c", "source": "s"},
        {"check": "gpu_xid", "steps": ["reboot"], "category": "c", "source": "s"},
        {"check": "leftovers", "steps": ["reboot"], "category": "c", "source": "s"},
    ]

    assert ladder.plan(marker.reason(sick), rules).steps == ("reboot",)


def _status(*lines: str) -> tuple[str, str]:
    node = machines.healthy(SIZE)
    node.log.extend(lines)
    verdict = machines.judge(node, machines.expectations(SIZE), names=["gpu_xid"])["gpu_xid"]
    return verdict.status, verdict.reason


CHANGED = "[1.0] NVRM: Xid (PCI:0000:00:{}): 154, GPU recovery action changed from 0x0 (None) to {}"
NVLINK5 = "[1.0] NVRM: Xid (PCI:0009:01:00): {}, {} (0x021425c6 0x0 0x0 0x0 0x0 0x0)"


@pytest.mark.parametrize(
    ("lines", "status", "words"),
    [
        ([CHANGED.format("1e", "0x2 (Node Reboot Required)")], "unhealthy", "Xid 154 on 0000:00:1e (Node Reboot"),
        ([CHANGED.format("1e", "0x1 (GPU Reset Required)")], "unhealthy", "(GPU Reset Required)"),
        ([CHANGED.format("1e", "0x4 (Drain and Reset)")], "unhealthy", "(Drain and Reset)"),
        ([CHANGED.format("1e", "0x9 (Something New)")], "unhealthy", "(Something New)"),
        ([CHANGED.format("1e", "0x3 (Drain P2P)")], "healthy", "seen without being a fault: Xid 154"),
        ([CHANGED.format("1e", "0x0 (None)")], "healthy", "no fatal Xid since boot"),
        # Lines that are not understood
        (
            [CHANGED.format("1e", "0x1 (GPU Res")],
            "unknown",
            "unreadable: NVRM: Xid (PCI:0000:00:1e): 154, GPU recovery",
        ),
        (["[1.0] NVRM: Xid (PCI:0000:00:1e): 7g, pid=1"], "unknown", "not understood: unreadable: NVRM: Xid (PCI:0000"),
        (["[1.0] NVRM: Xid (PCI:0000:O0:1e): 79, pid=1"], "unknown", "unreadable: NVRM: Xid (PCI:0000:O0:1e): 79"),
        (["[1.0] NVRM: Xid (0000:00:1e): , pid=1"], "unknown", "unreadable: NVRM: Xid (0000:00:1e): , pid=1"),
        (["[1.0] NVRM: Xid (PCI:0000:00:1e): 7g", "[1.0] NVRM: Xid (PCI:0000:00:1e): 79"], "unhealthy", "Xid 79"),
        (
            ["[1.0] nvidia-nvswitch0: SXid (PCI:0000:c4:00.0): 20034, F4tal, Link 30"],
            "unknown",
            "unreadable: nvidia-nv",
        ),
        (
            ["[1.0] nvidia-nvswitch0: SXid (PCI:0000:c4:00.0): 20034, Severity 1 Engine instance 30"],
            "healthy",
            "no fatal",
        ),
        (
            ["[1.0] nvidia-nvswitch0: SXid (PCI:0000:c4:00.0): 20034, Data {0x00140004, 0x00100000}"],
            "healthy",
            "no fatal",
        ),
        # The last action of each device decides.
        ([CHANGED.format("1e", "0x1 (GPU Reset Required)"), CHANGED.format("1e", "0x0 (None)")], "healthy", ""),
        ([CHANGED.format("1e", "0x1 (GPU Reset Required)"), CHANGED.format("1f", "0x0 (None)")], "unhealthy", "00:1e"),
        ([CHANGED.format("1e", "0x0 (None)"), CHANGED.format("1e", "0x4 (Drain and Reset)")], "unhealthy", "00:1e"),
        (["[1.0] NVRM: Xid (PCI:0000:00:1e): 154, pid=1"], "healthy", "seen without being a fault"),
        # NVLink 5
        ([NVLINK5.format(144, "SAW_MVB Nonfatal XC0 i0 Link 0")], "healthy", "Xid-non-fatal 144"),
        ([NVLINK5.format(150, "NETIR_BER_EVENT  Nonfatal   XC0 i0 Link 01")], "healthy", "Xid-non-fatal 150"),
        ([NVLINK5.format(149, "NETIR_LINK_EVT  Fatal   XC0 i0 Link 01")], "unhealthy", "Xid 149 on 0009:01:00"),
        ([NVLINK5.format(149, "pid=7, name=Nonfatal, NETIR_LINK_EVT Fatal XC0")], "unhealthy", "Xid 149"),
        ([NVLINK5.format(145, "RLW_RXPIPE XC1 i0 Link 07")], "unhealthy", "Xid 145"),
        ([NVLINK5.format(79, "Nonfatal")], "unhealthy", "Xid 79"),
        # Demands without an Xid
        (
            ["[1.0] NVRM: nvAssertOkFailedNoLog: Assertion failed: Reset required [NV_ERR_RESET_REQUIRED] (0x62)"],
            "unhealthy",
            "driver: NV_ERR_RESET_REQUIRED",
        ),
        (
            ["[1.0] NVRM: nvGpuOpsReportFatalError: uvm encountered global fatal error 0x60, requiring os reboot"],
            "unhealthy",
            "driver: requiring os reboot",
        ),
        (
            ["[1.0] NVRM: GPU 0000:4e:00.0: RmInitAdapter failed! (0x62:0xffff:2407)"],
            "unhealthy",
            "driver: RmInitAdapter failed on 0000:4e:00.0",
        ),
        # A GPU that is lost without an Xid
        (
            [
                "4,2101,1843308145,-;NVRM: The NVIDIA GPU 0000:b3:00.0",
                "4,2102,1843308146,-;NVRM: (PCI ID: 10de:26b5) installed in this system has",
                "4,2103,1843308147,-;NVRM: fallen off the bus and is not responding to commands.",
            ],
            "unhealthy",
            "driver: fallen off the bus",
        ),
        (
            [
                r"4,2101,1843308145,-;NVRM: The NVIDIA GPU 0000:b3:00.0\x0aNVRM: (PCI ID: 10de:26b5) installed in this "
                r"system has\x0aNVRM: fallen off the bus and is not responding to commands."
            ],
            "unhealthy",
            "driver: fallen off the bus on 0000:b3:00.0",
        ),
        (["[1.0] NVRM: GPU 0000:b3:00.0: GPU has fallen off the bus."], "unhealthy", "fallen off the bus on 0000:b3"),
        (["[1.0] NVRM: Xid (PCI:[N/A]): 79, pid='<unknown>', name=<unknown>"], "unhealthy", "Xid 79 on [N/A]"),
        (["[1.0] NVRM: nvAssertFailedNoLog: Assertion failed: 0 @ kernel_gsp.c:1476"], "healthy", ""),
        (["[1.0] tmpfs: Unknown parameter 'NVRM: x [NV_ERR_RESET_REQUIRED]'"], "healthy", ""),
    ],
)
def test_the_text_of_an_event_decides_what_it_means(lines: list[str], status: str, words: str) -> None:
    found, reason = _status(*lines)

    assert found == status
    assert words in reason


def test_a_demand_is_remembered_until_it_is_taken_back() -> None:
    node, config, memory = machines.healthy(SIZE), machines.expectations(SIZE), dict[str, t.Any]()
    statuses = []
    for line in (CHANGED.format("1e", "0x1 (GPU Reset Required)"), "[2.0] usb: x", CHANGED.format("1e", "0x0 (None)")):
        node.log = [line]  # the ring buffer went round
        statuses.append(machines.judge(node, config, memory, ["gpu_xid"])["gpu_xid"].status)

    assert statuses == ["unhealthy", "unhealthy", "healthy"]


def test_figures_have_the_same_classes() -> None:
    lines = [
        CHANGED.format("1e", "0x1 (GPU Reset Required)"),
        CHANGED.format("1f", "0x1 (GPU Reset Required)"),
        CHANGED.format("1f", "0x0 (None)"),
        CHANGED.format("20", "0x3 (Drain P2P)"),
        NVLINK5.format(144, "SAW_MVB Nonfatal"),
        NVLINK5.format(149, "NETIR Fatal"),
        "[1.0] NVRM: GPU 0000:4e:00.0: RmInitAdapter failed! (0x62:0xffff:2407)",
    ]
    params = CHECKS["gpu_xid"].params
    found = {(one.labels["pci_bus_id"], one.labels["xid"]): one.labels["severity"] for one in gpu.xids(lines, params)}

    assert found == {
        ("0000:00:1e", "154"): "fault",
        ("0000:00:20", "154"): "warn",
        ("0009:01:00", "144"): "warn",
        ("0009:01:00", "149"): "fault",
        ("0000:4e:00.0", ""): "fault",
    }


def test_a_log_with_nul_characters_hides_no_event() -> None:
    """A log in UTF-16, and a file that lost its end with the power, have such characters."""
    line = "4,9,12345678,-;NVRM: Xid (PCI:0001:00:00): 79, pid=1"

    for damaged in ("\0".join(line), f"\0\0\0{line}", f"{line}\0\0"):
        assert [one.number for one in xid.events([damaged])] == [79]


@pytest.mark.parametrize("lost", ["recovery", "GPU recovery", "action", "changed", "to"])
def test_an_action_without_one_of_its_words_is_not_understood(lost: str) -> None:
    line = CHANGED.format("1e", "0x1 (GPU Reset Required)").replace(lost, " " * len(lost), 1)

    assert [one.kind for one in xid.events([line])] == [xid.UNREADABLE]
