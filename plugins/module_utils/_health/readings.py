# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
GPU data for the checks: the cells of nvidia-smi, and its failures as verdicts.

The reader of the collection starts the tool and parses its output. This module validates each cell: a cell that is not
a number never counts as 0.
"""

from __future__ import annotations

import contextlib
import re
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia import nvlink, values
from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia.report import ParseError
from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia.smi import NvidiaSmi, NvidiaSmiError

from .process import DONE, MISSING, TIMEOUT
from .verdict import ExplainedError, NotApplicableError, NotRunError, UnhealthyError, UnknownError, listing, tidy

if t.TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .machine import Machine

# A name that a driver does not know is not queried again. Drivers from 470 on know those up to remapped_rows. The newer
# names of a group are behind the older ones.
FIELDS = (
    "index",
    "uuid",
    "pci.bus_id",
    "name",
    "memory.total",
    "memory.used",
    "persistence_mode",
    "pstate",
    "mig.mode.current",
    "ecc.mode.current",
    "clocks.max.memory",
    "clocks.max.graphics",
    "clocks.applications.memory",
    "clocks.applications.graphics",
    "temperature.gpu",
    "clocks_throttle_reasons.active",
    "pcie.link.gen.current",
    "pcie.link.width.current",
    "ecc.errors.corrected.volatile.sram",
    "ecc.errors.uncorrected.volatile.sram",
    "ecc.errors.corrected.volatile.dram",
    "ecc.errors.uncorrected.volatile.dram",
    "retired_pages.single_bit_ecc.count",
    "retired_pages.double_bit.count",
    "retired_pages.pending",
    "remapped_rows.uncorrectable",
    "remapped_rows.pending",
    "remapped_rows.failure",
    "fabric.state",
    "fabric.status",
    "fabric.health.bandwidth",
    "fabric.health.route_recovery_in_progress",
    "fabric.health.route_unhealthy",
    "fabric.health.access_timeout_recovery",
    "fabric.health.summary",
    "fabric.health.incorrect_configuration",
    "gpu_recovery_action",
)
# Words of the driver for what a GPU needs: these two are no fault, the next ones are.
_NO_ACTION = ("none", "drain p2p")
_ACTIONS = ("reset", "reboot", "drain and reset")
_NEEDED = 4
REMAP_FIELDS = ("gpu_uuid", "remapped_rows.uncorrectable", "remapped_rows.pending", "remapped_rows.failure")

# Lines of nvidia-smi -L: GPU 0: NVIDIA A100 (UUID: GPU-...), and below it   MIG 1g.10gb  Device  0: (UUID: MIG-...)
_WHOLE = re.compile(r"GPU (\d+): \S.* \(UUID: GPU-[0-9a-zA-Z-]+\) *")
_PART = re.compile(r" +MIG ([!-~]+) +Device +\d+: +\(UUID: MIG-[0-9a-zA-Z/-]+\) *")
_MASK = re.compile(r"0x[0-9a-fA-F]{1,16}")


class Gpu:
    """One row of the output, by field name."""

    def __init__(self, row: dict[str, str]) -> None:
        """Store the cells as printed."""
        self.row = row

    @property
    def name(self) -> str:
        """Return the name of this GPU for a reason."""
        return f"GPU {self.row['index']} ({self.row['pci.bus_id']})"

    @property
    def mig(self) -> bool:
        """Return whether the GPU is in MIG mode; raise UnknownError for a word that is not known."""
        text = self.row.get("mig.mode.current")
        known = values.flag((text or "").strip("[]"))
        if known is None and not values.is_missing(text):
            raise UnknownError(f"{self.name}: mig.mode.current is {tidy(text or '', 60)!r}, not a known word")
        return known is True

    @property
    def asleep(self) -> bool:
        """Return whether the GPU is idle in a state in which the driver slows its PCIe link down."""
        reasons = self.row.get("clocks_throttle_reasons.active", "")
        idle = bool(_MASK.fullmatch(reasons)) and int(reasons, 16) & 1
        return bool(idle) and bool(re.fullmatch(r"P[1-9][0-9]?", self.row.get("pstate", "")))

    def available(self, field: str) -> bool:
        """Return whether the driver reports this field for this GPU."""
        return not values.is_absent(self.row.get(field))

    def number(self, field: str) -> float:
        """Return a numeric field, or raise UnknownError."""
        text = self.row.get(field, "")
        value = values.number(text, field=field)
        if value is None or value < 0:
            kind = "number" if value is None else "count"
            raise UnknownError(f"{self.name}: {field} is {tidy(text, 60)!r}, not a {kind}")
        return value

    def flag(self, field: str) -> bool:
        """Return a Yes/No, Enabled/Disabled or counter field as a boolean, or raise UnknownError."""
        known = values.flag(self.row.get(field, "").strip("[]"))
        return self.number(field) > 0 if known is None else known

    def bits(self, field: str) -> int:
        """Return a hexadecimal bit mask as an integer."""
        text = self.row.get(field, "")
        if not _MASK.fullmatch(text):
            raise UnknownError(f"{self.name}: {field} is {tidy(text, 60)!r}, not a bit mask")
        return int(text, 16)

    def judge_action(self) -> None:
        """Raise UnknownError if the driver names an action that this program does not know."""
        text = self.row.get("gpu_recovery_action", "")
        if self.available("gpu_recovery_action") and text.strip().lower() not in (*_NO_ACTION, *_ACTIONS):
            raise UnknownError(f"{self.name}: gpu_recovery_action is {tidy(text, 60)!r}, not a known action")

    def trouble(self) -> str:
        """Return the fault that the driver reports for the GPU, or an empty string."""
        action = self.row.get("gpu_recovery_action", "")
        if action.strip().lower() in _ACTIONS:
            return f"{self.name}: gpu_recovery_action is {action.strip()}"
        if not values.fault("\n".join(self.row.values())):
            return ""
        field, text = next((field, text) for field, text in self.row.items() if values.fault(text))
        return f"{self.name}: {field} is {text}"


class Answer(t.NamedTuple):
    """All GPUs that answer, and the warnings of the tool."""

    gpus: list[Gpu]
    warnings: list[str]


def gpus(machine: Machine, timeout: float, tool: str = "nvidia-smi") -> Answer:
    """Return every GPU that answers; raise UnknownError, NotRunError or UnhealthyError."""
    with _verdicts(tool):
        table = reader(machine, timeout, tool).query("gpu", FIELDS, _NEEDED)
    # From driver 560 on, a lost GPU has its own line above the rows. The number of rows then shows that it is missing.
    return Answer([Gpu(row) for row in table.rows], table.warnings)


def slices(machine: Machine, timeout: float, count: float, tool: str = "nvidia-smi") -> dict[str, dict[str, int]]:
    """Return how many MIG slices of each profile each of the GPUs has. What is not understood or cut is unknown."""
    with _verdicts(tool):
        text = reader(machine, timeout, tool).listed()
    found: dict[str, dict[str, int]] = {}
    gpus: list[str] = []
    before = ""
    for line in filter(str.strip, text.splitlines()):
        whole, part = _WHOLE.fullmatch(line), _PART.fullmatch(line)
        if line == before:
            raise UnknownError(f"{tool} -L printed {tidy(line, 80)!r} twice")
        before = line
        if whole:
            gpus.append(whole[1])
        elif part and gpus:
            counts = found.setdefault(part[1], {})
            counts[gpus[-1]] = counts.get(gpus[-1], 0) + 1
        else:
            raise UnknownError(f"{tool} -L printed {tidy(line, 80)!r}")
    if len(set(gpus)) != count or len(gpus) != count:
        raise UnknownError(f"{tool} -L printed {len(gpus)} of {count:.10g} GPUs")
    return found


def remapped_rows(machine: Machine, timeout: float, tool: str = "nvidia-smi") -> dict[str, dict[str, str]]:
    """Return the fields of the row remapper by GPU UUID."""
    with _verdicts(tool):
        return {
            row["gpu_uuid"]: row for row in reader(machine, timeout, tool).query("remapped-rows", REMAP_FIELDS).rows
        }


def processes(machine: Machine, timeout: float, tool: str = "nvidia-smi") -> list[dict[str, str]]:
    """Return the processes that compute on GPUs."""
    with _verdicts(tool):
        return reader(machine, timeout, tool).processes()


def links(
    machine: Machine, timeout: float, tool: str = "nvidia-smi", whole: Sequence[int] = (), every: bool = True
) -> dict[int, dict[int, str]]:
    """Return the state of each link of the GPUs, for example a rate or <inactive>."""
    return {gpu: dict(found) for gpu, found in _nvlink(machine, timeout, tool, "-s", whole, every).items()}


def link_errors(
    machine: Machine, timeout: float, tool: str = "nvidia-smi", whole: Sequence[int] = (), every: bool = True
) -> dict[str, int]:
    """Return the error counters of every link by "GPU n link m name"."""
    with _verdicts(tool):
        found = nvlink.errors(_nvlink(machine, timeout, tool, "-e", whole, every))
    if found and all(value is None for value in found.values()):
        raise NotApplicableError("no link has error counters: each is N/A")
    mute = {name.partition(" link ")[0] for name in found} - {
        name.partition(" link ")[0] for name, value in found.items() if value is not None
    }
    if mute:
        raise UnknownError(
            f"{listing(sorted(mute))}: every error counter of NVLink is N/A, but not those of other GPUs"
        )
    return {name: value for name, value in found.items() if value is not None}


def _nvlink(
    machine: Machine, timeout: float, tool: str, option: str, whole: Sequence[int], every: bool
) -> nvlink.Links:
    """Return the lines about the links of all GPUs, or only of the whole ones. Each whole GPU must be in the list."""
    with _explained(), _verdicts(tool):
        found = reader(machine, timeout, tool).nvlink(option, None if every else whole)
    missing = [str(gpu) for gpu in whole if gpu not in found]
    if missing:
        raise UnknownError(f"{tool} nvlink {option} does not name GPU {listing(missing)}")
    return found


def reader(machine: Machine, timeout: float, tool: str) -> NvidiaSmi:
    """Return the collection's reader of nvidia-smi, which starts the tool on this machine."""

    def run(args: Sequence[str]) -> tuple[int, str, str]:
        result = machine.run(args, timeout)
        if result.state == MISSING:
            raise NotRunError(f"{tool} is missing")
        if result.state == TIMEOUT:
            raise UnknownError(f"{tool} gave no answer within {timeout:.10g} s")
        if result.state != DONE:
            raise UnknownError(result.err)
        return result.rc, result.out, result.err

    return NvidiaSmi(run, tool)


@contextlib.contextmanager
def _verdicts(tool: str) -> Iterator[None]:
    """Convert failures of the tool into exceptions of checks."""
    try:
        yield
    except ParseError as exc:
        raise UnknownError(str(exc)) from exc
    except NvidiaSmiError as exc:
        said = tidy(exc.said, 200)
        if exc.dead:
            raise UnhealthyError(f"expected an answer, found {tool} saying: {said}") from exc
        raise UnknownError(f"{tool} exited {exc.code}: {said}") from exc


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    """Let the check gpu_count report that the tool has no answer."""
    try:
        yield
    except UnhealthyError as exc:
        raise ExplainedError(f"{exc} (gpu_count judges that)") from exc
