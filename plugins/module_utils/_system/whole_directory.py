# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Give a directory its name when it is complete, also on the disk."""

from __future__ import annotations

import typing as t

from . import whole_file
from .bounded_run import WORK, feeding_runner

if t.TYPE_CHECKING:
    from pathlib import Path


def settle(tree: Path) -> None:
    """Write what a directory contains to its disk. Raise OSError if that fails."""
    code, out, err = feeding_runner(WORK)(["sync", "--file-system", str(tree)])
    if code:
        raise OSError(f"{tree} cannot be written to its disk: {(err or out).strip() or code}")


def keep(fresh: Path, final: Path) -> None:
    """Rename a directory. After a power cut, the new name has all files with their content, or is not there."""
    settle(fresh)
    fresh.replace(final)
    whole_file.sync_name(str(final))
