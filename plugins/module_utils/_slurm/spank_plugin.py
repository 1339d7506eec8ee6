# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection. It may change or vanish at any time.
"""Configure Slurm to load a SPANK plugin, after a test with the Slurm commands of the machine."""

from __future__ import annotations

import typing as t

if t.TYPE_CHECKING:
    from collections.abc import Sequence

    from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.bounded_run import Runner

# Each command loads the plugins of plugstack.conf before it prints its help: srun in the context of a step, sbatch in
# that of an allocation. Neither contacts a daemon.
COMMANDS = ("srun", "sbatch")
# The minimal configuration for both commands. The help text needs no authentication, so munge is not needed.
SLURM_CONF = "ClusterName=try\nSlurmctldHost=localhost\nAuthType=auth/none\nCredType=cred/none\n"


class SpankError(Exception):
    """Slurm would not accept a plugin."""


def line(plugin: str, arguments: Sequence[str]) -> str:
    """Return the line of plugstack.conf. The plugin is required, so that no job runs without its function."""
    for word in (plugin, *arguments):
        if not word or any(character.isspace() or character == "#" for character in word):
            raise SpankError(f"{word!r} cannot stand in plugstack.conf: it has to be one word without #")
    return " ".join(["required", plugin, *arguments]) + "\n"


def files(text: str) -> dict[str, str]:
    """Return the files, by name, of a configuration for the test of a plugin."""
    return {"slurm.conf": SLURM_CONF, "plugstack.conf": text}


def attempt(run: Runner, commands: Sequence[str], configuration: str, shows: str = "") -> None:
    """Run Slurm's commands with the plugin in a separate configuration. Raise SpankError if it fails."""
    for command in commands:
        code, out, err = run([command, "--help"], environment={"SLURM_CONF": configuration})
        if code != 0:
            raise SpankError(f"{command} says: {_reason(err or out)}")
        if shows and shows not in out:
            raise SpankError(f"{command} --help does not show {shows}")


def _reason(text: str) -> str:
    """Return Slurm's messages, each line once and without the prefix of the command."""
    lines = [one.partition("error: ")[2] or one for one in text.strip().splitlines()]
    return "; ".join(dict.fromkeys(one.strip() for one in lines if one.strip())) or "nothing"
