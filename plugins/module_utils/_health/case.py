# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""What one check gets: its parameters, what it kept, and the machine with readings that checks share."""

from __future__ import annotations

import typing as t

from . import readings
from .verdict import ExplainedError, NotApplicableError, UnhealthyError, UnknownError

if t.TYPE_CHECKING:
    from collections.abc import Callable

    from .machine import Machine

    Reading = t.TypeVar("Reading")


class Shared:
    """Readings that are taken once per run, failures included."""

    def __init__(self) -> None:
        """Start with nothing read."""
        self._taken: dict[str, t.Any] = {}

    def once(self, name: str, read: Callable[[], Reading]) -> Reading:
        """Return the reading of this name, or raise what it raised the first time."""
        if name not in self._taken:
            try:
                self._taken[name] = read()
            except Exception as exc:
                self._taken[name] = exc
        taken = self._taken[name]
        if isinstance(taken, Exception):
            raise taken
        return t.cast("Reading", taken)


class Case:
    """One check of one run."""

    def __init__(
        self,
        machine: Machine,
        params: dict[str, t.Any],
        keep: t.Any = None,
        shared: Shared | None = None,
        tools: dict[str, str] | None = None,
    ) -> None:
        """Take what the check needs; nothing here reads the machine."""
        self.machine = machine
        self._params = params
        self._keep = keep
        self._shared = shared or Shared()
        self._tools = tools or {}

    def value(self, name: str) -> t.Any:
        """Return a parameter; one without a value means that nothing is expected here."""
        if name not in self._params:
            raise UnknownError(f"the configuration has no {name}")
        if self._params[name] is None:
            raise NotApplicableError(f"no expectation: {name} is not set")
        return self._params[name]

    def number(self, name: str) -> float:
        """Return a numeric parameter."""
        value = self.value(name)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise UnknownError(f"the configuration's {name} is {value!r}, not a number")
        return value

    def text(self, name: str) -> str:
        """Return a parameter that is text."""
        value = self.value(name)
        if not isinstance(value, str):
            raise UnknownError(f"the configuration's {name} is {value!r}, not text")
        return value

    def items(self, name: str) -> list[t.Any]:
        """Return a parameter that is a list."""
        value = self.value(name)
        if not isinstance(value, list):
            raise UnknownError(f"the configuration's {name} is {value!r}, not a list")
        return value

    def kept(self) -> dict[str, t.Any]:
        """Return what the check kept at its last run of this boot."""
        return self._keep if isinstance(self._keep, dict) else {}

    def tool(self, name: str) -> str:
        """Return the path of a program; its name when no path is configured, which may have _ for -."""
        return self._tools.get(name) or self._tools.get(name.replace("-", "_")) or name

    def once(self, name: str, read: Callable[[], Reading]) -> Reading:
        """Return a reading that other checks of this run share."""
        return self._shared.once(name, read)

    def gpus(self) -> list[readings.Gpu]:
        """Return all GPUs for a check of theirs; that none answers is the finding of one check, not of all."""
        try:
            return self.all_gpus().gpus
        except (UnhealthyError, UnknownError) as exc:
            raise ExplainedError(f"{exc} (gpu_count judges that)") from exc

    def all_gpus(self) -> readings.Answer:
        """Return all GPUs and warnings; one start of nvidia-smi serves every check of the run."""
        return self.once(
            "gpus", lambda: readings.gpus(self.machine, self.number("timeout_seconds"), self.tool("nvidia-smi"))
        )
