# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""The program C(gpucluster-join): one attempt to join the cluster. systemd starts it again after a failure."""

from __future__ import annotations

import sys
import typing as t
from pathlib import Path

from ansible_collections.hpcai.gpucluster.plugins.module_utils._join import steps
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import bounded_run
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host

if t.TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Join from the directory that is the only argument; return 0 if this machine is now part of the cluster."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    if len(arguments) != 1:
        sys.stderr.write("usage: gpucluster-join DIRECTORY\n")
        return 2
    directory = Path(arguments[0])
    try:
        settings = steps.read(directory)
        key = (directory / "munge.key").read_bytes()
        done = steps.join(Host(bounded_run.feeding_runner(bounded_run.WORK)), directory, settings, key)
    except (steps.JoinError, OSError, KeyError, TypeError) as exc:
        sys.stderr.write(f"gpucluster-join: {exc}\n")
        return 1
    sys.stdout.writelines(f"{step}\n" for step in done or ["this machine runs slurmd already"])
    return 0
