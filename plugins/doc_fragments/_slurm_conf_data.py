# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This fragment is PRIVATE to the collection. It may change or vanish at any time.
"""Input of every filter that accepts a Slurm configuration file as data."""

from __future__ import annotations


class ModuleDocFragment:
    """Keys, and lines with several keys."""

    DOCUMENTATION = r"""
options:
  _input:
    description: Keys and values.
    type: dict
    required: true
  nodes:
    description: One mapping for each C(NodeName) line. C(NodeName) is printed first.
    type: list
    elements: dict
    default: []
  nodesets:
    description: One mapping for each C(NodeSet) line. C(NodeSet) is printed first.
    type: list
    elements: dict
    default: []
  partitions:
    description: One mapping for each C(PartitionName) line. C(PartitionName) is printed first.
    type: list
    elements: dict
    default: []
  lines:
    description:
      - One mapping for each further line with several keys, in the order of the mapping.
      - gres.conf consists of such lines.
    type: list
    elements: dict
    default: []
"""
