# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This package is PRIVATE to the collection. It may change or vanish at any time.
"""
How far a long step is, from the inside: what it has written, compared with what it will have written.

The action looks from the process of a worker, and the callback shows it from the main process. Both know one directory
that Ansible creates for a run and removes after it, so a small file there is all that they share.
"""

from __future__ import annotations

import itertools
import json
import os
import typing as t

if t.TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MARK = "GPUCLUSTER_LONG_STEP"
MOST_PAUSE = 15.0
_LOOK_SECONDS = 10


def pauses() -> Iterator[float]:
    """Yield the seconds between two looks: short steps end soon, and long ones are looked at four times a minute."""
    return itertools.chain((1.0, 2.0, 4.0, 8.0), itertools.repeat(MOST_PAUSE))


def command(quoted: str, lines: bool) -> str:
    """Return the command that prints the lines of a file, or the bytes of a file or a directory."""
    if lines:
        return f"timeout {_LOOK_SECONDS} wc -l {quoted} 2>/dev/null"
    return f"timeout {_LOOK_SECONDS} du -sb {quoted} 2>/dev/null"


def kill_command(mark: str) -> str:
    """
    Return the command that kills all processes with a string (name=value) in their environment.

    Ansible kills the process group of a module whose time is over. A process that the module started before Ansible had
    made the group, or that has a session of its own, is not in it. A process may fork while it is looked for, so the
    command looks until it finds none, five times at most.
    """
    find = f"found=$(grep -lszxF {mark} /proc/[0-9]*/environ | cut -d/ -f3)"
    kill = "kill -KILL $found 2>/dev/null; sleep 0.1"
    return f'for i in 1 2 3 4 5; do {find}; [ -n "$found" ] || break; {kill}; done'


def count(printed: str) -> int | None:
    """Return the number that the command printed; a file that does not exist yet has none."""
    words = printed.split()
    return int(words[0]) if words and words[0].isdigit() else None


def words_of(found: int, lines: int, size: int) -> tuple[float, str]:
    """Return the fraction, and words for it; nothing yet has no words, and more than was expected is no fraction."""
    if found <= 0:
        return 0.0, ""
    most = lines or size
    fraction = found / most if found <= most else 0.0
    if lines:
        return fraction, f"line {found:,}" + (f" of about {lines:,}" if fraction else "")
    return fraction, f"{found / 1e9:.1f}" + (f" of about {size / 1e9:.1f} GB" if fraction else " GB")


def path(directory: Path) -> Path:
    """Return the file of the reports of a run."""
    return directory / "gpucluster-progress.json"


def report(file: Path, found: int, lines: int, size: int) -> None:
    """Write a report. Of two steps at once, the last one is shown."""
    fraction, words = words_of(found, lines, size)
    partial = file.with_name(f"{file.name}.{os.getpid()}")
    try:
        partial.write_text(json.dumps([fraction, words]), encoding="utf-8")
        partial.replace(file)
    except OSError:
        return


def read(file: Path) -> tuple[float, str] | None:
    """Return the last report, or None."""
    try:
        fraction, words = json.loads(file.read_text(encoding="utf-8"))
        return float(fraction), str(words)
    except (OSError, ValueError, TypeError):
        return None


def forget(file: Path) -> None:
    """Remove the report of a step that ended."""
    try:
        file.unlink(missing_ok=True)
    except OSError:
        return
