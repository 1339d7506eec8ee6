# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Define the report about the GPUs of a machine, independent of its source."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia import values
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import words

Gpu = t.Dict[str, t.Any]  # noqa: UP006 - evaluated at run time, also on Python 3.9
Known = t.TypeVar("Known")


class ParseError(Exception):
    """The output does not have the form of nvidia-smi."""


class Report(t.NamedTuple):
    """The machine as nvidia-smi reports it."""

    driver_version: str | None
    cuda_version: str | None
    attached: int | None
    gpus: list[Gpu]
    lost: list[dict[str, t.Any]]
    notes: list[str]


# "... for GPU 0000:0A:00.0: GPU is lost" of old drivers, "... for GPU3: 0000:0A:00.0: Unknown Error" of new ones.
_LOST = "unable to determine the device handle for gpu"


def split_notes(lines: t.Iterable[str]) -> tuple[list[dict[str, t.Any]], list[str]]:
    """Return lost GPUs and other notes (warnings) from the lines that are not data."""
    lost, notes = [], []
    for line in filter(None, (line.strip() for line in lines)):
        if line.lower().startswith(_LOST):
            addresses = values.bus_ids(line)
            reason = line.rsplit(":", 1)[-1].strip()
            lost.append({"pci_bus_id": addresses[0] if addresses else None, "reason": reason})
        else:
            notes.append(line)
    return lost, notes


class Cells:
    """The values of one GPU by name. What is no value stands in I(odd), and counts as unknown."""

    def __init__(self, text: t.Callable[[str], str | None]) -> None:
        """Store a function that returns the text of a value by its name, or None."""
        self._text = text
        self.odd: list[str] = []

    def text(self, name: str) -> str | None:
        """Return a value as printed."""
        return self._text(name)

    def number(self, name: str, unit: str = "") -> float | None:
        """Return a number."""
        return self.known(name, self.text(name), lambda text: values.number(text, unit, name))

    def integer(self, name: str, unit: str = "") -> int | None:
        """Return an integer."""
        return self.known(name, self.text(name), lambda text: values.integer(text, unit, name))

    def flag(self, name: str) -> bool | None:
        """Return whether a feature is enabled."""
        return self.known(name, self.text(name), values.flag)

    def word(self, name: str) -> str | None:
        """Return a string."""
        return self.known(name, self.text(name), values.word)

    def read(self, name: str, form: t.Callable[[str | None], Known | None]) -> Known | None:
        """Return a value of another form."""
        return self.known(name, self.text(name), form)

    def known(self, name: str, text: str | None, read: t.Callable[[str | None], Known | None]) -> Known | None:
        """Return what a function reads from a text. Remember a text that is neither a value nor missing."""
        value = read(text)
        if value is None and not values.is_missing(text):
            self.odd.append(f"{name} is {(text or '')[:60]!r}, not understood")
        return value


def odd_notes(gpus: t.Iterable[tuple[Gpu, Cells]]) -> list[str]:
    """Return a note for each GPU with values that could not be read."""
    return [f"GPU {gpu['pci_bus_id'] or gpu['uuid']}: {words.listed(cells.odd, 4)}" for gpu, cells in gpus if cells.odd]


def best_clocks(supported: dict[int, list[int]]) -> dict[str, int] | None:
    """Return the highest memory clock and the highest graphics clock that the GPU supports with it."""
    usable = {memory: graphics for memory, graphics in supported.items() if graphics}
    if not usable:
        return None
    memory = max(usable)
    return {"memory": memory, "graphics": max(usable[memory])}


def application_state(text: str | None, clock: int | None) -> str:
    """Return the state of application clocks on this GPU and driver: available, deprecated or unsupported."""
    if values.is_deprecated(text):
        return "deprecated"
    return "unsupported" if clock is None and values.is_absent(text) else "available"
