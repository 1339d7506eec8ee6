# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This package is PRIVATE to the collection. It may change or vanish at any time.
"""The runs of a playbook, in one small file for each playbook."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hashlib
import json
import os
import re
import tempfile
import time
import typing as t
from pathlib import Path

if t.TYPE_CHECKING:
    from collections.abc import Iterator

VERSION = 1
# Bounds of what is kept: files, runs of each kind in a file, tasks of a run, characters of a name.
MOST_FILES = 40
MOST_RUNS = 4
MOST_STEPS = 2000
MOST_CHARACTERS = 100
_LOCK_SECONDS = 2.0
SHIPPED = Path(__file__).with_name("site.json")

Key = tuple[str, str]


@dataclasses.dataclass
class Step:
    """One task of a play: the seconds that it took on all hosts, and whether a host changed."""

    play: str
    task: str
    seconds: float
    changed: bool = False

    @property
    def key(self) -> Key:
        """The names by which the task is found in other runs."""
        return self.play, self.task


@dataclasses.dataclass
class Run:
    """
    The tasks of a run in their order.

    C(options) is a digest of inventory, limit, tags and check mode; C(kind) names those that are set.
    """

    steps: list[Step]
    options: str = ""
    kind: str = ""

    @property
    def changes(self) -> bool:
        """Whether many tasks changed a host, as in a first run."""
        return sum(step.changed for step in self.steps) * 20 > len(self.steps)

    def as_data(self) -> dict[str, t.Any]:
        """Return the run as JSON data, with the name of each play once."""
        plays: list[tuple[str, list[t.Any]]] = []
        for step in self.steps:
            if not plays or plays[-1][0] != step.play:
                plays.append((step.play, []))
            plays[-1][1].append([step.task, round(step.seconds, 2), int(step.changed)])
        return {"options": self.options, "kind": self.kind, "plays": plays}


def run_of(data: t.Any) -> Run:
    """Return the run of JSON data; raises TypeError, ValueError and KeyError where it is not one."""
    steps = [
        Step(str(play), str(task), float(seconds), bool(changed))
        for play, tasks in data["plays"]
        for task, seconds, changed in tasks
    ]
    if not all(0 <= step.seconds < 1e7 for step in steps):
        raise ValueError("seconds")
    return Run(steps[:MOST_STEPS], str(data["options"]), str(data["kind"]))


def read(path: Path) -> list[Run]:
    """Return the runs of a file, the newest first; a file that is missing, damaged or of another version has none."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return [run_of(one) for one in data["runs"]] if data["version"] == VERSION else []
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return []


def directory() -> Path:
    """Return where the runs are kept, C($XDG_CACHE_HOME/gpucluster/progress)."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "gpucluster" / "progress"


def path_of(playbook: str, where: Path) -> Path:
    """Return the file of a playbook's runs."""
    name = re.sub(r"[^A-Za-z0-9_.-]", "_", Path(playbook).stem)[:60]
    digest = hashlib.sha256(os.path.realpath(playbook).encode("utf-8", "surrogateescape")).hexdigest()[:8]
    return where / f"{name}-{digest}.json"


def kept(runs: list[Run]) -> list[Run]:
    """Return the runs to keep of a list, the newest first: some that changed much, and some that did not."""
    count = {True: 0, False: 0}
    left = []
    for run in runs:
        count[run.changes] += 1
        if count[run.changes] <= MOST_RUNS:
            left.append(run)
    return left


def add(path: Path, run: Run) -> bool:
    """Add a run to a file; return whether that was possible. Two that add at the same time wait for each other."""
    if not 0 < len(run.steps) <= MOST_STEPS:
        return False
    for step in run.steps:
        step.play, step.task = step.play[:MOST_CHARACTERS], step.task[:MOST_CHARACTERS]
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _locked(path.parent / ".lock") as locked:
            if locked:
                _write(path, kept([run, *read(path)]))
                _remove_old(path.parent)
            return locked
    except OSError:
        return False


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[bool]:
    """Hold a lock between processes; yields False where another process holds it for too long."""
    deadline = time.monotonic() + _LOCK_SECONDS
    with path.open("w", encoding="utf-8") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    yield False
                    return
                time.sleep(0.05)
            else:
                yield True
                return


def _write(path: Path, runs: list[Run]) -> None:
    """Replace a file, so that who reads it sees the old or the new one."""
    text = json.dumps({"version": VERSION, "runs": [run.as_data() for run in runs]}, separators=(",", ":"))
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=".", delete=False, encoding="utf-8") as file:
        try:
            file.write(text)
            file.close()
            Path(file.name).replace(path)
        except OSError:
            Path(file.name).unlink(missing_ok=True)
            raise


def _remove_old(where: Path) -> None:
    """Remove the files of the playbooks that ran longest ago, beyond the number that is kept."""
    files = sorted(where.glob("*.json"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in files[MOST_FILES:]:
        path.unlink(missing_ok=True)
