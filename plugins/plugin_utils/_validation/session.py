# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Provide the stages with modules to run, and with what is known about the nodes."""

from __future__ import annotations

import dataclasses
import time
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._slurm import nodes as slurm_nodes
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation import settings as inputs

JOB_NAME = "gpucluster-validate"
# Timeout in seconds of Slurm commands that only read.
_ASK = 60

Result = t.Mapping[str, t.Any]
# Runs a module on the host that submits jobs, and returns its result.
Call = t.Callable[[str, dict[str, t.Any]], Result]


class StoppedError(Exception):
    """A stage cannot continue; the message says why."""


@dataclasses.dataclass
class Nodes:
    """What the stages know about the nodes. Each stage passes it to the next one."""

    known: list[dict[str, t.Any]] = dataclasses.field(default_factory=list)  # all nodes of Slurm before the validation
    meant: list[str] = dataclasses.field(default_factory=list)
    taken: list[str] | None = None  # the chosen nodes; None before the choice
    skipped: dict[str, t.Any] = dataclasses.field(default_factory=dict)

    @property
    def gone(self) -> bool:
        """Return whether nodes were chosen and none of them ran a job."""
        return self.taken is not None and not self.taken


class Session:
    """Runs modules for a stage, and reports progress."""

    def __init__(
        self,
        settings: inputs.Settings,
        nodes: Nodes,
        call: Call,
        say: t.Callable[[str], None],
        pause: t.Callable[[float], None] = time.sleep,
    ) -> None:
        self.settings, self.nodes, self.say, self.pause = settings, nodes, say, pause
        self.submits = False  # whether a job of this stage may be in the queue
        self._call = call

    @property
    def taken(self) -> list[str]:
        """Return the names of the chosen nodes."""
        return self.nodes.taken or []

    @property
    def record(self) -> inputs.Record:
        """Return the hardware record of the nodes."""
        return inputs.record(self.settings, self.taken)

    @property
    def gpus(self) -> int:
        """Return the number of GPUs of each node."""
        counts = [int(node["gpus"]) for node in self.nodes.known if node["name"] in self.taken]
        return int(self.settings["gpus_per_node"] or min(counts, default=0))

    def run(self, module: str, **arguments: t.Any) -> Result:
        """Return the result of a module; a failure ends the stage."""
        found = self._call(module, {name: value for name, value in arguments.items() if value is not None})
        if found.get("failed"):
            raise StoppedError(str(found.get("msg") or "no reason was given"))
        return found

    def ask(self, *command: str) -> Result:
        """Return the output of a Slurm command, regardless of its exit status."""
        found = self._call("ansible.builtin.command", {"argv": ["timeout", "--kill-after=10", str(_ASK), *command]})
        if "rc" not in found:
            raise StoppedError(f"{' '.join(command)}: {found.get('msg') or 'no reason was given'}")
        return found

    def stopped(self, names: t.Sequence[str]) -> str:
        """Return which nodes get no more jobs, with the reason; empty if all do, or if Slurm gives no clear answer."""
        found = self.ask(
            "sinfo", "--Node", "--noheader", f"--nodes={','.join(names)}", f"--format={slurm_nodes.FORMAT}"
        )
        try:
            nodes = slurm_nodes.parse(str(found.get("stdout", ""))) if found["rc"] == 0 else []
        except slurm_nodes.OutputError:
            return ""
        return "; ".join(f"{node.name} is {node.condition}" for node in nodes if node.stopped)

    def job(self, module: str, **arguments: t.Any) -> Result:
        """Return the result of a module that submits a job."""
        self.submits = True
        return self.run(
            module,
            name=JOB_NAME,
            partition=self.settings["partition"] or None,
            time_limit=self.settings["time_limit"],
            pending_timeout=self.settings["pending_timeout"],
            submit_options=self.settings["submit_options"],
            **arguments,
        )

    def cancel(self) -> None:
        """Cancel all jobs with this name, such as those of an interrupted run."""
        self.run("hpcai.gpucluster.slurm_job", name=JOB_NAME, state="absent")
