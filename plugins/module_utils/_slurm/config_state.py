# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Read the state of Slurm's configuration on a controller. Only the injected functions have side effects."""

from __future__ import annotations

import json
import typing as t

if t.TYPE_CHECKING:
    from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.bounded_run import Runner

DIRECTORY = "/etc/slurm"
# Actions that an interrupted run had not yet applied.
PENDING = f"{DIRECTORY}/.gpucluster-pending"
_SECONDS = 20
# A service may not get all controllers of the kernel, for example in a container. So a service that manages its own
# control groups, as slurmd does, prints its controllers. No output means: no unified cgroup v2.
_DELEGATED = (
    "systemd-run",
    "--quiet",
    "--wait",
    "--pipe",
    "--collect",
    "--property=Delegate=yes",
    f"--property=RuntimeMaxSec={_SECONDS}",
    "sh",
    "-c",
    'cat "/sys/fs/cgroup$(sed -n s/^0:://p /proc/self/cgroup)/cgroup.controllers" 2> /dev/null || true',
)


class ConfigError(Exception):
    """The state of the controller could not be read. The message contains the reason."""


class File(t.NamedTuple):
    """The content of a file, and whether its owner and mode are correct."""

    content: str
    right: bool


def pending(text: str) -> list[dict[str, t.Any]]:
    """Return the actions that an interrupted run recorded. An unreadable record is an error."""
    if not text.strip():
        return []
    try:
        noted = json.loads(text)
    except ValueError as exc:
        raise ConfigError(f"{PENDING} cannot be read ({exc}); run 'scontrol reconfigure' and remove it") from exc
    return [dict(one) for one in noted]


def delegated(run: Runner) -> list[str]:
    """Return the cgroup controllers that systemd delegates to a service with Delegate=yes."""
    code, out, err = run(_DELEGATED)
    if code:
        raise ConfigError(f"systemd-run exited {code}: {err.strip() or out.strip()}")
    return out.split()


def at_risk(run: Runner) -> list[str]:
    """Return nodes on which slurmd has run, and jobs. A controller that does not answer is also a risk."""
    found = []
    for args, wanted in (
        (("scontrol", "--oneliner", "show", "nodes"), _started),
        (("squeue", "--noheader", "--all", "--format=%A"), str.split),
    ):
        code, out, err = run(args)
        found += wanted(out) if code == 0 else [f"{args[0]} exited {code}: {err.strip() or out.strip()}"]
    return found


def _started(text: str) -> list[str]:
    """Return the nodes whose slurmd has registered at least once."""
    nodes = [dict(word.split("=", 1) for word in line.split() if "=" in word) for line in text.splitlines()]
    return [node.get("NodeName", "?") for node in nodes if node.get("SlurmdStartTime", "")[:1].isdigit()]
