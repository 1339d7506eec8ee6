# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""The program C(gpucluster-pull): one look at the controller. A timer starts it."""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import sys
import typing as t
from pathlib import Path

from ansible_collections.hpcai.gpucluster.plugins.module_utils._bundle.archive import BundleError
from ansible_collections.hpcai.gpucluster.plugins.module_utils._join.steps import JoinError
from ansible_collections.hpcai.gpucluster.plugins.module_utils._pull import steps
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import bounded_run
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host

if t.TYPE_CHECKING:
    from collections.abc import Sequence

SETTINGS = "/etc/gpucluster/pull.json"
STATE = Path("/var/lib/gpucluster/pull")


def main(argv: Sequence[str] | None = None) -> int:
    """Apply the release of the controller, if it is new or if the last run was long ago; return the exit status."""
    parser = argparse.ArgumentParser(prog="gpucluster-pull", description="Configure this node as the cluster says.")
    parser.add_argument("--now", action="store_true", help="run the playbook also if nothing is new")
    arguments = parser.parse_args(argv)
    # Python takes modules from the directory in which it starts, which may be one of a user.
    os.chdir("/")
    try:
        settings = json.loads(Path(SETTINGS).read_text(encoding="utf-8"))
        host = Host(bounded_run.feeding_runner(settings["seconds"]))
        STATE.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (STATE / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            sys.stdout.write(steps.Pull(host, settings, STATE).run(arguments.now) + "\n")
    except BlockingIOError:
        sys.stderr.write("gpucluster-pull: another run is active\n")
        return 1
    except (steps.PullError, JoinError, BundleError, OSError, KeyError, TypeError, ValueError) as exc:
        sys.stderr.write(f"gpucluster-pull: {exc}\n")
        return 1
    return 0
