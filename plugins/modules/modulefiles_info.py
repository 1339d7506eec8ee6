#!/usr/bin/python
# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module that finds software and returns its modulefiles."""

from __future__ import annotations

DOCUMENTATION = r"""
module: modulefiles_info
short_description: Find CUDA, NCCL and MPI, and return modulefiles of Lmod for them
version_added: 0.3.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Looks for CUDA and Open MPI in C(/usr/local/NAME-VERSION), C(/opt/NAME-VERSION) and C(/opt/NAME/VERSION), for NCCL
    in C(/usr), C(/opt) and C(/usr/local), and for the Open MPI of the distribution.
  - Returns files for M(hpcai.gpucluster.file_set). A modulefile of a version that is no longer installed is absent.
extends_documentation_fragment:
  - hpcai.gpucluster._attributes
  - hpcai.gpucluster._attributes.info_module
options:
  directory:
    description: Directory of the modulefiles. It contains no others.
    type: path
    required: true
  software:
    description: Further software.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the software.
        type: str
        required: true
      version:
        description: Its version.
        type: str
        required: true
      prefix:
        description: Directory with its C(bin), C(lib) and C(include).
        type: path
        required: true
"""

EXAMPLES = r"""
- name: Find software
  hpcai.gpucluster.modulefiles_info:
    directory: /usr/local/share/gpucluster-modules
    software:
      - {name: hpcx, version: "2.21", prefix: /opt/hpcx/ompi}
  register: software
"""

RETURN = r"""
files:
  description: One entry of M(hpcai.gpucluster.file_set) for each modulefile.
  returned: success
  type: list
  elements: dict
  sample: [{path: /usr/local/share/gpucluster-modules/cuda/12.9.lua, content: "...", state: present}]
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.gpucluster.plugins.module_utils._software import modulefiles


def main() -> None:
    """Run the module."""
    software = {
        "name": {"type": "str", "required": True},
        "version": {"type": "str", "required": True},
        "prefix": {"type": "path", "required": True},
    }
    module = AnsibleModule(
        argument_spec={
            "directory": {"type": "path", "required": True},
            "software": {"type": "list", "elements": "dict", "default": [], "options": software},
        },
        supports_check_mode=True,
    )
    given = [modulefiles.Software(**one) for one in module.params["software"]]
    try:
        files = modulefiles.files(module.params["directory"], given)
    except (OSError, ValueError) as exc:
        module.fail_json(msg=f"cannot look for software: {exc}")
    module.exit_json(changed=False, files=files)


if __name__ == "__main__":
    main()
