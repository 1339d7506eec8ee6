#!/usr/bin/python
# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Manage QOS, accounts and users of Slurm's accounting."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_accounts
short_description: Manage QOS, accounts, users, limits and fair share of Slurm's accounting
version_added: 0.1.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Reads the accounting of a cluster, compares it with the lists, and changes only the differences.
  - Checks all entries before the first change. It checks limits more strictly than sacctmgr itself, which accepts
    V(cpu=12x) as 12 without an error.
  - Entries that are not listed are unchanged, unless O(exclusive=true). Options that are not set are unchanged, too.
  - Runs on a machine with sacctmgr, as a user who may change the accounting, such as root or SlurmUser. It supports
    Slurm 22.05 and newer.
extends_documentation_fragment:
  - hpcai.gpucluster._attributes
attributes:
  check_mode:
    support: full
    details: Without sacctmgr or a slurmdbd that answers, check mode predicts from an accounting that holds nothing.
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  cluster:
    description: Name of the cluster, as in C(ClusterName) of slurm.conf.
    type: str
    required: true
  qos:
    description: The QOS.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name in lower case.
        type: str
        required: true
      description:
        description: Purpose of the QOS.
        type: str
      priority:
        description: Priority; jobs with a higher one start earlier.
        type: int
      flags:
        description: Flags, such as V(DenyOnLimit); an empty list clears them.
        type: list
        elements: str
      preempt:
        description: QOS whose jobs this one may preempt; an empty list clears them.
        type: list
        elements: str
      preempt_mode:
        description: How jobs of this QOS are preempted. V(cluster) uses the setting of slurm.conf.
        type: str
        choices: [cluster, cancel, gang, requeue, suspend]
      limits:
        description:
          - Limits by name, as in sacctmgr(1), such as V(MaxTRESPerUser), V(MaxWallDurationPerJob), V(MaxJobsPerUser) or
            V(GraceTime). Short names such as V(MaxTRESPU) and V(MaxWall) are accepted, too.
          - TRES are a mapping or pairs such as V(cpu=64,gres/gpu=8), memory in MiB or with G, T or P. A limit of TRES
            replaces the whole limit; TRES that it does not name have no limit.
          - Times are minutes (C(GraceTime) is seconds), hours:minutes:seconds, or days-hours:minutes:seconds.
          - V(-1), V(none) or null clears a limit.
        type: dict
      state:
        description: Whether the QOS exists.
        type: str
        choices: [present, absent]
        default: present
  accounts:
    description: The accounts.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name in lower case.
        type: str
        required: true
      description:
        description: Purpose of the account; Slurm stores it in lower case.
        type: str
      organization:
        description: Organization of the account; Slurm stores it in lower case.
        type: str
      parent:
        description: Name of the parent account. Without it a new account is below V(root).
        type: str
      fairshare:
        description: Share among the accounts and users with the same parent, or V(parent).
        type: str
      qos:
        description: QOS that may be used. With an empty list, the account uses those of its parent account.
        type: list
        elements: str
      default_qos:
        description: QOS of jobs that request none.
        type: str
      limits:
        description: Limits of the account, in the form of the limits of a QOS, such as V(GrpTRES) or V(MaxJobs).
        type: dict
      state:
        description: Whether the account exists. With V(absent), all accounts and users below it are removed, too.
        type: str
        choices: [present, absent]
        default: present
  users:
    description: The users.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the user in lower case.
        type: str
        required: true
      account:
        description:
          - Account of the user. The next four options then apply to the user in this account.
          - Use O(users[].associations) for more than one account.
        type: str
      fairshare:
        description: Share among the users of O(users[].account), or V(parent).
        type: str
      qos:
        description: QOS that may be used in O(users[].account). With an empty list, the user has those of the account.
        type: list
        elements: str
      default_qos:
        description: QOS of jobs in O(users[].account) that request none.
        type: str
      limits:
        description: Limits of the user in O(users[].account).
        type: dict
      associations:
        description: Accounts of the user, with the settings of each.
        type: list
        elements: dict
        suboptions:
          account:
            description: Name of the account.
            type: str
            required: true
          partition:
            description: Name of the partition to which the association is restricted. Empty for all.
            type: str
            default: ""
          fairshare:
            description: Share among the users of the account, or V(parent).
            type: str
          qos:
            description: QOS that may be used. With an empty list, the user has those of the account.
            type: list
            elements: str
          default_qos:
            description: QOS of jobs that request none.
            type: str
          limits:
            description: Limits of the user in the account.
            type: dict
      default_account:
        description: Account of jobs that request none. The default for a new user is the first account.
        type: str
      admin_level:
        description: Administrative rights of the user over the accounting and the jobs of others.
        type: str
        choices: [administrator, none, operator]
      state:
        description: Whether the user exists in the accounting of this cluster.
        type: str
        choices: [present, absent]
        default: present
  exclusive:
    description:
      - Whether entries that are not listed are removed. These are QOS, accounts, users, associations of listed users,
        and limits of listed entries. Account and user V(root) and QOS V(normal) are kept.
    type: bool
    default: false
  executable:
    description: Name or path of sacctmgr.
    type: path
    default: sacctmgr
