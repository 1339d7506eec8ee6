#!/usr/bin/python
# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Install packages of the distribution, if one is missing."""

from __future__ import annotations

DOCUMENTATION = r"""
module: packages
short_description: Install packages of the distribution, if one is missing
version_added: 0.1.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Runs M(ansible.builtin.apt) if a package of O(name) is not installed. If all of them are installed, it runs nothing,
    and refreshes no package list.
  - M(ansible.builtin.apt) reads the lists of all packages before it compares, which takes half a second of processor
    time. This module asks dpkg, which takes some milliseconds.
extends_documentation_fragment:
  - hpcai.gpucluster._attributes
attributes:
  check_mode:
    support: full
    details:
      - Nothing is installed, and no package list is refreshed. If apt therefore does not know a package, or the machine
        has no C(python3-apt), the task is changed, and a warning names what was not seen.
  diff_mode:
    support: full
    details: The diff is that of M(ansible.builtin.apt).
  idempotent:
    support: full
options:
  name:
    description:
      - Packages, as V(NAME) or V(NAME=VERSION). A version may contain C(*) and C(?).
      - M(ansible.builtin.apt) also runs for each other form that it accepts, such as V(NAME:ARCHITECTURE) or the name
        of a virtual package.
    type: list
    elements: str
    required: true
  allow_downgrade:
    description: See M(ansible.builtin.apt).
    type: bool
    default: false
  cache_valid_time:
    description: See M(ansible.builtin.apt).
    type: int
    default: 0
  install_recommends:
    description: See M(ansible.builtin.apt).
    type: bool
    default: false
  policy_rc_d:
    description: See M(ansible.builtin.apt).
    type: int
  update_cache:
    description: Refresh the package lists before the installation.
    type: bool
    default: false
  update_cache_retries:
    description: See M(ansible.builtin.apt).
    type: int
    default: 2
"""

EXAMPLES = r"""
- name: Install munge
  hpcai.gpucluster.packages:
    name: [munge]
  become: true
"""

RETURN = r"""
missing:
  description: What of O(name) was not installed.
  returned: success
  type: list
  elements: str
  sample: [munge]
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import bounded_run, packages
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.release_packages import installed


def main() -> None:
    """Report what is missing; the action of the same name installs it."""
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "list", "elements": "str", "required": True},
            "allow_downgrade": {"type": "bool", "default": False},
            "cache_valid_time": {"type": "int", "default": 0},
            "install_recommends": {"type": "bool", "default": False},
            "policy_rc_d": {"type": "int"},
            "update_cache": {"type": "bool", "default": False},
            "update_cache_retries": {"type": "int", "default": 2},
        },
        supports_check_mode=True,
    )
    names = [name for name in map(packages.name_of, module.params["name"]) if name]
    versions = installed(bounded_run.feeding_runner(bounded_run.ASK), names) if names else {}
    module.exit_json(changed=False, missing=packages.missing(module.params["name"], versions))


if __name__ == "__main__":
    main()
