# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter compress_hostlist."""

from __future__ import annotations

DOCUMENTATION = r"""
name: compress_hostlist
short_description: Convert host names to a Slurm hostlist expression
version_added: 0.1.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Writes host names as Slurm does, sorted and with ranges, and each name once. Leading zeros are kept.
  - Several numbers in a name become several ranges if every combination exists, such as V(rack[1-2]n[1-8]).
  - A name that does not end in a digit is not part of a range, because slurm.conf(5) requires the range at the end.
options:
  _input:
    description: Host names. A single string is one name.
    type: list
    elements: str
    required: true
seealso:
  - plugin: hpcai.gpucluster.expand_hostlist
    plugin_type: filter
    description: The inverse filter.
"""

EXAMPLES = r"""
- name: Print gpu[1-3],login1
  ansible.builtin.debug:
    msg: "{{ ['gpu1', 'gpu3', 'login1', 'gpu2'] | hpcai.gpucluster.compress_hostlist }}"
"""

RETURN = r"""
_value:
  description: The expression. Empty if there are no names.
  type: str
"""

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import hostlist

if t.TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def compress_hostlist(names: Iterable[str]) -> str:
    """Return the hostlist expression of host names."""
    if isinstance(names, (dict, int, type(None))):
        raise AnsibleFilterError(f"hpcai.gpucluster.compress_hostlist: expected a list of host names, found {names!r}")
    try:
        return hostlist.compress([names] if isinstance(names, str) else names)
    except hostlist.HostlistError as exc:
        raise AnsibleFilterError(f"hpcai.gpucluster.compress_hostlist: {exc}") from exc


class FilterModule:
    """Tell Ansible the name of the filter."""

    def filters(self) -> dict[str, Callable[..., t.Any]]:
        """Return the filters of this file."""
        return {"compress_hostlist": compress_hostlist}
