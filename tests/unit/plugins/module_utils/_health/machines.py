# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines of every catalogued size, without a machine: files, tools and time as the health program sees them."""

from __future__ import annotations

import functools
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.filter.nccl_topology import nccl_topology
from ansible_collections.hpcai.gpucluster.plugins.module_utils._health import checks, readings
from ansible_collections.hpcai.gpucluster.plugins.module_utils._health.machine import Machine, Space
from ansible_collections.hpcai.gpucluster.plugins.module_utils._health.process import DONE, MISSING, TIMEOUT, Result
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.bounded_run import CommandMissing
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue import records
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._health import expectations as health_expectations
from ansible_collections.hpcai.gpucluster.tests.simulation.nvidia_simulation import cli as simulation

if t.TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence

    from ansible_collections.hpcai.gpucluster.plugins.module_utils._health.verdict import Verdict
    from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.bounded_run import Started

    Tool = Callable[[Sequence[str], str], Result]

SIZES = sorted(records.load())
NVIDIA_LOG = "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.159.04"


class FakeMachine(Machine):
    """A machine made of a mapping of files and a mapping of tools."""

    def __init__(self, files: dict[str, str], tools: dict[str, Tool] | None = None) -> None:
        super().__init__()
        self.files = files
        self.tools = tools or {}
        self.log = [f"6,{number},{number}000000,-;{NVIDIA_LOG}" for number in range(3)]
        self.space: dict[str, Space | str] = {}
        self.clock = 10_000.0
        self.calls: list[list[str]] = []
        self.signals: list[tuple[int, int]] = []
        self._names: dict[str, set[str]] = {}

    def now(self) -> float:
        return self.clock

    def read(self, path: str) -> str:
        if path not in self.files:
            raise FileNotFoundError(2, "No such file or directory")
        return self.files[path]

    def names(self, path: str) -> list[str]:
        if not self._names:
            for name in self.files:
                parts = name.split("/")
                for depth in range(1, len(parts)):
                    self._names.setdefault("/".join(parts[:depth]), set()).add(parts[depth])
        return sorted(self._names.get(path, ()))

    def forget_names(self) -> None:
        """Files were added or removed."""
        self._names = {}

    def target(self, path: str) -> str:
        return "../../../0000:00:02.0" if "/eth0/" in path or "/ib0/" in path else ""

    def kernel_log(self, path: str) -> list[str]:
        return self.log

    def run(self, argv: Sequence[str], timeout: float, stdin: str = "", env: dict[str, str] | None = None) -> Result:
        self.calls.append(list(argv))
        tool = self.tools.get(argv[0])
        return tool(argv, stdin) if tool else Result(MISSING, err=f"{argv[0]}: no such program")

    def start(self, argv: Sequence[str]) -> Started:
        raise CommandMissing(f"{argv[0]} cannot be started") from FileNotFoundError(2, "No such file or directory")

    def sleep(self, seconds: float) -> None:
        self.clock += seconds

    def signal(self, pid: int, number: int) -> None:
        self.signals.append((pid, number))

    def spaces(self, paths: Sequence[str], timeout: float) -> dict[str, Space | str]:
        return {path: self.space.get(path, Space(40.0, 2.0)) for path in paths}


def says(text: str, rc: int = 0) -> Tool:
    """Return a tool that always says the same."""
    return lambda _argv, _stdin: Result(DONE, rc, text)


def hangs(_argv: Sequence[str], _stdin: str) -> Result:
    """Answer as a tool that never ends looks to the program."""
    return Result(TIMEOUT)


