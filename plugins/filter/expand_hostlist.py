# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter expand_hostlist."""

from __future__ import annotations

DOCUMENTATION = r"""
name: expand_hostlist
short_description: Return the host names of a Slurm hostlist expression
version_added: 0.1.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Expands an expression such as V(gpu[1-400],login1). The order of the expression and leading zeros are kept. Each
    name occurs once.
options:
  _input:
    description: The expression.
    type: str
    required: true
seealso:
  - plugin: hpcai.gpucluster.compress_hostlist
    plugin_type: filter
    description: The inverse filter.
"""

EXAMPLES = r"""
- name: Print the three names
  ansible.builtin.debug:
    msg: "{{ 'gpu[1-2],login1' | hpcai.gpucluster.expand_hostlist }}"
"""

RETURN = r"""
_value:
  description: The host names.
  type: list
  elements: str
"""

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import hostlist

if t.TYPE_CHECKING:
    from collections.abc import Callable


def expand_hostlist(expression: str) -> list[str]:
    """Return the host names of a hostlist expression."""
    if not isinstance(expression, str):
        raise AnsibleFilterError(f"hpcai.gpucluster.expand_hostlist: expected a string, found {expression!r}")
    try:
        return hostlist.expand(expression)
    except hostlist.HostlistError as exc:
        raise AnsibleFilterError(f"hpcai.gpucluster.expand_hostlist: {exc}") from exc


class FilterModule:
    """Tell Ansible the name of the filter."""

    def filters(self) -> dict[str, Callable[..., t.Any]]:
        """Return the filters of this file."""
        return {"expand_hostlist": expand_hostlist}
