# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter option_hosts."""

from __future__ import annotations

DOCUMENTATION = r"""
name: option_hosts
short_description: Return the machines of the cluster that have an option of the site
version_added: 0.3.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Returns the machines of the groups of this collection for which a switch such as C(gpucluster_ldap) is set.
    The play of C(playbooks/options.yml) then has no tasks on all other machines.
  - Does not evaluate templates. A machine whose switch is a template is among the result.
options:
  _input:
    description: The variable C(groups).
    type: dict
    required: true
  hostvars:
    description: The variable C(hostvars).
    type: raw
    required: true
"""

EXAMPLES = r"""
- name: Show the machines with options
  ansible.builtin.debug:
    msg: "{{ groups | hpcai.gpucluster.option_hosts(hostvars) }}"
"""

RETURN = r"""
_value:
  description: Names of the machines, or the pattern V(!all) if no machine has an option.
  type: list
  elements: str
  sample: [control, gpu1]
"""

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs import site_options

if t.TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_GROUPS = (
    *("slurm_controller", "slurm_database", "slurm_build", "slurm_login", "slurm_compute"),
    *("nfs_server", "nfs_client"),
)


def option_hosts(groups: Mapping[str, Sequence[str]], hostvars: t.Any) -> list[str]:
    """Return the hosts that have a switch, in the order of the groups."""
    hosts = dict.fromkeys(host for group in _GROUPS for host in groups.get(group, ()))
    return site_options.switched(hosts, hostvars) or ["!all"]


class FilterModule:
    """Tell Ansible the name of the filter."""

    def filters(self) -> dict[str, Callable[..., t.Any]]:
        """Return the filters of this file."""
        return {"option_hosts": option_hosts}
