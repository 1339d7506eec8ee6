# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This file is PRIVATE to the collection. It may change or vanish at any time.
"""What a controller has of Slurm's configuration now. Pure but for the functions that are passed in."""

from __future__ import annotations

import json
import typing as t

if t.TYPE_CHECKING:
    from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.bounded_run import Runner

DIRECTORY = "/etc/slurm"
# What an interrupted run was about to apply.
PENDING = f"{DIRECTORY}/.gpucluster-pending"
_SECONDS = 20
# What the kernel offers may not reach a service, as in a container; so a service is asked that manages its own control
# groups, as slurmd does. No output: no unified cgroup v2.
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
    """The controller could not be asked; the text says why."""


class File(t.NamedTuple):
    """A file as it is: its content, and whether it has the owner and the mode that it should have."""

    content: str
    right: bool


def pending(text: str) -> list[dict[str, t.Any]]:
    """Return the actions that an interrupted run has noted; what cannot be read is an error, not nothing."""
    if not text.strip():
        return []
    try:
        noted = json.loads(text)
    except ValueError as exc:
        raise ConfigError(f"{PENDING} cannot be read ({exc}); run 'scontrol reconfigure' and remove it") from exc
    return [dict(one) for one in noted]


def delegated(run: Runner) -> list[str]:
    """Return the control groups that systemd gives to a service with Delegate=yes."""
    code, out, err = run(_DELEGATED)
    if code:
        raise ConfigError(f"systemd-run exited {code}: {err.strip() or out.strip()}")
    return out.split()


def at_risk(run: Runner) -> list[str]:
    """Return nodes on which slurmd has run, and jobs; a controller that does not answer is a risk as well."""
    found = []
    for args, wanted in (
        (("scontrol", "--oneliner", "show", "nodes"), _started),
        (("squeue", "--noheader", "--all", "--format=%A"), str.split),
    ):
        code, out, err = run(args)
        found += wanted(out) if code == 0 else [f"{args[0]} exited {code}: {err.strip() or out.strip()}"]
    return found


def _started(text: str) -> list[str]:
    """Return the nodes whose slurmd has registered once."""
    nodes = [dict(word.split("=", 1) for word in line.split() if "=" in word) for line in text.splitlines()]
    return [node.get("NodeName", "?") for node in nodes if node.get("SlurmdStartTime", "")[:1].isdigit()]
