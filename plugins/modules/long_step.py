#!/usr/bin/python
# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action long_step."""

from __future__ import annotations

DOCUMENTATION = r"""
module: long_step
short_description: Run a module that takes long, and report how far it is
version_added: 0.3.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Starts a module in the background of the managed node, and waits until it ends. The result is that of the module.
  - While it waits, it looks at a file or a directory that the module fills, at most four times a minute. The callback
    P(hpcai.gpucluster.progress#callback) shows how far the module is.
  - A connection that is lost for a while does not end the module.
  - In check mode, the module runs in the foreground in check mode.
  - It is an action.
extends_documentation_fragment:
  - hpcai.gpucluster._attributes
attributes:
  check_mode:
    support: full
    details: As far as the module supports it.
  diff_mode:
    support: full
    details: As far as the module supports it.
  idempotent:
    support: full
    details: As far as the module is idempotent.
options:
  module:
    description: Fully qualified name of the module. It must not be an action.
    type: str
    required: true
  arguments:
    description: Arguments of the module.
    type: dict
    required: true
  watch:
    description: Absolute path of the file or the directory on the managed node that the module fills.
    type: str
    required: true
  lines:
    description: About as many lines as the file has at the end.
    type: int
    default: 0
  bytes:
    description: About as many bytes as the file or the directory has at the end.
    type: int
    default: 0
  seconds:
    description: The module is killed after these seconds, with all processes that it started.
    type: int
    default: 7200
notes:
  - If O(lines) and O(bytes) are V(0), the size at the end is unknown. Then the bytes that are there already are shown.
seealso:
  - plugin: hpcai.gpucluster.progress
    plugin_type: callback
"""

EXAMPLES = r"""
- name: Compile
  hpcai.gpucluster.long_step:
    module: ansible.builtin.command
    arguments:
      argv: [make-packages, /var/cache/packages]
      creates: /var/cache/packages.tar
    watch: /var/cache/packages.log
    lines: 12000
"""

RETURN = r"""
changed:
  description: What the module returns.
  returned: always
  type: bool
"""
