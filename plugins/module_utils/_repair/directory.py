# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""The state directory and all directories above it are root's: who can rename one of them chooses where root writes."""

from __future__ import annotations

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import trusted_directory


class UntrustedError(Exception):
    """Another user can change the directory; the message names what to change."""


def trusted(directory: str) -> str:
    """Return a directory in which only root can write, and make it; raise UntrustedError if others can change it."""
    try:
        return str(trusted_directory.trusted(directory))
    except trusted_directory.UntrustedDirectoryError as exc:
        raise UntrustedError(f"{exc}. Set repair_state_directory") from exc
