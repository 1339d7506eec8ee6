# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""The state directory and all directories above it are root's: who can rename one of them chooses where root writes."""

from __future__ import annotations

import os
import stat
from pathlib import Path


class UntrustedError(Exception):
    """Another user can change the directory; the message names what to change."""


def trusted(directory: str) -> str:
    """
    Return the path of a directory without links, also if it does not exist yet.

    Raise UntrustedError if a user other than root and the own one can write there or above. A sticky directory above,
    such as /tmp, is allowed, because nobody can rename what is root's in it.
    """
    path = Path(directory).resolve()
    for part in (*reversed(path.parents), path):
        try:
            found = part.lstat()
        except FileNotFoundError:
            break
        open_to_others = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if found.st_uid not in (0, os.geteuid()) or (
            open_to_others and (part == path or not found.st_mode & stat.S_ISVTX)
        ):
            raise UntrustedError(
                f"{part} has the owner {found.st_uid} and the mode {stat.S_IMODE(found.st_mode):04o}, and root writes"
                f" to {directory}; allowed: directories in which only root can write. Set repair_state_directory"
            )
    return str(path)
