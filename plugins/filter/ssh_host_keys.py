# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter ssh_host_keys."""

from __future__ import annotations

DOCUMENTATION = r"""
name: ssh_host_keys
short_description: Return the ssh host keys of machines from their facts
version_added: 0.1.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Returns the input of P(hpcai.gpucluster.ssh_known_hosts#filter). The keys are those that M(ansible.builtin.setup)
    found with the subset C(ssh_pub_keys) in this run.
positional: hostvars
options:
  _input:
    description: Inventory names of the machines.
    type: list
    elements: str
    required: true
  hostvars:
    description: The variable C(hostvars).
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show the host keys of the nodes
  ansible.builtin.debug:
    msg: "{{ groups['slurm_compute'] | hpcai.gpucluster.ssh_host_keys(hostvars) }}"
"""

RETURN = r"""
_value:
  description:
    - One mapping for each machine. C(names) are its inventory name and its C(ansible_host). C(key) is its strongest
      key, prefixed with the key type, or empty if this run has not read it.
  type: list
  elements: dict
  sample: [{names: [gpu1, 10.0.0.1], key: ssh-ed25519 AAAAC3Nza}]
"""

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs import known_hosts

if t.TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


def ssh_host_keys(hosts: Sequence[str], hostvars: Mapping[str, t.Any]) -> list[known_hosts.KnownHost]:
    """Return the machines with their host keys."""
    try:
        return known_hosts.machines(hosts, hostvars)
    except (AttributeError, TypeError) as exc:
        raise AnsibleFilterError(f"hpcai.gpucluster.ssh_host_keys: {exc}") from exc


class FilterModule:
    """Tell Ansible the name of the filter."""

    def filters(self) -> dict[str, Callable[..., t.Any]]:
        """Return the filters of this file."""
        return {"ssh_host_keys": ssh_host_keys}
