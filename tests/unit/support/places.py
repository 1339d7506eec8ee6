# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a contract test wants a change: a failure names the file and the line, so that nobody has to read the test."""

from __future__ import annotations

import typing as t
from pathlib import Path

# Resolved: a test may be found under the name of the collection, which is a link.
ROOT = Path(__file__).resolve().parents[3]


def place(path: Path | str, text: str = "") -> str:
    """Return a file of the repository, with the first line that has a text: C(docs/health.md:12)."""
    file = (ROOT / path).resolve()
    name = file.relative_to(ROOT).as_posix()
    if text and file.exists():
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            if text in line:
                return f"{name}:{number}"
    return name


def expect_none(faults: t.Iterable[str]) -> None:
    """Fail with all faults, one a line."""
    found = list(faults)
    if found:
        raise AssertionError("\n".join(["", *found]))
