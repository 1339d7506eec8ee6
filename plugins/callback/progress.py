# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Says how far a run is, and what it did."""

from __future__ import annotations

DOCUMENTATION = r"""
name: progress
type: aggregate
short_description: Show the progress of a run, the time that is left, and a summary
version_added: 0.3.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Shows how many tasks of a run are done, the time that is left, and which task runs now. It works beside any other
    output of Ansible.
  - On a terminal, one line stays in the last row. In a log, one line is printed each minute.
  - The time that is left follows from the last run of the same playbook with the same options.
  - After the run, a summary says which tasks changed something on which machines, which tasks were the slowest, and why
    machines failed.
  - Everything is written to standard error. Standard output stays as it is.
  - That run is in C($XDG_CACHE_HOME/gpucluster/progress), or C(~/.cache/gpucluster/progress), as the names of its tasks
    with their seconds. Variables and results are not stored.
requirements:
  - Enable it with C(callbacks_enabled = hpcai.gpucluster.progress) in ansible.cfg.
options:
  output:
    description:
      - V(auto) keeps a line on a terminal, and prints one line each minute elsewhere.
      - V(log) prints one line each minute also on a terminal.
      - V(summary) prints the summary only.
      - V(none) prints nothing. The run is recorded nevertheless.
    type: str
    choices: [auto, log, summary, none]
    default: auto
    env:
      - name: GPUCLUSTER_PROGRESS
    ini:
      - section: callback_progress
        key: output
  log_seconds:
    description: Seconds between two lines in a log.
    type: int
    default: 60
    env:
      - name: GPUCLUSTER_PROGRESS_SECONDS
    ini:
      - section: callback_progress
        key: log_seconds
"""

EXAMPLES = r"""
# In ansible.cfg:
# [defaults]
# callbacks_enabled = hpcai.gpucluster.progress
"""

import atexit
import functools
import os
import threading
import time
import typing as t
from pathlib import Path

from ansible import context
from ansible.plugins.callback import CallbackBase

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._progress import last_run, screen, summary, text
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._progress.tracker import Tracker

if t.TYPE_CHECKING:
    from collections.abc import Callable

_STDERR = 2
_WIDTH = 1000
_Event = t.TypeVar("_Event", bound="Callable[..., None]")


def _guarded(event: _Event) -> _Event:
    """Give up in silence where something is wrong with the progress: it must never disturb a run."""

    @functools.wraps(event)
    def guarded(self: CallbackModule, *args: t.Any, **kwargs: t.Any) -> None:
        try:
            with self.lock:
                event(self, *args, **kwargs)
        except Exception as exc:  # whatever it is, the run goes on
            self.disabled = True
            self.stop()
            self._display.vvv(f"progress: {type(exc).__name__}: {exc}")

    return t.cast("_Event", guarded)