class Smi:
    """The simulated nvidia-smi, in this process, with the subcommands that it does not know."""

    def __init__(self, record: dict[str, t.Any], **settings: t.Any) -> None:
        gpus = record["gpus"]
        self.links = gpus.get("nvlinks") or 0
        self.link_errors: dict[tuple[int, int], int] = {}
        self.processes = ""
        self.remember = False  # for thousands of rounds: answer as before until something changes
        self.answers: dict[tuple[str, ...], Result] = {}
        self.config: dict[str, t.Any] = {"gpus": gpus, "persistence": True, "driver": "580.159.04", "values": {}}
        addresses = [gpu["pci"] for gpu in record["topology"] if gpu.get("pci")]
        if len(addresses) == gpus["count"]:
            self.config["pci"] = addresses
        everywhere = {f"clocks.applications.{name}": str(mhz) for name, mhz in (gpus.get("clocks") or {}).items()}
        if gpus.get("model") == "V100":
            everywhere.update(dict.fromkeys(readings.REMAP_FIELDS[1:], "[N/A]"))
            everywhere.update(
                {
                    "retired_pages.single_bit_ecc.count": "0",
                    "retired_pages.double_bit.count": "0",
                    "retired_pages.pending": "No",
                }
            )
        self.config["values"]["*"] = everywhere
        self.config.update(settings)

    def __call__(self, argv: Sequence[str], stdin: str) -> Result:
        key = tuple(argv)
        if not self.remember or key not in self.answers:
            self.answers[key] = self.answer(argv, stdin)
        return self.answers[key]

    def answer(self, argv: Sequence[str], _stdin: str) -> Result:
        """Answer one call."""
        count = self.config["gpus"]["count"]
        if "nvlink" in argv and ("faults" in self.config or "link_counters" in self.config):
            rc, out = simulation.run(list(argv[1:]), self.config, {})
            return Result(DONE, rc, out)
        if "nvlink" in argv:
            word = "Replay Errors" if "-e" in argv else ""
            lines = []
            for gpu in range(count):
                lines.append(f"GPU {gpu}: NVIDIA H200 (UUID: GPU-{gpu})")
                for link in range(self.links):
                    errors = self.link_errors.get((gpu, link), 0)
                    lines.append(f"\t Link {link}: {word}: {errors}" if word else f"\t Link {link}: 26.562 GB/s")
            return Result(DONE, 0, "\n".join(lines) + "\n")
        if argv[1].startswith("--query-compute-apps"):
            return Result(DONE, 0, self.processes)
        rc, out = simulation.run(list(argv[1:]), self.config, {})
        return Result(DONE, rc, out)

    def shows(self, gpu: int | str, **values: str) -> None:
        """Let a GPU show other values; dots of field names are written as two underscores."""
        shown = self.config["values"].setdefault(str(gpu), {})
        # The tool prints, and so the simulation knows, the canonical names.
        names = {name: name.replace("__", ".").replace("throttle_reasons", "event_reasons") for name in values}
        shown.update({names[name]: value for name, value in values.items()})


def record(size: str) -> dict[str, t.Any]:
    """Return a hardware record."""
    return records.find(size)


def expectations(size: str, **overrides: dict[str, t.Any]) -> dict[str, t.Any]:
    """Return the configuration of the program for a size."""
    ethernet = {"interfaces": ["eth0"], **overrides.get("ethernet", {})}
    return health_expectations.expectations(record(size), {**overrides, "ethernet": ethernet})


def files(size: dict[str, t.Any]) -> dict[str, str]:
    """Return the files of a healthy machine."""
    cpus = size["cpus"]["sockets"] * size["cpus"]["cores_per_socket"] * size["cpus"]["threads_per_core"]
    found = {
        "/proc/meminfo": f"MemTotal:       {size['memory_mib'] * 1024} kB\nMemFree:          1234 kB\n",
        "/proc/self/mounts": "/dev/sda1 / ext4 rw,relatime 0 0\nnfs:/home /home nfs4 rw,hard,nconnect=8 0 0\n",
        "/sys/devices/system/cpu/online": f"0-{cpus - 1}\n",
        "/sys/devices/system/node/has_cpu": f"0-{size['numa_nodes'] - 1}\n" if size["numa_nodes"] > 1 else "0\n",
        "/sys/class/net/eth0/operstate": "up\n",
        "/sys/class/net/eth0/flags": "0x1003\n",
        "/sys/class/net/eth0/carrier_down_count": "1\n",
        **process(1, "systemd", "0::/init.scope", uid=0),
        **process(40, "slurmd", "0::/system.slice/slurmd.service", uid=0),
    }
    if size["cpus"].get("architecture") == "aarch64":
        # The memory of a Grace machine's GPUs is in NUMA nodes without processors.
        found["/sys/devices/system/node/online"] = "0-33\n"
    for number in range(size["nvme"]["count"]):
        found[f"/sys/class/nvme/nvme{number}/model"] = "Microsoft NVMe Direct Disk v2          \n"
        found[f"/sys/class/nvme/nvme{number}/state"] = "live\n"
    for adapter in size["infiniband"]["hcas"]:
        found.update(adapter_files(adapter, "InfiniBand", size["infiniband"]["rate_gbps"]))
    if "accelerated_network" in size:
        found.update(adapter_files(size["accelerated_network"]["device"], "Ethernet", 100))
    path = health_expectations.expectations(size)["checks"]["nccl_topology"]["path"]
    if path:
        found[path] = nccl_topology(size)  # what the role nccl writes
    return found


def process(pid: int, name: str, cgroup: str, uid: int = 2001, start: int = 1000, title: str = "") -> dict[str, str]:
    """Return the files of a process; the forms are those of Linux 6.18, the start is in clock ticks since boot."""
    folder = f"/proc/{pid}"
    numbers = (
        f"S 1 {pid} {pid} 0 -1 4194560 501 0 7 0 1 0 0 0 20 0 15 0 {start} 628166656 1492 18446744073709551615 0 0 0"
    )
    return {
        f"{folder}/cgroup": f"{cgroup}\n",
        f"{folder}/stat": f"{pid} ({name}) {numbers}\n",
        f"{folder}/status": f"Name:\t{name}\nState:\tS (sleeping)\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n",
        f"{folder}/cmdline": f"{title or name}\0",
    }


