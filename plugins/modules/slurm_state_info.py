#!/usr/bin/python
# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module that reads what a controller knows, and that a run could lose."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_state_info
short_description: Read what a controller of Slurm knows and a run could lose
version_added: 0.3.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Returns the cluster that the saved state of slurmctld belongs to.
  - Returns the users of the machine who would get another UID or be removed, and their jobs. It asks Slurm only
    if there are such users.
extends_documentation_fragment:
  - hpcai.gpucluster._attributes
  - hpcai.gpucluster._attributes.info_module
options:
  state_directory:
    description: The directory of slurmctld's state.
    type: path
    default: /var/spool/slurmctld
  users:
    description: The wanted UID of each user by name.
    type: dict
    default: {}
  removed:
    description: Names of users to be removed.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Find the jobs of a user who is to be removed
  hpcai.gpucluster.slurm_state_info:
    removed: [mallory]
  become: true
"""

RETURN = r"""
cluster:
  description: Name of the cluster in the saved state; empty without one.
  returned: success
  type: str
  sample: gpucluster
leaving:
  description: UIDs of the users who would get another UID or be removed, by name.
  returned: success
  type: dict
  sample: {mallory: 2666}
jobs:
  description: The jobs of these users that have not ended, by name.
  returned: success
  type: dict
  sample: {mallory: ["17 (RUNNING on gpu1)", "18_[2-9] (PENDING)"]}
problem:
  description: Why Slurm does not say which jobs it has; empty if it does.
  returned: success
  type: str
  sample: ""
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.gpucluster.plugins.module_utils._accounts.database import Database
from ansible_collections.hpcai.gpucluster.plugins.module_utils._slurm import user_jobs
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import bounded_run
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host


def cluster(host: Host, directory: str) -> str:
    """Return the name in the saved state; empty without one, or where it is on storage that does not answer."""
    command = ("cat", "--", f"{directory}/clustername")
    # Root may not read what is on storage of others.
    for prefix in ((), ("runuser", "--user", "slurm", "--")):
        code, out, __ = host.run([*prefix, *command])
        # slurmctld writes the name before it first reaches slurmdbd, and the state of jobs only once it works.
        if code == 0 and host.run([*prefix, "test", "-e", f"{directory}/job_state"])[0] == 0:
            # The name and, in newer releases, a number: lab|2667.
            return out.partition("|")[0].strip()
    return ""


def state(host: Host, params: dict[str, t.Any]) -> dict[str, t.Any]:
    """Return what the module returns; raises OSError for a file that exists and cannot be read."""
    accounts = Database.read(host.read_required).users
    present = {name: account.uid for name, account in accounts.items()}
    wanted = {name: int(uid) for name, uid in params["users"].items()}
    leaving = user_jobs.leaving(present, wanted, params["removed"])
    jobs, problem = dict[int, "list[str]"](), ""
    try:
        jobs = user_jobs.jobs(host.run, leaving.values()) if leaving else {}
    except user_jobs.Unknown as exc:
        problem = str(exc)
    return {
        "cluster": cluster(host, params["state_directory"]),
        "leaving": leaving,
        "jobs": {name: jobs[uid] for name, uid in leaving.items() if uid in jobs},
        "problem": problem,
    }


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "state_directory": {"type": "path", "default": "/var/spool/slurmctld"},
            "users": {"type": "dict", "default": {}},
            "removed": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    host = Host(bounded_run.feeding_runner(bounded_run.ASK))
    try:
        found = state(host, module.params)
    except (OSError, ValueError) as exc:
        module.fail_json(msg=f"what Slurm knows cannot be read: {exc}")
    module.exit_json(changed=False, **found)


if __name__ == "__main__":
    main()
