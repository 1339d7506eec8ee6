# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read what nvidia-smi says, one start for all GPUs and all fields, and trust nothing in it."""

from __future__ import annotations

import re
import typing as t

from .process import DONE, MISSING
from .verdict import ExplainedError, NotRunError, UnhealthyError, UnknownError, listing, tidy

if t.TYPE_CHECKING:
    from .machine import Machine

# Names that drivers from 470 on know; one that a driver does not know is left out and asked no more.
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
)
REMAP_FIELDS = ("gpu_uuid", "remapped_rows.uncorrectable", "remapped_rows.pending", "remapped_rows.failure")
APP_FIELDS = ("gpu_uuid", "pid", "process_name", "used_memory")

_NOT_AVAILABLE = {"n/a", "not supported", "not available", "requested functionality has been deprecated", "none", ""}
_SICK = re.compile("requires reset|unknown error|is lost|reset required|fallen off", re.IGNORECASE)
_DEAD = (
    "is lost",
    "no devices were found",
    "couldn't communicate with the nvidia driver",
    "unable to determine the device handle",
    "failed to initialize nvml",
    "driver/library version mismatch",
    "requires reset",
    "gpu access blocked",
)
_WARNING_LINE = "WARNING:"  # such as a corrupted infoROM, with the exit status below
_WARNED = 14
_LOST_LINE = "Unable to determine the device handle"
_MASK = re.compile(r"0x[0-9a-fA-F]{1,16}")
_INVALID_FIELD = re.compile(r'Field "([^"]+)" is not a valid field')
# What the names of real errors have in common; rates, states, bytes and packets have none of it.
_LINK_ERROR = re.compile(r"error|discard|recovery", re.IGNORECASE)
# What the link repairs by itself: codewords by the number of symbols that FEC corrected (0: none), and raw bits.
_LINK_REPAIRED = re.compile(r"^(FEC|Raw) ", re.IGNORECASE)
_LINK_GPU = re.compile(r"^GPU (\d+): ")
_LINK_LINE = re.compile(r"^\s*Link (\d+): (.*)$")
_NO_LINKS = ("unable to retrieve nvlink information", "not supported", "no nvlink", "no active nvlink")


class Gpu:
    """One row of the answer, by field name."""

    def __init__(self, row: dict[str, str]) -> None:
        """Take the cells as they were printed."""
        self.row = row

    @property
    def name(self) -> str:
        """Return how to call this GPU in a reason."""
        return f"GPU {self.row['index']} ({self.row['pci.bus_id']})"

    @property
    def mig(self) -> bool:
        """Tell whether the GPU is divided into instances."""
        return self.row.get("mig.mode.current", "").strip("[]").lower() == "enabled"

    @property
    def asleep(self) -> bool:
        """Tell whether the GPU idles in a state in which the driver slows its PCIe link down."""
        reasons = self.row.get("clocks_throttle_reasons.active", "")
        idle = bool(_MASK.fullmatch(reasons)) and int(reasons, 16) & 1
        return bool(idle) and bool(re.fullmatch(r"P[1-9][0-9]?", self.row.get("pstate", "")))

    def available(self, field: str) -> bool:
        """Tell whether the driver gives this field for this GPU."""
        return not_available(self.row.get(field, "")) is False

    def number(self, field: str) -> float:
        """Return a numeric field; raises UnknownError for anything else."""
        text = self.row.get(field, "")
        try:
            value = float(text)
        except ValueError:
            raise UnknownError(f"{self.name}: {field} is {tidy(text, 60)!r}, not a number") from None
        if not 0 <= value < float("inf"):
            raise UnknownError(f"{self.name}: {field} is {tidy(text, 60)!r}, not a count")
        return value

    def flag(self, field: str) -> bool:
        """Return a Yes/No, Enabled/Disabled or counting field as a truth; raises UnknownError for anything else."""
        text = self.row.get(field, "").strip("[]").lower()
        if text in ("yes", "enabled", "active", "true"):
            return True
        if text in ("no", "disabled", "not active", "false"):
            return False
        return self.number(field) > 0

    def bits(self, field: str) -> int:
        """Return a bit mask written as a hexadecimal number."""
        text = self.row.get(field, "")
        if not _MASK.fullmatch(text):
            raise UnknownError(f"{self.name}: {field} is {tidy(text, 60)!r}, not a bit mask")
        return int(text, 16)

    def trouble(self) -> str:
        """Return the words of the driver for a GPU that is out of order, or nothing."""
        if not _SICK.search("\n".join(self.row.values())):
            return ""
        field, text = next((field, text) for field, text in self.row.items() if _SICK.search(text))
        return f"{self.name}: {field} is {text}"


class Answer(t.NamedTuple):
    """All GPUs that answer, and what the tool warns of."""

    gpus: list[Gpu]
    warnings: list[str]


def not_available(text: str) -> bool:
    """Tell whether the driver says that it has no such value."""
    return text.strip().strip("[]").strip().lower() in _NOT_AVAILABLE


