# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""The environment of a program that acts alone: an administrator who calls it gets what its timer gets."""

from __future__ import annotations

import os
import time

# Variables by which commands of Slurm hide jobs or nodes, ask another cluster, or print times in another form.
_HABITS = ("SQUEUE_", "SINFO_", "SCONTROL_", "SLURM_CLUSTERS", "SLURM_TIME_FORMAT")


def forget_habits() -> None:
    """Remove what a person has set for commands of Slurm, and the person's time zone, in which they print times."""
    for name in [name for name in os.environ if name.startswith(_HABITS) or name == "TZ"]:
        del os.environ[name]
    time.tzset()
