#!/usr/bin/python
# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module that makes systemd run a daemon with its current program and configuration."""

from __future__ import annotations

DOCUMENTATION = r"""
module: daemon
short_description: Run a daemon with its current program and configuration
version_added: 0.1.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Enables and starts a unit of systemd. Restarts it if its program was replaced, or one of its files was changed,
    after it was started.
  - The state of the running daemon decides, not the changes of this run of Ansible. An interrupted run loses its
    handlers, because the next run finds the files unchanged; this module still restarts the daemon then.
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
    description: Name of the unit.
    type: str
    required: true
  files:
    description:
      - Files that the daemon reads only when it starts. It is restarted if one of them is newer than its start.
        A missing file is ignored.
      - A file counts as changed if it was written or renamed, or if its owner or mode was changed.
    type: list
    elements: path
    default: []
  failure:
    description:
      - A sentence about a daemon that does not do what it should. The module then changes nothing, and fails with this
        sentence, the last lines of the journal of the unit, and the next step if it knows the state.
    type: str
    version_added: 0.3.0
seealso:
  - module: ansible.builtin.systemd_service
"""

EXAMPLES = r"""
- name: Run slurmd with its current options
  hpcai.gpucluster.daemon:
    name: slurmd
    files: [/etc/default/slurmd]
  become: true
"""

RETURN = r"""
action:
  description: Action on the unit, V(start), V(restart), or empty for none.
  returned: success
  type: str
  sample: restart
reasons:
  description: Reasons for the restart.
  returned: success
  type: list
  elements: str
  sample: [/etc/default/slurmd was changed]
"""


from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import bounded_run, daemon, journal
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "files": {"type": "list", "elements": "path", "default": []},
            "failure": {"type": "str"},
        },
        supports_check_mode=True,
    )
    unit = module.params["name"]
    host = Host(bounded_run.feeding_runner(bounded_run.WORK))
    if module.params["failure"]:
        module.fail_json(msg=f"{module.params['failure']} {journal.why(unit, host)}")
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
