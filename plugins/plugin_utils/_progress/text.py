# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This package is PRIVATE to the collection. It may change or vanish at any time.
"""How the figures of a run are printed: seconds, names of tasks, and lines that cannot disturb a terminal."""

from __future__ import annotations

import re

_WORD = re.compile(r"\s+")


def duration(seconds: float) -> str:
    """Return seconds as people say them: C(8 s), C(1 min 20 s), C(2 h 5 min)."""
    whole = max(round(seconds), 0)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min" + (f" {whole % 60} s" if whole % 60 else "")
    minutes = round(whole / 60)
    return f"{minutes // 60} h" + (f" {minutes % 60} min" if minutes % 60 else "")


def part_of(spent: float, expected: float) -> str:
    """Return how far a task is, in one unit: C(5 of about 6 min)."""
    if expected >= 120:
        return f"{round(spent / 60)} of about {round(expected / 60)} min"
    return f"{round(spent)} of about {round(expected)} s"


def plain(text: str, most: int) -> str:
    """Return a text in one line of printable ASCII with at most so many characters; it cannot move a cursor."""
    line = _WORD.sub(" ", text).strip()
    line = "".join(char if " " <= char <= "~" else "?" for char in line)
    return line if len(line) <= most else line[: max(most - 3, 0)] + "..."


def count(number: int, what: str) -> str:
    """Return C(1 task) or C(2 tasks)."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def short_name(task: str) -> str:
    """Return the name of a task without its role and its file: C(slurm : Build | Compile Slurm) is C(Compile Slurm)."""
    return task.rpartition(" : ")[2].rpartition(" | ")[2] or task
