#!/usr/bin/python
# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module that reads which clusters the accounting database has."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_database_info
short_description: Read which clusters the accounting database of Slurm has
version_added: 0.3.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Runs on the machine with slurmdbd, and asks MariaDB itself, because slurmdbd may not run yet, with the
    credentials of C(slurmdbd.conf).
  - Finds the newest backup of C(gpucluster-backup), or else the newest dump of an upgrade.
extends_documentation_fragment:
  - hpcai.gpucluster._attributes
  - hpcai.gpucluster._attributes.info_module
options:
  dumps:
    description: Directory of the dumps that upgrades make.
    type: path
    default: /var/backups/gpucluster
  here:
    description: Whether the database is on this machine. Without C(slurmdbd.conf), a database elsewhere is unknown.
    type: bool
    default: true
"""

EXAMPLES = r"""
- name: Read which clusters the database has
  hpcai.gpucluster.slurm_database_info:
  become: true
"""

RETURN = r"""
clusters:
  description: Names of the clusters. None of them without a database. Null if they are unknown.
  returned: success
  type: list
  elements: str
  sample: [gpucluster]
reason:
  description: Why the clusters are unknown.
  returned: success
  type: str
  sample: ""
restore:
  description: The command that restores the newest backup; empty without a backup.
  returned: success
  type: str
  sample: gpucluster-backup restore 20261125T020000Z --part database
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.gpucluster.plugins.module_utils._backup import standing
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import bounded_run
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "dumps": {"type": "path", "default": standing.DIRECTORY},
            "here": {"type": "bool", "default": True},
        },
        supports_check_mode=True,
    )
    host = Host(bounded_run.feeding_runner(bounded_run.ASK))
    found = standing.clusters(host, module.params["here"])
    try:
        restore = standing.restore_command(host, module.params["dumps"], found.names)
    except (OSError, ValueError) as exc:
        module.fail_json(msg=f"the backups cannot be read: {exc}")
    module.exit_json(changed=False, clusters=found.names, reason=found.reason, restore=restore)


if __name__ == "__main__":
    main()
