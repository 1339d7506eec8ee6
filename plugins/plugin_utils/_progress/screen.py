# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This package is PRIVATE to the collection. It may change or vanish at any time.
"""
One line that stays at the bottom of a terminal while anything else scrolls above it.

The terminal scrolls only the rows above the last one (DECSTBM), as apt does it. So it does not matter who prints what,
and nothing that Ansible or a prompt prints is changed. Cursor and colours are saved and restored in the same write.
"""

from __future__ import annotations

import os
import typing as t

if t.TYPE_CHECKING:
    from collections.abc import Mapping

LEAST_ROWS, LEAST_COLUMNS = 6, 40
_SAVE, _RESTORE = "\x1b7", "\x1b8"


def wants_line(descriptor: int, environment: Mapping[str, str]) -> bool:
    """Return whether a line can stay on the terminal of this file descriptor."""
    if not os.isatty(descriptor) or environment.get("TERM", "dumb") in ("", "dumb", "unknown"):
        return False
    # ansible-runner and AWX give Ansible a terminal that only they read, and CI systems a terminal that is a log.
    return not any(environment.get(name) for name in ("AWX_ISOLATED_DATA_DIR", "JOB_ID", "CI"))


class Line:
    """The last row of a terminal."""

    def __init__(self, descriptor: int) -> None:
        """Change nothing yet."""
        self._descriptor = descriptor
        self._size: tuple[int, int] | None = None

    def show(self, words: str) -> None:
        """Write the line, and reserve its row where the terminal is new or has another size."""
        size = self._now()
        if size is None:
            self.close()
            return
        rows, columns = size
        reserve = "" if size == self._size else f"\n{_SAVE}\x1b[1;{rows - 1}r{_RESTORE}\x1b[1A"
        self._size = size
        self._write(f"{reserve}{_SAVE}\x1b[{rows};1H\x1b[m\x1b[2K{words[: columns - 1]}{_RESTORE}")

    def close(self) -> None:
        """Clear the line and give its row back."""
        if self._size is None:
            return
        rows = self._size[0]
        self._size = None
        self._write(f"{_SAVE}\x1b[r\x1b[{rows};1H\x1b[m\x1b[2K{_RESTORE}")

    def _now(self) -> tuple[int, int] | None:
        """Return rows and columns, or None where there is no room or the terminal belongs to another program."""
        try:
            size = os.get_terminal_size(self._descriptor)
            if os.tcgetpgrp(self._descriptor) != os.getpgrp():
                return None
        except OSError:
            return None
        return (size.lines, size.columns) if size.lines >= LEAST_ROWS and size.columns >= LEAST_COLUMNS else None

    def _write(self, data: str) -> None:
        try:
            os.write(self._descriptor, data.encode("ascii", "replace"))
        except OSError:
            self._size = None
