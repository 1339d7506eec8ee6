# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
Call nvidia-smi: read a machine in one start, set one thing on several GPUs in one start.

Nothing here trusts an exit status: 0 stands beside "not supported" and "deprecated", and other codes beside good data.
"""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia import query_csv, query_xml, topo, values
from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia.report import ParseError, Report, split_notes
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.bounded_run import CommandMissing, CommandTimeout

if t.TYPE_CHECKING:
    from collections.abc import Sequence

    from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.bounded_run import Runner


class NvidiaSmiError(Exception):
    """nvidia-smi has no answer; kind says why in one word, lost names GPUs that fell off the bus."""

    def __init__(self, kind: str, message: str, lost: list[dict[str, t.Any]] | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.lost = lost or []


# What nvidia-smi says (lower case), the word for it, and what to do about it. The first that fits counts.
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
    """Turn an answer without data into an error that says what to do."""
    low = text.lower()
    kind, advice = _CODES.get(code, ("other", ""))
    kind, advice = next(((name, hint) for mark, name, hint in _MESSAGES if mark in low), (kind, advice))
    said = " ".join(text.split())[:300] or "nothing"
    lost, _notes = split_notes(text.splitlines())
    return NvidiaSmiError(kind, f"{advice or 'nvidia-smi failed'} (nvidia-smi exited {code} and said: {said})", lost)


class Outcome(t.NamedTuple):
    """What one setting call says about one GPU: a problem in one word, and the tool's own line."""

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


def _problem(line: str) -> str | None:
    low = line.lower()
    if low.startswith(_WARNING):
        return None
    return next((name for mark, name in _PROBLEMS if mark in low), None)


class NvidiaSmi:
    """A thin wrapper without state; every process start goes through the injected runner."""

    def __init__(self, run: Runner, executable: str = "nvidia-smi") -> None:
        self._run = run
        self._executable = executable

    def read(self) -> Report:
        """Return everything about every GPU, in one start; a second way is tried only where the first is unreadable."""
        code, text = self._call("-q", "-x")
        try:
            report = query_xml.parse(text)
        except ParseError as exc:
            return self._read_csv(code, text, exc)
        if not report.gpus:
            raise explain(code or 6, text if code else "No devices were found")
        return report

    def topology(self) -> topo.Topology:
        """Return the links between GPUs and adapters, in one start."""
        code, text = self._call("topo", "-m")
        try:
            return topo.parse(text)
        except ParseError as exc:
            raise NvidiaSmiError("other", f"{exc} (nvidia-smi exited {code})") from exc

    def _read_csv(self, code: int, text: str, reason: ParseError) -> Report:
        error = explain(code, text)
        if error.kind not in ("other", "lost"):
            raise error
        form = "--format=csv,noheader,nounits"
        _code, supported = self._call(f"--query-supported-clocks={','.join(query_csv.SUPPORTED_FIELDS)}", form)
        code, text = self._call(f"--query-gpu={','.join(query_csv.FIELDS)}", form)
        report = query_csv.parse_gpus(text, query_csv.parse_supported(supported))
        if not report.gpus:
            raise error if error.kind == "lost" else explain(code, text)
        return report._replace(notes=[str(reason), *report.notes])

    def set(self, option: str, value: str | None, gpus: Sequence[dict[str, t.Any]]) -> list[Outcome]:
        """Set one thing on some GPUs in one start, and return what was said about each of them."""
        names = [str(gpu["uuid"] or gpu["pci_bus_id"]) for gpu in gpus]
        code, text = self._call("-i", ",".join(names), option, *([] if value is None else [value]))
        return [_outcome(code, text, gpu["pci_bus_id"]) for gpu in gpus]

    def _call(self, *args: str) -> tuple[int, str]:
        try:
            code, out, err = self._run([self._executable, *args])
        except CommandTimeout as exc:
            raise NvidiaSmiError("timeout", f"{exc}; a GPU or the driver hangs, see the kernel log") from exc
        except CommandMissing as exc:
            raise NvidiaSmiError("not_installed", f"{exc}; install the NVIDIA driver") from exc
        return code, out + (f"\n{err}" if err.strip() else "")


def _outcome(code: int, text: str, address: str | None) -> Outcome:
    """Find the lines about one GPU; a problem in a line that names no GPU concerns all of them."""
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
