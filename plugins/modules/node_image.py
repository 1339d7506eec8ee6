#!/usr/bin/python
# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the root of a node as an archive."""

from __future__ import annotations

DOCUMENTATION = r"""
module: node_image
short_description: Write the root of a node as an archive
version_added: 0.3.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Writes the root file system of a node that configures itself as a tar archive. Copies of it join in seconds.
  - The archive contains only what is listed. Programs and files of packages, the configuration and the state of the
    package manager, if every user of the node can read them. The rules of sudo, the public keys that may log in as
    root, and the bundle that the node applied. Accounts are in it without password hashes.
  - It contains no other file, and so no key, login, log, home or identity of the machine.
  - The node is not changed, and goes on to take jobs.
extends_documentation_fragment:
  - hpcai.gpucluster._attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: none
    details: Every run writes the archive.
options:
  path:
    description:
      - Path of the archive. Only root can read it.
      - Its directory and all parents must belong to root, and only root may write them; a parent may also be sticky. A
        missing directory is created.
    type: path
    required: true
"""

EXAMPLES = r"""
- name: Write the root of the node
  hpcai.gpucluster.node_image:
    path: /var/lib/gpucluster/images/node.tar
  become: true
"""

RETURN = r"""
path:
  description: Path of the archive.
  returned: success
  type: str
bytes:
  description: Size of the archive.
  returned: success, not in check mode
  type: int
  sample: 1200000000
files:
  description: Number of names in the archive.
  returned: success, not in check mode
  type: int
  sample: 61000
bundle:
  description: Checksum of the bundle in the archive.
  returned: success, not in check mode
  type: str
foreign:
  description: Directories of programs that are not in the archive, because somebody else than root can change them.
  returned: success, not in check mode
  type: list
  elements: str
  sample: [opt/hpcx]
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.gpucluster.plugins.module_utils._image import archive
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.bounded_run import feeding_runner

SECONDS = 7200


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec={"path": {"type": "path", "required": True}}, supports_check_mode=True)
    path = module.params["path"]
    if module.check_mode:
        module.exit_json(changed=True, path=path)
    try:
        image = archive.write(Path(path), Path("/"), feeding_runner(SECONDS))
    except (archive.ImageError, OSError, ValueError) as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(
        changed=True, path=path, bytes=image.bytes, files=image.names, bundle=image.bundle, foreign=image.foreign
    )


if __name__ == "__main__":
    main()
