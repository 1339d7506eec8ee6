# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter ssh_known_hosts."""

from __future__ import annotations

DOCUMENTATION = r"""
name: ssh_known_hosts
short_description: Render a known_hosts file from the host keys of machines
version_added: 0.1.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Writes one line for each machine whose key is known, sorted by name.
  - A machine whose key was not read in this run keeps its previous key. Machines that are not listed are removed.
positional: machines
options:
  _input:
    description: The current content of the file. Empty if there is no file yet.
    type: str
    required: true
  machines:
    description: The machines, as P(hpcai.gpucluster.ssh_host_keys#filter) returns them.
    type: list
    elements: dict
    required: true
"""

EXAMPLES = r"""
- name: Show the file
  ansible.builtin.debug:
    msg: "{{ '' | hpcai.gpucluster.ssh_known_hosts([{'names': ['gpu1'], 'key': 'ssh-ed25519 AAAAC3Nza'}]) }}"
"""

RETURN = r"""
_value:
  description: The new content of the file.
  type: str
  sample: "gpu1 ssh-ed25519 AAAAC3Nza\n"
"""

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs import known_hosts

if t.TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def ssh_known_hosts(known: str, machines: Sequence[known_hosts.KnownHost]) -> str:
    """Return the new content of the file."""
    try:
        return known_hosts.render(known or "", machines)
    except (AttributeError, KeyError, TypeError, IndexError) as exc:
        raise AnsibleFilterError(f"hpcai.gpucluster.ssh_known_hosts: a machine is {{names, key}}: {exc!r}") from exc


class FilterModule:
    """Tell Ansible the name of the filter."""

    def filters(self) -> dict[str, Callable[..., t.Any]]:
        """Return the filters of this file."""
        return {"ssh_known_hosts": ssh_known_hosts}
