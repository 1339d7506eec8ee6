#!/usr/bin/python
# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module that has systemd run a daemon as it is installed and configured now."""

from __future__ import annotations

DOCUMENTATION = r"""
module: daemon
short_description: Run a daemon as it is installed and configured now
version_added: 0.1.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Enables and starts a unit of systemd, and restarts it if its program was replaced or one of its files was changed
    after it was started.
  - That is decided by what runs, not by what this run of Ansible has changed. A handler that an interrupted run has not
    reached is lost, because the next run finds the file as it should be; this module still restarts the daemon then.
extends_documentation_fragment:
  - hpcai.gpucluster._attributes
attributes:
  check_mode:
    support: full
    details: A missing unit, as in a first run, counts as one to start.
  diff_mode:
    support: none
  idempotent:
    support: full
options:
  name:
    description: The unit.
    type: str
    required: true
  files:
    description:
      - Files that the daemon reads only when it starts. It is restarted if one of them is newer than its start.
        A missing file is ignored.
      - A file counts as changed when it was written, renamed, or given another owner or mode.
    type: list
    elements: path
    default: []
seealso:
  - module: ansible.builtin.systemd_service
"""

EXAMPLES = r"""
- name: Run slurmd with the options that stand there now
  hpcai.gpucluster.daemon:
    name: slurmd
    files: [/etc/default/slurmd]
  become: true
"""

RETURN = r"""
action:
  description: What was done with the unit, V(start), V(restart), or empty for nothing.
  returned: success
  type: str
  sample: restart
reasons:
  description: Why it was restarted.
  returned: success
  type: list
  elements: str
  sample: [/etc/default/slurmd was changed]
"""


from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import bounded_run, daemon
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "files": {"type": "list", "elements": "path", "default": []},
        },
        supports_check_mode=True,
    )
    unit = module.params["name"]
    host = Host(bounded_run.feeding_runner(bounded_run.WORK))
    try:
        found = daemon.status(unit, host)
        if daemon.is_missing(found) and not module.check_mode:
            module.fail_json(msg=f"there is no unit {unit} on this machine; install its package first")
        wanted = daemon.plan(found, module.params["files"], host)
        if not module.check_mode:
            daemon.apply(unit, wanted, host)
    except daemon.DaemonError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(changed=wanted.changes, action=wanted.action, reasons=wanted.reasons)


if __name__ == "__main__":
    main()
