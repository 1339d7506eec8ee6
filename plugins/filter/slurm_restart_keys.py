# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter slurm_restart_keys."""

from __future__ import annotations

DOCUMENTATION = r"""
name: slurm_restart_keys
short_description: The keys of a Slurm file whose change restarts a daemon
version_added: 0.1.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Picks out of a configuration the keys that a daemon reads only when it starts. A digest of the result beside a
    daemon tells on each machine by itself whether the daemon has to restart.
  - The table is the one of P(hpcai.gpucluster.slurm_config_action#filter).
positional: daemon, file
options:
  _input:
    description: Keys and values.
    type: dict
    required: true
  daemon:
    description: The daemon.
    type: str
    default: slurmd
  file:
    description: Name of the file.
    type: str
    default: slurm.conf
"""

EXAMPLES = r"""
- name: Show what slurmd reads only when it starts
  ansible.builtin.debug:
    msg: "{{ {'AuthInfo': 'ttl=300', 'KillWait': 30} | hpcai.gpucluster.slurm_restart_keys }}"
# {'AuthInfo': 'ttl=300'}
"""

RETURN = r"""
_value:
  description: The keys with their values, in alphabetical order.
  type: dict
"""

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import actions

if t.TYPE_CHECKING:
    from collections.abc import Mapping


def slurm_restart_keys(
    config: Mapping[str, t.Any], daemon: str = "slurmd", file: str = "slurm.conf"
) -> dict[str, t.Any]:
    """Return the keys that the daemon reads only when it starts, with their values."""
    keys = {
        key.lower()
        for key, means in actions.rules()[file].get("keys", {}).items()
        if daemon in means.get("restart", ()) and "until" not in means
    }
    return {key: config[key] for key in sorted(config) if key.lower() in keys and config[key] is not None}


class FilterModule:
    """Tell Ansible the name of the filter."""

    def filters(self) -> dict[str, t.Any]:
        """Return the filters of this file."""
        return {"slurm_restart_keys": slurm_restart_keys}
