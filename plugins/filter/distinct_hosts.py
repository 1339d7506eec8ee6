# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter distinct_hosts."""

from __future__ import annotations

DOCUMENTATION = r"""
name: distinct_hosts
short_description: One host of each kind
version_added: 0.1.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Of hosts that agree in some variables returns the first, so that what depends on these variables alone is checked
    once and not on each of a thousand equal machines.
  - A variable that cannot be known yet, because it needs facts that were not gathered, counts as equal.
positional: hostvars, variables
options:
  _input:
    description: Inventory names of the hosts.
    type: list
    elements: str
    required: true
  hostvars:
    description: Ansible's C(hostvars).
    type: dict
    required: true
  variables:
    description: Names of variables; C(*) stands for any letters.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: Show one machine of each kind of mounts
  ansible.builtin.debug:
    msg: "{{ groups['nfs_client'] | hpcai.gpucluster.distinct_hosts(hostvars, ['nfs_*']) }}"
"""

RETURN = r"""
_value:
  description: The first host of each kind, in the order of the input.
  type: list
  elements: str
"""

import fnmatch
import json
import re
import typing as t

from ansible.errors import AnsibleError
from jinja2 import UndefinedError


def distinct_hosts(hosts: list[str], hostvars: t.Any, variables: list[str]) -> list[str]:
    """Return the first host of each set of hosts whose variables agree."""
    wanted = re.compile("|".join(fnmatch.translate(name) for name in variables))
    kinds: dict[str, str] = {}
    for host in hosts:
        mine = hostvars[host]
        key = {name: _text(mine, name) for name in sorted(mine) if wanted.match(name)}
        kinds.setdefault(json.dumps(key), host)
    return list(kinds.values())


def _text(mine: t.Any, name: str) -> str:
    try:
        return json.dumps(mine[name], sort_keys=True, default=str)
    except (AnsibleError, UndefinedError):
        return ""


class FilterModule:
    """Tell Ansible the name of the filter."""

    def filters(self) -> dict[str, t.Any]:
        """Return the filters of this file."""
        return {"distinct_hosts": distinct_hosts}
