# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This package is PRIVATE to the collection. It may change or vanish at any time.
"""The last run of a playbook with the same options, and the time that the present run still needs by it."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
import tempfile
import typing as t
from pathlib import Path

MOST_FILES = 40
MOST_STEPS = 2000
# The pace of this run is that of its tasks so far, once the last run had spent this many seconds on them.
PACE_SECONDS = 5.0
SLOWEST, FASTEST = 6.0, 1 / 6


class Step(t.NamedTuple):
    """A task of a run, and the seconds that it took on all hosts."""

    name: str
    seconds: float


class Left(t.NamedTuple):
    """Seconds that are left, tasks that are left after the present one, and the seconds of the present one."""

    seconds: float
    tasks: int
    present: float


class LastRun:
    """Follows the present run in the last one, task by task."""

    def __init__(self, steps: list[Step]) -> None:
        """Begin before the first task; without steps, nothing is known."""
        self.steps = steps
        self._until = [*itertools.accumulate((step.seconds for step in steps), initial=0.0)]
        self._place, self._known = -1, False

    def start(self, name: str) -> None:
        """Go to the next task of this name. A task that the last run did not have changes nothing."""
        later = (place for place in range(self._place + 1, len(self.steps)) if self.steps[place].name == name)
        place = next(later, None)
        self._known = place is not None
        self._place = self._place if place is None else place

    def left(self, before: float, present: float) -> Left | None:
        """Return what is left, by the seconds before the present task, and those in it."""
        if self._place < 0:
            return None
        spent = self._until[self._place]
        pace = min(max(before / spent, FASTEST), SLOWEST) if spent >= PACE_SECONDS else 1.0
        usual = self.steps[self._place].seconds * pace if self._known else present
        after = (self._until[-1] - self._until[self._place + 1]) * pace
        return Left(max(usual - present, 0.0) + after, len(self.steps) - self._place - 1, usual)


def path(playbook: str, options: t.Any) -> Path:
    """Return the file of a playbook with options, below C($XDG_CACHE_HOME/gpucluster/progress)."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "gpucluster" / "progress"
    name = re.sub(r"[^A-Za-z0-9_.-]", "_", Path(playbook).stem)[:60]
    shape = json.dumps([os.path.realpath(playbook), options], default=str)
    return base / f"{name}-{hashlib.sha256(shape.encode()).hexdigest()[:8]}.json"


def read(file: Path) -> LastRun:
    """Return the run of a file. A file that is missing or damaged has none."""
    try:
        steps = [Step(str(name), float(seconds)) for name, seconds in json.loads(file.read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError, RecursionError):
        steps = []
    return LastRun(steps if all(0 <= step.seconds < 1e7 for step in steps) else [])


def write(file: Path, steps: list[Step]) -> None:
    """Replace the run of a file, so that who reads it sees the old or the new one. A cache may be read-only."""
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=file.parent, prefix=".", encoding="utf-8", delete=False) as partial:
            json.dump([[name[:100], round(seconds, 2)] for name, seconds in steps[:MOST_STEPS]], partial)
        Path(partial.name).replace(file)
        files = sorted(file.parent.glob("*.json"), key=lambda one: one.stat().st_mtime)
        for old in files[:-MOST_FILES]:
            old.unlink(missing_ok=True)
    except OSError:
        return
