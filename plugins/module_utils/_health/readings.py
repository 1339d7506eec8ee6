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
from .verdict import ExplainedError, NotRunError, UnhealthyError, UnknownError, listing, tidy

if t.TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .machine import Machine

# Names that drivers from 470 on know; a name that a driver does not know is not queried again.
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
    "gpu_recovery_action",
)
# Words of the driver for what a GPU needs: these two are no fault, the next ones are.
_NO_ACTION = ("none", "drain p2p")
_ACTIONS = ("reset", "reboot", "drain and reset")
_NEEDED = 4
REMAP_FIELDS = ("gpu_uuid", "remapped_rows.uncorrectable", "remapped_rows.pending", "remapped_rows.failure")

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
        """Return whether the GPU is in MIG mode."""
        return values.flag(self.row.get("mig.mode.current", "").strip("[]")) is True

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
        value = values.number(text)
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
    found = [Gpu(row) for row in table.rows]
    for field in ("uuid", "pci.bus_id"):
        seen = [gpu.row[field] for gpu in found]
        if len(set(seen)) != len(seen):
            raise UnknownError(f"{tool} names one GPU twice: {listing(seen)}")
    return Answer(found, table.warnings)


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
    machine: Machine, timeout: float, tool: str = "nvidia-smi", only: Sequence[int] | None = None
) -> dict[int, dict[int, str]]:
    """Return the state of each link of the GPUs, a rate or <inactive>."""
    with _explained(), _verdicts(tool):
        return {gpu: dict(found) for gpu, found in reader(machine, timeout, tool).nvlink("-s", only).items()}


def link_errors(
    machine: Machine, timeout: float, tool: str = "nvidia-smi", only: Sequence[int] | None = None
) -> dict[str, int]:
    """Return the error counters of every link by "GPU n link m name"."""
    with _explained(), _verdicts(tool):
        return nvlink.errors(reader(machine, timeout, tool).nvlink("-e", only))


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