def adapter_files(adapter: str, layer: str, rate: int) -> dict[str, str]:
    """Return the files of one RDMA adapter with one port."""
    folder = f"/sys/class/infiniband/{adapter}/ports/1"
    values = {"link_layer": layer, "state": "4: ACTIVE", "phys_state": "5: LinkUp", "rate": f"{rate} Gb/sec (4X)"}
    names = ("symbol_error", "link_error_recovery", "link_downed", "port_rcv_errors", "port_xmit_discards")
    values.update({f"counters/{name}": "0" for name in names})
    return {f"{folder}/{name}": f"{value}\n" for name, value in values.items()}


def healthy(size: str) -> FakeMachine:
    """Return a machine of a size on which nothing is wrong."""
    hardware = record(size)
    return FakeMachine(
        files(hardware),
        {
            "nvidia-smi": Smi(hardware),
            "chronyc": says(
                "C0A80101,192.168.1.1,3,1763623000.1,0.000012,0.00001,0.00002,-1.2,0.0,0.1,0.001,0.01,64.2,Normal\n"
            ),
            "munge": says("MUNGE:AwQDAAD:\n"),
            "unmunge": says("STATUS:          Success (0)\n"),
            "scontrol": says("Active Steps             = NONE\nSlurmd PID               = 4242\n"),
        },
    )


def age(machine: FakeMachine, dice: random.Random) -> None:
    """Let time pass on a healthy machine: harmless things happen."""
    machine.clock += dice.uniform(250, 350)
    smi = t.cast("Smi", machine.tools["nvidia-smi"])
    count = smi.config["gpus"]["count"]
    if count and dice.random() < 0.3:
        smi.answers.clear()
        gpu = dice.randrange(count)
        smi.shows(
            gpu,
            temperature__gpu=str(dice.randint(25, 88)),
            memory__used=str(dice.randint(0, 600)),
            ecc__errors__corrected__volatile__dram=str(dice.randint(0, 900)),
            ecc__errors__corrected__volatile__sram=str(dice.randint(0, 90)),
            # a power cap and idle are daily work, and one bad thermal sample proves nothing
            clocks_throttle_reasons__active=dice.choice(
                ["0x0000000000000000", "0x0000000000000001", "0x0000000000000004"]
            ),
        )
        if smi.links and dice.random() < 0.3:
            smi.link_errors[gpu, dice.randrange(smi.links)] = dice.randint(0, 20)
        if dice.random() < 0.05:
            machine.log.append(f"4,99,{int(machine.clock * 1e6)},-;NVRM: Xid (PCI:0001:00:00): 31, pid=12, name=python")
    for name in [name for name in machine.files if name.endswith(("/symbol_error", "/port_rcv_errors"))]:
        if dice.random() < 0.2:
            machine.files[name] = f"{int(machine.files[name]) + dice.randint(0, 1)}\n"
    meminfo = int(machine.files["/proc/meminfo"].split()[1])
    machine.files["/proc/meminfo"] = f"MemTotal:       {meminfo} kB\nMemFree:          {dice.randint(0, meminfo)} kB\n"


# The size on which every check has something to judge, but for those that nothing expects without a parameter.
COMPLETE = "standard_nd96isr_h100_v5"
IDLE = {"raid"}


@functools.cache
def unprepared() -> dict[str, str]:
    """
    Return the checks for which a healthy machine is not prepared, with their verdicts.

    One test fails for them and says what to add. The tests of all sizes leave them out, so that they do not repeat it.
    """
    found = judge(healthy(COMPLETE), expectations(COMPLETE))
    right = {name: "not applicable" if name in IDLE else "healthy" for name in found}
    return {name: verdict.line() for name, verdict in found.items() if verdict.status != right[name]}


def prepared(config: dict[str, t.Any]) -> list[str]:
    """Return the fast checks without those for which a healthy machine is not prepared."""
    return [name for name in config["sets"]["fast"] if name not in unprepared()]


def judge(
    machine: FakeMachine,
    config: dict[str, t.Any],
    remembered: dict[str, dict[str, t.Any]] | None = None,
    names: Sequence[str] | None = None,
) -> dict[str, Verdict]:
    """Run checks as the program does, without a process, and remember what it would remember."""
    remembered = {} if remembered is None else remembered
    found = {}
    for verdict, after in checks.run(names or config["sets"]["fast"], config, machine, remembered):
        found[verdict.check] = verdict
        remembered[verdict.check] = after
    return found
