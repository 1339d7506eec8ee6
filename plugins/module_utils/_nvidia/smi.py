# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
Call nvidia-smi: read a machine, or change one setting of several GPUs, in one start.

This code does not rely on exit statuses: 0 can come with "not supported" or "deprecated", other codes with valid data.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia import nvlink, query_csv, values
from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia.report import ParseError, Report, split_notes
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.bounded_run import CommandMissing, CommandTimeout

if t.TYPE_CHECKING:
    from collections.abc import Sequence

    from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia import topo
    from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.bounded_run import Runner


class NvidiaSmiError(Exception):
    """
    nvidia-smi returned no data. kind is the reason in one word; lost lists GPUs that fell off the bus.

    If the tool ended, code is its exit status and said is its output. dead is true if the output reports a broken GPU
    or driver.
    """

    def __init__(
        self, kind: str, message: str, lost: list[dict[str, t.Any]] | None = None, code: int = 0, said: str = ""
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.lost = lost or []
        self.code = code
        self.said = said

    @property
    def dead(self) -> bool:
        """Return whether the tool reports a broken GPU or driver."""
        return _speaks_of_death(self.said)


# Messages of nvidia-smi (lower case), the word for each, and the remedy. The first match counts.
_MESSAGES = (
    ("libnvidia-ml.so", "no_driver", "the NVIDIA driver's library is not installed"),
    ("couldn't communicate with the nvidia driver", "no_driver", "the NVIDIA driver is not loaded"),
    ("driver/library version mismatch", "mismatch", "the loaded driver is not the installed one; reboot or reload it"),
    ("access blocked by the operating system", "blocked", "the device nodes /dev/nvidia* may not be opened"),
    ("unable to determine the device handle", "lost", "a GPU fell off the bus; reboot the machine"),
    ("gpu is lost", "lost", "a GPU fell off the bus; reboot the machine"),
    ("no devices were found", "no_device", "the driver runs but sees no GPU"),
    ("permission", "permission", "it needs root with CAP_SYS_ADMIN; root inside a container is not enough"),
    ("is not a valid field", "argument", "this driver does not know the field"),
    ("is not recognized", "argument", "this driver does not know the option"),
)
_CODES = {
    2: ("argument", "an argument is not valid"),
    4: ("permission", "it needs root with CAP_SYS_ADMIN; root inside a container is not enough"),
    6: ("no_device", "the driver runs but sees no GPU"),
    8: ("power_cable", "a GPU's power cable is not attached"),
    9: ("no_driver", "the NVIDIA driver is not loaded"),
    12: ("no_driver", "the NVIDIA driver's library is not installed"),
    15: ("lost", "a GPU fell off the bus; reboot the machine"),
}


def explain(code: int, text: str) -> NvidiaSmiError:
    """Return an error with the remedy for output without data."""
    low = text.lower()
    kind, advice = _CODES.get(code, ("other", ""))
    kind, advice = next(((name, hint) for mark, name, hint in _MESSAGES if mark in low), (kind, advice))
    said = " ".join(text.split())[:300] or "nothing"
    lost, _notes = split_notes(text.splitlines())
    message = f"{advice or 'nvidia-smi failed'} (nvidia-smi exited {code} and said: {said})"
    return NvidiaSmiError(kind, message, lost, code, said)


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
_WARNED = 14  # exit status with valid data and a warning
_INVALID_FIELD = re.compile(r'Field "([^"]+)" is not a valid field')


def _speaks_of_death(text: str) -> bool:
    low = text.lower()
    return any(words in low for words in _DEAD)


def _has_rows(text: str) -> bool:
    return any(line.count(",") > 1 or line.startswith("GPU ") for line in text.splitlines())


class Outcome(t.NamedTuple):
    """The result of one setting call for one GPU: a problem in one word, and the line of the tool."""

    problem: str | None
    line: str


_PROBLEMS = (
    ("not supported", "unsupported"),
    ("deprecated", "deprecated"),
    ("permission", "permission"),
    ("not a valid", "invalid"),
    ("unable to", "failed"),
    ("failed", "failed"),
    ("terminating early", "failed"),
    ("no devices were found", "failed"),
    ("is not recognized", "argument"),
    ("missing its value", "argument"),
)
_WARNING = "warning: persistence mode is disabled"
_FORM = "--format=csv,noheader,nounits"


def _problem(line: str) -> str | None:
    low = line.lower()
    if low.startswith(_WARNING):
        return None
    return next((name for mark, name in _PROBLEMS if mark in low), None)


class NvidiaSmi:
    """A stateless wrapper of nvidia-smi. The injected runner starts all processes."""

    def __init__(self, run: Runner, executable: str = "nvidia-smi") -> None:
        self._run = run
        self._executable = executable

    def read(self) -> Report:
        """Return all data of every GPU, in one start."""
        from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia import query_xml  # costs start time

        code, text = self._call("-q", "-x")
        try:
            report = query_xml.parse(text)
        except ParseError as exc:
            raise explain(code, f"{exc}\n{text}") from exc
        if not report.gpus:
            raise explain(code or 6, text if code else "No devices were found")
        return report

    def topology(self) -> topo.Topology:
        """Return the links between GPUs and adapters, in one start."""
        from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia import topo  # costs start time

        code, text = self._call("topo", "-m")
        try:
            return topo.parse(text)
        except ParseError as exc:
            raise NvidiaSmiError("other", f"{exc} (nvidia-smi exited {code})") from exc

    def query(self, what: str, fields: Sequence[str], needed: int | None = None) -> query_csv.Table:
        """
        Return the output of nvidia-smi --query-WHAT for some fields, in one start.

        Retry without a field that this driver does not know, unless it is one of the first I(needed) fields. An older
        driver does not know the fields of the same group behind it, either.
        """
        asked = list(fields)
        for _attempt in range(4):
            code, out, err = self._start(f"--query-{what}={','.join(asked)}", _FORM)
            unknown = _INVALID_FIELD.search(f"{err} {out}")
            if not unknown or needed is None or unknown[1] not in asked[needed:]:
                break
            group, dot, _name = unknown[1].partition(".")
            family = group + dot if group in ("remapped_rows", "fabric") else unknown[1]
            place = asked.index(unknown[1])
            asked = [*asked[:place], *(field for field in asked[place:] if not field.startswith(family))]
        return query_csv.table(_with_lost(_data(code, out, err), err), asked)

    def processes(self) -> list[dict[str, str]]:
        """Return the compute processes of the GPUs, in one start."""
        option = f"--query-compute-apps={','.join(query_csv.PROCESS_FIELDS)}"
        return query_csv.parse_processes(_data(*self._start(option, _FORM)))

    def listed(self) -> str:
        """Return the list of the GPUs and of their MIG slices."""
        return _data(*self._start("-L"))

    def nvlink(self, option: str, only: Sequence[int] | None = None) -> nvlink.Links:
        """Return the output of nvidia-smi nvlink for the links of all GPUs, or of those with the given indexes."""
        calls = [[]] if only is None else [["-i", str(index)] for index in only]
        return nvlink.parse("\n".join(_data(*self._start("nvlink", option, *chosen)) for chosen in calls))

    def set(self, option: str, value: str | None, gpus: Sequence[dict[str, t.Any]]) -> list[Outcome]:
        """Change one setting of some GPUs in one start, and return the outcome for each GPU."""
        names = [str(gpu["uuid"] or gpu["pci_bus_id"]) for gpu in gpus]
        code, text = self._call("-i", ",".join(names), option, *([] if value is None else [value]))
        return [_outcome(code, text, gpu["pci_bus_id"]) for gpu in gpus]

    def _call(self, *args: str) -> tuple[int, str]:
        code, out, err = self._start(*args)
        return code, out + (f"\n{err}" if err.strip() else "")

    def _start(self, *args: str) -> tuple[int, str, str]:
        try:
            return self._run([self._executable, *args])
        except CommandTimeout as exc:
            raise NvidiaSmiError("timeout", f"{exc}; a GPU or the driver hangs, see the kernel log") from exc
        except CommandMissing as exc:
            raise NvidiaSmiError("not_installed", f"{exc}; install the NVIDIA driver") from exc


def _data(code: int, out: str, err: str) -> str:
    """Return the output of a call that has data. One lost GPU among others is not a failure."""
    text = " ".join(filter(None, [err.strip(), out.strip()]))
    if code not in (0, _WARNED) or (_speaks_of_death(text) and (code or not _has_rows(out))):
        raise explain(code, text)
    return out


def _with_lost(out: str, err: str) -> str:
    """Return the output with the lines about lost GPUs, which explain a row that is missing."""
    return "\n".join([out, *(line for line in err.splitlines() if split_notes([line])[0])])


def _outcome(code: int, text: str, address: str | None) -> Outcome:
    """Return the outcome for one GPU. A problem in a line that names no GPU applies to all GPUs."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    own = [line for line in lines if address in values.bus_ids(line)]
    common = [line for line in lines if not values.bus_ids(line)]
    for line in [*own, *common]:
        problem = _problem(line)
        if problem:
            return Outcome(problem, line)
    if code:
        return Outcome("failed", f"nvidia-smi exited {code}: {' '.join(text.split())[:200] or 'no message'}")
    return Outcome(None, own[0] if own else "")
