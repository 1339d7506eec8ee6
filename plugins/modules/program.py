#!/usr/bin/python
# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action program."""

from __future__ import annotations

DOCUMENTATION = r"""
module: program
short_description: Install a Python program of this collection as one file
version_added: 0.1.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Builds a program from a Python module of this collection and all modules that it imports, and copies it to the
    managed node.
  - The program is one executable file, a zipapp. It needs Python 3.9 or newer on the managed node and no other package.
  - The same sources result in the same bytes on every control node, so a second run changes nothing.
  - It is an action. The roles of this collection use it to install programs on nodes.
extends_documentation_fragment:
  - hpcai.gpucluster._attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: partial
    details: The file is binary. The diff says so, and shows no content.
  idempotent:
    support: full
options:
  entry:
    description: Python module with the function C(main), below C(plugins/module_utils) of this collection.
    type: str
    required: true
  dest:
    description: Absolute path of the program on the managed node. Its directory must exist.
    type: str
    required: true
  interpreter:
    description: Python interpreter that runs the program.
    type: str
    default: /usr/bin/python3
  files:
    description:
      - Small files to write after the program, such as its settings and its unit, as for M(hpcai.gpucluster.file_set).
    type: list
    elements: dict
    default: []
    version_added: 0.3.0
seealso:
  - module: hpcai.gpucluster.file_set
  - module: ansible.builtin.copy
"""

EXAMPLES = r"""
- name: Install the health program
  hpcai.gpucluster.program:
    entry: _health.cli
    dest: /usr/local/bin/gpucluster-check
    files:
      - path: /etc/gpucluster/health.json
        content: "{{ {'gpu_count': {'expected': 8}} | to_nice_json }}"
  become: true
"""

RETURN = r"""
checksum:
  description: SHA-1 checksum of the program.
  returned: success
  type: str
dest:
  description: Path of the program.
  returned: success
  type: str
files:
  description: Paths of the files that were written, corrected or removed.
  returned: with O(files)
  type: list
  elements: str
"""
