# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""The program gpucluster-motd: a timer runs it, so that no login has to wait for Slurm."""

from __future__ import annotations

import collections
import json
import sys
import time
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.bounded_run import feeding_runner
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.plain_shell import forget_habits

if t.TYPE_CHECKING:
    from collections.abc import Iterable

CONFIG = "/etc/gpucluster/motd.json"
MESSAGE = "/run/motd.d/gpucluster"
_SECONDS = 20
_NODES = ("sinfo", "--noheader", "--Node", "--format=%N %T")
_JOBS = ("squeue", "--noheader", "--states=PENDING,RUNNING", "--format=%T")
# Marks of sinfo behind a state, such as * for a node that does not answer.
_MARKS = "*~#!%$@^-+"


def message(cluster: str, text: str, host: Host, now: str) -> str:
    """Return the message of the day."""
    nodes, jobs = (_lines(host, command) for command in (_NODES, _JOBS))
    if nodes is None or jobs is None:
        state = [f"Cluster {cluster}: Slurm does not answer."]
    else:
        states = dict(line.split(maxsplit=1) for line in nodes)  # a node is in several partitions
        state = [
            f"Cluster {cluster}: {_counted(states.values(), 'nodes')}",
            f"Jobs: {_counted(jobs, 'in the queue')}",
        ]
    return "\n".join([*filter(None, [text]), *state, f"(at {now})", ""])


def _counted(states: Iterable[str], what: str) -> str:
    """Return a count of all, and one for each state, the most frequent first."""
    counts = collections.Counter(state.strip().rstrip(_MARKS).lower() for state in states)
    parts = ", ".join(f"{number} {state}" for state, number in counts.most_common())
    return f"{sum(counts.values())} {what}" + (f": {parts}" if parts else "")


def _lines(host: Host, command: Iterable[str]) -> list[str] | None:
    """Return the lines of a command, or None if it fails or does not answer in time."""
    code, out, __ = host.run(list(command))
    return None if code else [line for line in out.splitlines() if line.strip()]


def main() -> int:
    """Write the message; return the exit status."""
    forget_habits()
    host = Host(feeding_runner(_SECONDS))
    try:
        settings = json.loads(host.read_required(CONFIG))
        now = time.strftime("%Y-%m-%d %H:%M %Z")
        host.write(MESSAGE, message(settings["cluster"], settings["text"], host, now))
    except (OSError, ValueError, KeyError) as exc:
        sys.stderr.write(f"gpucluster-motd: {exc}\n")
        return 1
    return 0
