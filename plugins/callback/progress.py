# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Says what runs now, and what a run did."""

from __future__ import annotations

DOCUMENTATION = r"""
name: progress
type: aggregate
short_description: Show what runs now, the time of the last run, and a summary
version_added: 0.3.0
author: [HPC AI Infrastructure Team (@hpcai)]
description:
  - Shows the time so far, the task that runs now, and how long the last run of the playbook with the same options took.
  - On a terminal, one line stays in the last row, in a log one is printed each minute. A summary follows.
  - Everything is written to standard error. Standard output stays as it is.
  - The seconds of the last run are in C($XDG_CACHE_HOME/gpucluster/progress), or C(~/.cache/gpucluster/progress).
options:
  output:
    description: V(auto) keeps a line on a terminal, else as V(log). V(summary) prints no lines, V(none) nothing at all.
    type: str
    choices: [auto, log, summary, none]
    default: auto
    env: [{name: GPUCLUSTER_PROGRESS}]
    ini: [{section: callback_progress, key: output}]
  log_seconds:
    description: Seconds between two lines in a log.
    type: int
    default: 60
    env: [{name: GPUCLUSTER_PROGRESS_SECONDS}]
    ini: [{section: callback_progress, key: log_seconds}]
"""

import atexit
import contextlib
import functools
import hashlib
import json
import os
import re
import tempfile
import threading
import time
import typing as t
from pathlib import Path

from ansible import context
from ansible.plugins.callback import CallbackBase

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import words
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import hostlist

_STDERR = 2
_STEP = "Next step:"
_SAYS_NOTHING = ("non-zero return code", "MODULE FAILURE", "Module result", "One or more items", "All items completed")
_OPTIONS = ("inventory", "subset", "tags", "skip_tags", "check", "start_at_task")


