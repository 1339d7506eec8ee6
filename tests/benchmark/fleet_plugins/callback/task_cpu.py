# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Callback of fleet.py: processor time of the control node for each task, hosts that ran it, failures and changes."""

from __future__ import annotations

import json
import os
import resource
import typing as t
from pathlib import Path

from ansible.plugins.callback import CallbackBase

from ansible_collections.hpcai.gpucluster.plugins.callback.progress import reason

DOCUMENTATION = """
name: task_cpu
type: aggregate
short_description: Measure the processor time of tasks on the control node
description: For tests/benchmark/fleet.py.
author: HPC AI Infrastructure Team (@hpcai)
"""


def spent() -> float:
    """Return the processor time of this process and of its children that ended, in seconds."""
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in both)


class CallbackModule(CallbackBase):
    """Write the figures at the end of the run."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "task_cpu"

    def __init__(self, *args: t.Any, **options: t.Any) -> None:
        """Start with what Ansible has spent on the inventory and on reading the playbook."""
        super().__init__(*args, **options)
        self._rows: list[dict[str, t.Any]] = []
        self._next("(start)")
        self._rows[0]["begin"] = 0.0

    def _next(self, name: str) -> None:
        total = spent()
        if self._rows:
            self._rows[-1]["cpu"] = total - self._rows[-1]["begin"]
        self._rows.append(
            {"task": name, "begin": total, "cpu": 0.0, "ran": 0, "skipped": 0, "failed": {}, "changed": []}
        )

    def v2_playbook_on_play_start(self, play: t.Any) -> None:
        """Count what comes before the first task to the play."""
        self._next(f"PLAY {play.get_name()}")

    def v2_playbook_on_task_start(self, task: t.Any, is_conditional: bool) -> None:
        """Begin a task."""
        self._next(task.get_name())

    def v2_runner_on_ok(self, result: t.Any) -> None:
        """Count a host that ran the task."""
        self._rows[-1]["ran"] += 1
        if result.is_changed():
            self._rows[-1]["changed"].append(result.host.name)

    def v2_runner_on_failed(self, result: t.Any, ignore_errors: bool = False) -> None:
        """Note why the task failed, also where the playbook goes on: nothing fails on a finished node."""
        self._rows[-1]["failed"][result.host.name] = reason(result.result)

    def v2_runner_on_unreachable(self, result: t.Any) -> None:
        """Note why the host is unreachable."""
        self._rows[-1]["failed"][result.host.name] = reason(result.result)

    def v2_runner_on_skipped(self, result: t.Any) -> None:
        """Count a host that skipped the task."""
        self._rows[-1]["skipped"] += 1

    def v2_playbook_on_stats(self, stats: t.Any) -> None:
        """Write the rows."""
        self._next("(end)")
        Path(os.environ["FLEET_TASKS"]).write_text(json.dumps(self._rows), encoding="utf-8")
