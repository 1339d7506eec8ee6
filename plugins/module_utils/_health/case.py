# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""The input of one check: parameters, stored state, and the machine with the readings that checks share."""

from __future__ import annotations

import typing as t

from . import readings
from .verdict import ExplainedError, NotApplicableError, UnhealthyError, UnknownError

if t.TYPE_CHECKING:
    from collections.abc import Callable

    from .machine import Machine

    Reading = t.TypeVar("Reading")


class Shared:
    """Readings that each run takes only once, including those that failed."""

    def __init__(self) -> None:
        """Start without readings."""
        self._taken: dict[str, t.Any] = {}

    def once(self, name: str, read: Callable[[], Reading]) -> Reading:
        """Return the reading of this name, or raise the same exception as the first attempt."""
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
        """Store what the check needs, without reading the machine."""
        self.machine = machine
        self._params = params
        self._keep = keep
        self._shared = shared or Shared()
        self._tools = tools or {}

    def value(self, name: str) -> t.Any:
        """Return a parameter; raise NotApplicableError if it has no value, because then nothing is expected."""
        if name not in self._params:
            raise UnknownError(f"the configuration has no {name}")
        if self._params[name] is None:
            raise NotApplicableError(f"no expectation: {name} is not set")
        return self._params[name]

    def given(self, name: str) -> t.Any:
        """Return a parameter that many configurations do not have, or None."""
        return self._params.get(name)

    def number(self, name: str) -> float:
        """Return a numeric parameter."""
        value = self.value(name)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise UnknownError(f"the configuration's {name} is {value!r}, not a number")
        return value

    def text(self, name: str) -> str:
        """Return a string parameter."""
        value = self.value(name)
        if not isinstance(value, str):
            raise UnknownError(f"the configuration's {name} is {value!r}, not text")
        return value

    def items(self, name: str) -> list[t.Any]:
        """Return a list parameter."""
        value = self.value(name)
        if not isinstance(value, list):
            raise UnknownError(f"the configuration's {name} is {value!r}, not a list")
        return value

    def kept(self) -> dict[str, t.Any]:
        """Return the state that the check stored at its last run since boot."""
        return self._keep if isinstance(self._keep, dict) else {}

    def tool(self, name: str) -> str:
        """Return the configured path of a program, or its name; the configuration may write _ for -."""
        return self._tools.get(name) or self._tools.get(name.replace("-", "_")) or name

    def once(self, name: str, read: Callable[[], Reading]) -> Reading:
        """Return a reading that other checks of this run share."""
        return self._shared.once(name, read)

    def gpus(self) -> list[readings.Gpu]:
        """Return all GPUs; if none answers, only the check gpu_count reports a fault."""
        try:
            return self.all_gpus().gpus
        except (UnhealthyError, UnknownError) as exc:
            raise ExplainedError(f"{exc} (gpu_count judges that)") from exc

    def all_gpus(self) -> readings.Answer:
        """Return all GPUs and warnings; nvidia-smi starts once for all checks of the run."""
        return self.once(
            "gpus", lambda: readings.gpus(self.machine, self.number("timeout_seconds"), self.tool("nvidia-smi"))
        )