def gpus(machine: Machine, timeout: float, tool: str = "nvidia-smi") -> Answer:
    """Return every GPU that answers; raises UnknownError, NotRunError or UnhealthyError."""
    fields = list(FIELDS)
    for _attempt in range(4):
        result = machine.run([tool, f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"], timeout)
        unknown_field = _INVALID_FIELD.search(result.text) if result.state == DONE else None
        if not unknown_field or unknown_field[1] not in fields[4:]:
            break
        family = unknown_field[1].partition(".")[0] if unknown_field[1] in REMAP_FIELDS else unknown_field[1]
        fields = [field for field in fields if not field.startswith(family)]
    text = _answer(result, tool, timeout)
    # From driver 560 on a lost GPU has a line of its own above the rows; the number of rows tells that it is missing.
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    rows = [Gpu(_cells(line, fields)) for line in lines if not line.startswith((_LOST_LINE, _WARNING_LINE))]
    for field in ("uuid", "pci.bus_id"):
        seen = [gpu.row[field] for gpu in rows]
        if len(set(seen)) != len(seen):
            raise UnknownError(f"{tool} names one GPU twice: {listing(seen)}")
    return Answer(rows, [line for line in lines if line.startswith(_WARNING_LINE)])


def remapped_rows(machine: Machine, timeout: float, tool: str = "nvidia-smi") -> dict[str, dict[str, str]]:
    """Return the row remapper's fields by the UUID of the GPU."""
    argv = [tool, f"--query-remapped-rows={','.join(REMAP_FIELDS)}", "--format=csv,noheader,nounits"]
    text = _answer(machine.run(argv, timeout), tool, timeout)
    rows = [_cells(line, REMAP_FIELDS) for line in text.splitlines() if line.strip()]
    return {row["gpu_uuid"]: row for row in rows}


def processes(machine: Machine, timeout: float, tool: str = "nvidia-smi") -> list[dict[str, str]]:
    """Return the processes that compute on GPUs."""
    argv = [tool, f"--query-compute-apps={','.join(APP_FIELDS)}", "--format=csv,noheader,nounits"]
    text = _answer(machine.run(argv, timeout), tool, timeout)
    return [_process(line) for line in text.splitlines() if line.strip()]


def links(
    machine: Machine, timeout: float, tool: str = "nvidia-smi", only: t.Sequence[int] | None = None
) -> dict[int, dict[int, str]]:
    """Return what `nvidia-smi nvlink -s` says about each link of each GPU, or of some: a rate or <inactive>."""
    text = _nvlink(machine, "-s", timeout, tool, only)
    return {gpu: dict(found) for gpu, found in _link_lines(text, tool).items()}


def link_errors(
    machine: Machine, timeout: float, tool: str = "nvidia-smi", only: t.Sequence[int] | None = None
) -> dict[str, int]:
    """Return the error counters of every link by "GPU n link m name"; newer drivers print much else here."""
    text = _nvlink(machine, "-e", timeout, tool, only)
    counters = {}
    for gpu, found in _link_lines(text, tool).items():
        for link, words in found:
            name, _colon, value = (part.strip() for part in words.rpartition(":"))
            if value.isdigit() and _LINK_ERROR.search(name) and not _LINK_REPAIRED.match(name):
                counters[f"GPU {gpu} link {link} {name}"] = int(value)
    return counters


def _answer(result: t.Any, tool: str, timeout: float) -> str:
    if result.state == MISSING:
        raise NotRunError(f"{tool} is missing")
    if result.state != DONE:
        raise UnknownError(
            f"{tool} gave no answer within {timeout:.10g} s" if result.state == "timeout" else result.err
        )
    words = result.text.lower()
    if any(word in words for word in _DEAD) and (result.rc or not _has_rows(result.out)):
        raise UnhealthyError(f"expected an answer, found {tool} saying: {tidy(result.text, 200)}")
    if result.rc not in (0, _WARNED):
        raise UnknownError(f"{tool} exited {result.rc}: {tidy(result.text, 200)}")
    return str(result.out)


def _nvlink(machine: Machine, option: str, timeout: float, tool: str, only: t.Sequence[int] | None) -> str:
    calls = [[]] if only is None else [["-i", str(index)] for index in only]
    try:
        return "\n".join(
            _answer(machine.run([tool, "nvlink", option, *chosen], timeout), tool, timeout) for chosen in calls
        )
    except UnhealthyError as exc:
        raise ExplainedError(f"{exc} (gpu_count judges that)") from exc


def _has_rows(text: str) -> bool:
    return any(line.count(",") > 1 or line.startswith("GPU ") for line in text.splitlines())


def _cells(line: str, fields: t.Sequence[str]) -> dict[str, str]:
    cells = [cell.strip() for cell in line.split(",")]
    if len(cells) != len(fields):
        raise UnknownError(f"expected {len(fields)} fields from nvidia-smi, found {tidy(line, 120)!r}")
    return dict(zip(fields, cells))


def _process(line: str) -> dict[str, str]:
    uuid, pid, rest = [*(cell.strip() for cell in line.split(",", 2)), "", ""][:3]
    name, _comma, memory = rest.rpartition(",")  # a process name may hold commas
    if not uuid.startswith(("GPU-", "MIG-")) or not pid.isdigit():
        raise UnknownError(f"expected a process from nvidia-smi, found {tidy(line, 120)!r}")
    return {"gpu_uuid": uuid, "pid": pid, "process_name": name.strip(), "used_memory": memory.strip()}


def _link_lines(text: str, tool: str) -> dict[int, list[tuple[int, str]]]:
    found: dict[int, list[tuple[int, str]]] = {}
    gpu = None
    for line in text.splitlines():
        if line.startswith((_LOST_LINE, _WARNING_LINE)):
            continue
        link = _LINK_LINE.match(line) if gpu is not None else None
        head = None if link else _LINK_GPU.match(line)
        if link and gpu is not None:
            found[gpu].append((int(link[1]), link[2].strip()))
        elif head:
            gpu = int(head[1])
            found[gpu] = []
        elif line.strip() and not any(word in line.lower() for word in _NO_LINKS):
            raise UnknownError(f"expected a GPU or a link from {tool} nvlink, found {tidy(line, 120)!r}")
    if not found:
        raise UnknownError(f"{tool} nvlink names no GPU")
    return found
