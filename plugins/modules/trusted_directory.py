#!/usr/bin/python
# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Create a directory that only root can change, or refuse it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: trusted_directory
short_description: Create a directory that only root can change, or refuse it
version_added: 0.3.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Creates a directory in which tasks write secrets as root, and the parents that are missing. Only root can read it.
  - Refuses a directory if somebody else than root could change or replace it, or one of its parents. Such a user could
    read what root writes there, or let root write to another place.
  - Refuses symbolic links on the way, too, because only the path that they lead to can be checked.
extends_documentation_fragment:
  - hpcai.gpucluster._attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: full
options:
  path:
    description: Absolute path of the directory.
    type: path
    required: true
"""

EXAMPLES = r"""
- name: Create the directory of the dumps
  hpcai.gpucluster.trusted_directory:
    path: /var/backups/gpucluster
  become: true
"""

RETURN = r"""
path:
  description: Path of the directory.
  returned: success
  type: str
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.trusted_directory import trusted


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec={"path": {"type": "path", "required": True}}, supports_check_mode=True)
    path = module.params["path"]
    directory = Path(path)
    changed = not directory.exists()
    try:
        if not (changed and module.check_mode):
            open_to_others = trusted(path).stat().st_mode & 0o077
            changed = changed or bool(open_to_others)
            if open_to_others and not module.check_mode:
                directory.chmod(0o700)
    except OSError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(changed=changed, path=path)


if __name__ == "__main__":
    main()
