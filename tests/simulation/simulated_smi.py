# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The simulated nvidia-smi as an injected runner, for unit tests."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.tests.simulation.nvidia_simulation import cli

if t.TYPE_CHECKING:
    from collections.abc import Sequence


class SimulatedSmi:
    """Answer like nvidia-smi of a described machine, keep what was set, and note every call."""

    def __init__(self, **config: t.Any) -> None:
        self.config = config
        self.state: dict[str, t.Any] = {}
        self.calls: list[list[str]] = []

    def __call__(self, args: Sequence[str]) -> tuple[int, str, str]:
        """Answer one call."""
        self.calls.append(list(args[1:]))
        code, text = cli.run(list(args[1:]), self.config, self.state)
        return code, text, ""

    def faults(self, **faults: t.Any) -> None:
        """Choose what is broken from now on."""
        self.config = {**self.config, "faults": faults}

    @property
    def writes(self) -> list[list[str]]:
        """Return the calls that set something, without the selection of GPUs."""
        return [call[2:] for call in self.calls if call[0] == "-i"]