"""

EXAMPLES = r"""
- name: Share the cluster between two groups, three to one
  hpcai.gpucluster.slurm_accounts:
    cluster: lab
    qos:
      - name: high
        priority: 100
        flags: [DenyOnLimit]
        limits: {MaxTRESPerUser: {gres/gpu: 16}, MaxWall: 1-00:00:00}
    accounts:
      - name: research
        fairshare: 3
        qos: [normal, high]
        limits: {GrpTRES: {gres/gpu: 64}}
      - name: teaching
        fairshare: 1
        limits: {MaxWall: 120}
    users:
      - {name: alice, account: research, admin_level: operator}
      - name: bob
        default_account: teaching
        associations:
          - account: teaching
          - {account: research, limits: {MaxJobs: 2}}
  become: true
"""

RETURN = r"""
commands:
  description: Arguments of sacctmgr, one list for each change; in check mode, those of the predicted changes.
  returned: success
  type: list
  elements: list
  sample: [[modify, account, where, name=research, cluster=lab, set, Fairshare=3]]
problems:
  description: All faults of the lists. Nothing has been changed.
  returned: when something is wrong
  type: list
  elements: str
  sample: ["account research: GrpTRES: cpu is '12x', expected a whole number, or -1 for no limit"]
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.gpucluster.plugins.module_utils._slurm import accounts, accounts_plan
from ansible_collections.hpcai.gpucluster.plugins.module_utils._slurm.sacctmgr import Sacctmgr, SacctmgrError
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import bounded_run


class ProblemsError(Exception):
    """The lists have faults."""

    def __init__(self, problems: list[str]) -> None:
        """Join the problems into one message."""
        super().__init__("; ".join(problems))
        self.problems = problems


def present_state(sacctmgr: Sacctmgr | None, cluster: str, check_mode: bool) -> accounts.Accounting:
    """Return the present accounting; in check mode an empty one if sacctmgr is missing or fails."""
    nothing = accounts.Accounting(qos={accounts.KEPT_QOS: {}})
    if sacctmgr is None:
        return nothing
    try:
        return sacctmgr.read(cluster)
    except SacctmgrError:
        if check_mode:
            return nothing
        raise


def apply(sacctmgr: Sacctmgr | None, params: dict[str, t.Any], check_mode: bool) -> dict[str, t.Any]:
    """Apply the lists to the accounting and return what changed."""
    wanted = accounts.wanted(params["qos"], params["accounts"], params["users"], params["exclusive"])
    if wanted.problems:
        raise ProblemsError(wanted.problems)
    present = present_state(sacctmgr, params["cluster"], check_mode)
    problems = accounts_plan.problems(present, wanted)
    if problems:
        raise ProblemsError(problems)
    plan = accounts_plan.make(present, wanted, params["cluster"], params["exclusive"])
    if sacctmgr is not None and not check_mode:
        for call in plan.calls:
            sacctmgr.change(call)
    return {
        "changed": bool(plan.calls),
        "commands": plan.calls,
        "diff": {"before": plan.before, "after": plan.after},
    }


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "cluster": {"type": "str", "required": True},
            **accounts.OPTIONS,
            "exclusive": {"type": "bool", "default": False},
            "executable": {"type": "path", "default": "sacctmgr"},
        },
        supports_check_mode=True,
    )
    executable = module.get_bin_path(module.params["executable"], required=not module.check_mode)
    run = bounded_run.feeding_runner(bounded_run.CHANGE)
    sacctmgr = Sacctmgr(run=run, executable=executable) if executable else None
    try:
        result = apply(sacctmgr, module.params, check_mode=module.check_mode)
    except ProblemsError as exc:
        module.fail_json(msg=f"Nothing was changed. {exc}", problems=exc.problems)
    except (SacctmgrError, ValueError) as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