class CallbackModule(CallbackBase):
    """Follows the events of a run. What is shown is decided in _progress."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "hpcai.gpucluster.progress"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self, *args: t.Any, **kwargs: t.Any) -> None:
        """Begin without a run."""
        super().__init__(*args, **kwargs)
        self.lock = threading.RLock()
        self.tracker = Tracker(time.monotonic)
        self.line: screen.Line | None = None
        self._over = threading.Event()
        self._drawing = threading.Lock()
        self._file = Path()
        self._process = os.getpid()

    # The run

    @_guarded
    def v2_playbook_on_start(self, playbook: t.Any) -> None:
        """Read the last run, and begin to show."""
        self._file = last_run.path(str(playbook._file_name), _options())
        self.tracker.last = last_run.read(self._file)
        self._begin_to_show()

    @_guarded
    def v2_playbook_on_play_start(self, play: t.Any) -> None:  # noqa: ARG002
        """Note the play."""
        self.tracker.play()

    @_guarded
    def v2_playbook_on_task_start(self, task: t.Any, is_conditional: bool) -> None:  # noqa: ARG002
        """Note the task."""
        self.tracker.task(task._uuid, task.get_name())

    @_guarded
    def v2_playbook_on_handler_task_start(self, task: t.Any) -> None:
        """Note the handler."""
        self.tracker.task(task._uuid, task.get_name())

    @_guarded
    def v2_playbook_on_cleanup_task_start(self, task: t.Any) -> None:
        """Note the task."""
        self.tracker.task(task._uuid, task.get_name())

    # What hosts return

    @_guarded
    def v2_runner_on_ok(self, result: t.Any) -> None:
        """Note what changed."""
        self.tracker.result(result.host.name, result.task._uuid, result.is_changed())

    @_guarded
    def v2_runner_on_skipped(self, result: t.Any) -> None:
        """Note the host."""
        self.tracker.result(result.host.name, result.task._uuid, False)

    @_guarded
    def v2_runner_on_failed(self, result: t.Any, ignore_errors: bool = False) -> None:
        """Note the reason."""
        self.tracker.result(result.host.name, result.task._uuid, False)
        if not ignore_errors:
            self.tracker.failure(result.host.name, summary.reason(result.result))

    @_guarded
    def v2_runner_on_unreachable(self, result: t.Any) -> None:
        """Note the reason."""
        self.tracker.result(result.host.name, result.task._uuid, False)
        self.tracker.failure(result.host.name, summary.reason(result.result))

    @_guarded
    def v2_runner_item_on_ok(self, result: t.Any) -> None:
        """Note the item of a loop."""
        self.tracker.item(result.host.name)

    @_guarded
    def v2_runner_item_on_failed(self, result: t.Any) -> None:
        """Note the item of a loop."""
        self.tracker.item(result.host.name)

    @_guarded
    def v2_playbook_on_stats(self, stats: t.Any) -> None:
        """Record the run, and print the summary."""
        self.stop()
        seconds = self.tracker.finish()
        failed = {
            host: self.tracker.failed.get(host, "another machine failed, or the output is above")
            for host in [*stats.failures, *stats.dark]
        }
        # A run that a failure cut short is no example for later ones.
        if not failed or len(self.tracker.steps) >= len(self.tracker.last.steps) > 0:
            last_run.write(self._file, self.tracker.steps)
        if self.get_option("output") != "none" and self.tracker.steps:
            self._print(summary.lines(self.tracker.steps, seconds, len(stats.processed), self.tracker.changed, failed))

    # The output

    def _begin_to_show(self) -> None:
        output = self.get_option("output")
        if output in ("none", "summary"):
            return
        if output == "auto" and screen.wants_line(_STDERR, os.environ):
            self.line = screen.Line(_STDERR)
            atexit.register(self.stop)
        threading.Thread(target=self._show, name="progress", daemon=True).start()

    def _show(self) -> None:
        """Show the line until the run is over; this is the body of the only thread that writes while tasks run."""
        pause = 1.0 if self.line else float(max(self.get_option("log_seconds"), 1))
        while not self._over.wait(pause):
            with self.lock:
                words = f"Progress: {self.tracker.words()}"
            if not self.line:
                self._print([words])
            else:
                self._draw(words)

    def _draw(self, words: str) -> None:
        with self._drawing:
            if self.line and not self._over.is_set():
                self.line.show(words)

    def stop(self) -> None:
        """End the display, and give the terminal back."""
        if os.getpid() != self._process:
            return
        self._over.set()
        with self._drawing:
            if self.line:
                self.line.close()

    def _print(self, lines: list[str]) -> None:
        for line in lines:
            indent = "  " if line.startswith("  ") else ""
            self._display.display(indent + text.plain(line, _WIDTH), stderr=True)


def _options() -> list[t.Any]:
    """Return the options that shape a run."""
    names = ("inventory", "subset", "tags", "skip_tags", "check", "start_at_task")
    return [context.CLIARGS.get(name) for name in names]