def duration(seconds: float) -> str:
    """Return seconds as people say them: C(8 s), C(1 min 20 s), C(2 h 5 min)."""
    minutes, rest = divmod(max(round(seconds), 0), 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def plain(text: str, most: int | None = None) -> str:
    """Return a text in one line of printable ASCII, at most so many characters of it; it cannot move a cursor."""
    line = re.sub(r"[^ -~]", "?", " ".join((text if most is None else text[: 10 * most]).split()))
    return line if most is None or len(line) <= most else f"{line[: most - 3]}..."


def count(number: int, what: str) -> str:
    """Return C(1 task) or C(2 tasks)."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def reason(result: t.Mapping[str, t.Any]) -> str:
    """Return in one line why a task failed. The cause may be cut, the next step never."""
    items = result.get("results")
    for item in items if isinstance(items, list) else []:
        if isinstance(item, dict) and (item.get("failed") or item.get("unreachable")):
            return reason(item)
    said = [str(result[name]) for name in ("msg", "censored", "assertion", "reason") if result.get(name)]
    if not said or said[0].startswith(_SAYS_NOTHING):
        printed = (str(result.get(name) or "") for name in ("stderr", "module_stderr", "stdout", "module_stdout"))
        parts = [text.partition(_STEP) for text in printed if text.strip()]
        said = ["".join([*why.rstrip()[-2000:].splitlines()[-1:], " ", *step]) for why, *step in parts] + said
    why, step, what = (said[0] if said else "no reason given").partition(_STEP)
    return f"{plain(why, 200)} {step} {plain(what)}".strip()


def state_file(playbook: str, options: t.Any) -> Path:
    """Return the file with the seconds of the last run of a playbook with options."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "gpucluster/progress"
    return (
        base / hashlib.sha256(json.dumps([os.path.realpath(playbook), options], default=str).encode()).hexdigest()[:16]
    )


def last_seconds(file: Path) -> float:
    """Return the seconds of the last run, and 0 where the file is missing, cut, old or of another form."""
    try:
        with file.open(encoding="utf-8") as stream:
            seconds = float(json.loads(stream.read(1000))["seconds"])
        return seconds if 0 < seconds < 1e7 and abs(time.time() - file.stat().st_mtime) < 90 * 86400 else 0.0
    except (OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return 0.0


def remember(file: Path, seconds: float) -> None:
    """Replace the seconds of the last run; only the owner can read them. A cache may be read-only."""
    with contextlib.suppress(OSError):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=file.parent, prefix=".", encoding="utf-8", delete=False) as partial:
            json.dump({"seconds": round(seconds, 1)}, partial)
        Path(partial.name).replace(file)


def _grouped(found: t.Mapping[str, t.Any]) -> list[tuple[t.Any, str]]:
    groups: dict[t.Any, list[str]] = {}
    for host, value in found.items():
        groups.setdefault(tuple(dict.fromkeys(value)) if isinstance(value, list) else value, []).append(host)
    try:
        return [(value, plain(hostlist.compress(hosts), 100)) for value, hosts in groups.items()]
    except hostlist.HostlistError:
        return [(value, plain(", ".join(hosts), 100)) for value, hosts in groups.items()]


def wants_line(descriptor: int, environment: t.Mapping[str, str]) -> bool:
    """Return whether a line can stay on a terminal. AWX, ansible-runner and CI systems have terminals that are logs."""
    log = any(environment.get(name) for name in ("AWX_ISOLATED_DATA_DIR", "JOB_ID", "CI"))
    return os.isatty(descriptor) and not log and environment.get("TERM", "dumb") not in ("", "dumb", "unknown")


class _Line:
    """The last row of a terminal, which scrolls only the rows above it (DECSTBM). So it does not matter who prints."""

    size: tuple[int, int] | None = None

    def show(self, text: str) -> None:
        try:
            columns, rows = os.get_terminal_size(_STDERR)
            if rows < 6 or columns < 40 or os.tcgetpgrp(_STDERR) != os.getpgrp():
                return self.close()
            reserve = "" if (rows, columns) == self.size else f"\n\x1b7\x1b[1;{rows - 1}r\x1b8\x1b[1A"
            self.size = (rows, columns)
            os.write(_STDERR, f"{reserve}\x1b7\x1b[{rows};1H\x1b[m\x1b[2K{text[: columns - 1]}\x1b8".encode())
        except OSError:
            self.close()

    def close(self) -> None:
        if self.size:
            rows, self.size = self.size[0], None
            with contextlib.suppress(OSError):
                os.write(_STDERR, f"\x1b7\x1b[r\x1b[{rows};1H\x1b[m\x1b[2K\x1b8".encode())


def _guarded(event: t.Callable[..., None]) -> t.Callable[..., None]:
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

    return guarded


class CallbackModule(CallbackBase):
    """Follows the events of a run. Each costs the same for one host and for ten thousand."""

    CALLBACK_VERSION, CALLBACK_NEEDS_ENABLED = 2.0, True
    CALLBACK_TYPE, CALLBACK_NAME = "aggregate", "hpcai.gpucluster.progress"
    clock = staticmethod(time.monotonic)

    def __init__(self, *args: t.Any, **kwargs: t.Any) -> None:
        """Begin without a run."""
        super().__init__(*args, **kwargs)
        self.lock, self.line, self._process = threading.RLock(), _Line(), os.getpid()
        self._over, self._file, self.last = threading.Event(), Path(), 0.0
        self.began = self.since = self.clock()
        self.steps: list[tuple[str, float]] = []
        self.places: dict[str, int] = {}
        self.changed: dict[str, list[int]] = {}
        self.failed: dict[str, str] = {}

    @_guarded
    def v2_playbook_on_start(self, playbook: t.Any) -> None:
        """Read the last run, and begin to show."""
        self._file = state_file(str(playbook._file_name), [context.CLIARGS.get(name) for name in _OPTIONS])
        self.last, output = last_seconds(self._file), self.get_option("output")
        if output in ("auto", "log"):
            line = output == "auto" and wants_line(_STDERR, os.environ)
            pause = 1.0 if line else float(max(self.get_option("log_seconds"), 1))
            atexit.register(self.stop)
            threading.Thread(target=self._show, args=(line, pause), daemon=True).start()

    @_guarded
    def v2_playbook_on_play_start(self, play: t.Any) -> None:  # noqa: ARG002
        """Note the play, or its next batch of hosts: its tasks run again."""
        self.places = {}

    @_guarded
    def v2_playbook_on_task_start(self, task: t.Any, is_conditional: bool = False) -> None:  # noqa: ARG002
        """Note the task, handler or cleanup; with the strategy free, it may run already on other hosts."""
        if task._uuid not in self.places:
            self._finish()
            self.places[task._uuid] = len(self.steps)
            self.steps.append((re.split(r" [:|] ", task.get_name())[-1], 0.0))
            self.since = self.clock()

    v2_playbook_on_handler_task_start = v2_playbook_on_cleanup_task_start = v2_playbook_on_task_start

    @_guarded
    def v2_runner_on_ok(self, result: t.Any) -> None:
        """Note what changed."""
        if result.is_changed() and result.task._uuid in self.places:
            self.changed.setdefault(result.host.name, []).append(self.places[result.task._uuid])

    @_guarded
    def v2_runner_on_failed(self, result: t.Any, ignore_errors: bool = False) -> None:
        """Note the reason; a later failure of the same host replaces it."""
        if not ignore_errors:
            place = self.places.get(result.task._uuid)
            name = "before the first task" if place is None else plain(self.steps[place][0], 60)
            self.failed[result.host.name] = f"{name}: {reason(result.result)}"

    v2_runner_on_unreachable = v2_runner_on_failed

    @_guarded
    def v2_playbook_on_stats(self, stats: t.Any) -> None:
        """Record the run, and print the summary."""
        self.stop()
        seconds, unknown = self._finish(), "another machine failed, or the output is above"
        failed = {host: self.failed.get(host, unknown) for host in [*stats.failures, *stats.dark]}
        if not failed:  # a run that a failure cut short is no example for later ones
            remember(self._file, seconds)
        if self.get_option("output") != "none" and self.steps:
            self._print(self.summary(seconds, len(stats.processed), failed))

    def _finish(self) -> float:
        if self.steps:
            self.steps[-1] = (self.steps[-1][0], self.clock() - self.since)
        return self.clock() - self.began

    def words(self) -> str:
        """Return the line: C(Progress: 6 min 2 s; now: Compile Slurm (for 5 min); last run: 9 min)."""
        now = self.clock()
        line = f"now: {plain(self.steps[-1][0], 50)}" if self.steps else "starting"
        line += f" (for {duration(now - self.since)})" if self.steps and now - self.since >= 10 else ""
        line += f"; last run: {duration(self.last)}" if self.last else ""
        return f"Progress: {duration(now - self.began)}; {line}"

    def summary(self, seconds: float, machines: int, failed: t.Mapping[str, str]) -> list[str]:
        """Return what a person reads after a run. No line looks like one that Ansible prints."""
        head = f"Summary: {count(len(self.steps), 'task')} in {duration(seconds)} on {count(machines, 'machine')}"
        left = machines - len(self.changed)
        end = (f"; {left} unchanged" if left > 0 else "") if self.changed else "; nothing changed"
        changes = []
        for places, hosts in _grouped(self.changed):
            tasks = list(dict.fromkeys(plain(self.steps[place][0], 60) for place in places))
            changes.append(f"  changed {hosts}: {count(len(places), 'task')}: {words.listed(tasks, most=8)}")
        causes = [f"  failed {hosts}: {why}" for why, hosts in _grouped(failed)]
        slow = sorted(self.steps, key=lambda step: -step[1])[:5] if seconds >= 10 else []
        return [
            f"{head}{end}.",
            *changes[:20],
            *([f"  {words.more(changes, 20)} groups"] if changes[20:] else []),
            *(f"  slow {duration(spent)}: {plain(name, 80)}" for name, spent in slow if spent >= 1),
            *causes[:40],
            *([f"  {words.more(causes, 40)} reasons"] if causes[40:] else []),
        ]

    def _show(self, line: bool, pause: float) -> None:
        while not self._over.wait(pause):
            self._tick(line)

    @_guarded
    def _tick(self, line: bool) -> None:
        if not self._over.is_set():
            self.line.show(plain(self.words())) if line else self._print([self.words()])

    def stop(self) -> None:
        """End the display, and give the terminal back."""
        if os.getpid() == self._process:
            self._over.set()
            with self.lock:
                self.line.close()

    def _print(self, lines: list[str]) -> None:
        for line in lines:
            self._display.display(("  " if line.startswith("  ") else "") + plain(line), stderr=True)
