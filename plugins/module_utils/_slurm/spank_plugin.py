# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection. It may change or vanish at any time.
"""Let Slurm load a plugin of its SPANK interface, after it was tried in the Slurm of the machine."""

from __future__ import annotations

import typing as t

if t.TYPE_CHECKING:
    from collections.abc import Sequence

    from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.bounded_run import Runner

# Each loads the plugins of plugstack.conf before it prints its help: srun in the context of a step, sbatch in that of
# an allocation. Neither asks a daemon.
COMMANDS = ("srun", "sbatch")
# Enough of a configuration for both. Nobody has to prove who he is for a help text, so no munge is needed either.
SLURM_CONF = "ClusterName=try\nSlurmctldHost=localhost\nAuthType=auth/none\nCredType=cred/none\n"


class SpankError(Exception):
    """A plugin that Slurm would not take."""


def line(plugin: str, arguments: Sequence[str]) -> str:
    """Return the line of plugstack.conf. A plugin that may fail would let a job run without what it was asked for."""
    for word in (plugin, *arguments):
        if not word or any(character.isspace() or character == "#" for character in word):
            raise SpankError(f"{word!r} cannot stand in plugstack.conf: it has to be one word without #")
    return " ".join(["required", plugin, *arguments]) + "\n"


def files(text: str) -> dict[str, str]:
    """Return the files of a configuration, by name, in which a plugin can be tried."""
    return {"slurm.conf": SLURM_CONF, "plugstack.conf": text}


def attempt(run: Runner, commands: Sequence[str], configuration: str, shows: str = "") -> None:
    """Have Slurm's commands load the plugin from a configuration of its own; raises SpankError."""
    for command in commands:
        code, out, err = run([command, "--help"], environment={"SLURM_CONF": configuration})
        if code != 0:
            raise SpankError(f"{command} says: {_reason(err or out)}")
        if shows and shows not in out:
            raise SpankError(f"{command} --help does not show {shows}")


def _reason(text: str) -> str:
    """Return what Slurm says, each line once and without the name of the command before it."""
    lines = [one.partition("error: ")[2] or one for one in text.strip().splitlines()]
    return "; ".join(dict.fromkeys(one.strip() for one in lines if one.strip())) or "nothing"
