# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This fragment is PRIVATE to the collection. It may change or vanish at any time.
"""Input of every filter that reads inventory variables of hosts."""

from __future__ import annotations


class ModuleDocFragment:
    """Names of hosts, and the variables of all hosts."""

    DOCUMENTATION = r"""
positional: hostvars
options:
  _input:
    description: Inventory names of the nodes.
    type: list
    elements: str
    required: true
  hostvars:
    description: Ansible's C(hostvars).
    type: dict
    required: true
"""
