# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run programs as users whom the machine does not know, below a directory that they can reach."""

from __future__ import annotations

import os
import typing as t

import pytest

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as somebody else")
# Root of the tests acts as these; anybody else acts as itself.
VICTIM = 54321 if os.geteuid() == 0 else os.geteuid()
ATTACKER = 54322


def acting_as(uid: int) -> dict[str, t.Any]:
    """Return arguments of subprocess.run."""
    return {"user": uid, "group": uid, "extra_groups": []} if os.geteuid() == 0 else {}


def give(path: t.Any, uid: int, mode: int) -> None:
    """Give a file or a directory to a user."""
    if os.geteuid() == 0:
        os.chown(path, uid, uid)
    path.chmod(mode)
