#!/usr/bin/python
# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep QOS, accounts and users of Slurm's accounting as they are listed."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_accounts
short_description: QOS, accounts, users, limits and fair share of Slurm's accounting as data
version_added: 0.1.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Reads what the accounting of a cluster holds, compares it with what is listed, and changes only the difference.
  - Everything that is listed is judged before the first change. Limits are judged more strictly than by sacctmgr
    itself, which takes V(cpu=12x) as 12 without an error.
  - What is not listed is left alone, unless O(exclusive=true). Options that are not given are left alone, too.
  - Runs on a machine with sacctmgr, as a user who may change the accounting, such as root or SlurmUser. It works with
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
        description: What it is for.
        type: str
      priority:
        description: Priority; the higher the sooner.
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
        description: How jobs of this QOS are preempted. V(cluster) takes what slurm.conf says.
        type: str
        choices: [cluster, cancel, gang, requeue, suspend]
      limits:
        description:
          - Limits by name, as in sacctmgr(1), such as V(MaxTRESPerUser), V(MaxWallDurationPerJob), V(MaxJobsPerUser)
            or V(GraceTime). Short names such as V(MaxTRESPU) and V(MaxWall) work, too.
          - TRES are a mapping or pairs such as V(cpu=64,gres/gpu=8), memory in MiB or with G, T or P. A limit of TRES
            is meant whole; TRES that it does not name have no limit.
          - Times are minutes (C(GraceTime) is seconds), hours:minutes:seconds, or days-hours:minutes:seconds.
          - A value of V(-1) or none clears a limit.
        type: dict
      state:
        description: Whether it shall be there.
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
        description: What it is for; Slurm keeps it in lower case.
        type: str
      organization:
        description: Whose it is; Slurm keeps it in lower case.
        type: str
      parent:
        description: Name of the account above. Without it a new account is below V(root).
        type: str
      fairshare:
        description: Share among the accounts or users beside it, or V(parent).
        type: str
      qos:
        description: QOS that may be used. An empty list takes those of the account above.
        type: list
        elements: str
      default_qos:
        description: QOS of jobs that name none.
        type: str
      limits:
        description: Limits of the account, in the form of the limits of a QOS, such as V(GrpTRES) or V(MaxJobs).
        type: dict
      state:
        description: Whether it shall be there. An account leaves with all that is below it.
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
          - Account of the user. The next four options then hold for the user in this account.
          - Use O(users[].associations) for more than one account.
        type: str
      fairshare:
        description: Share among the users of O(users[].account), or V(parent).
        type: str
      qos:
        description: QOS that may be used in O(users[].account). An empty list takes those of the account.
        type: list
        elements: str
      default_qos:
        description: QOS of jobs in O(users[].account) that name none.
        type: str
      limits:
        description: Limits of the user in O(users[].account).
        type: dict
      associations:
        description: Accounts of the user, with what holds in each of them.
        type: list
        elements: dict
        suboptions:
          account:
            description: Name of the account.
            type: str
            required: true
          partition:
            description: Name of the only partition that this is about. Empty for all.
            type: str
            default: ""
          fairshare:
            description: Share among the users of the account, or V(parent).
            type: str
          qos:
            description: QOS that may be used. An empty list takes those of the account.
            type: list
            elements: str
          default_qos:
            description: QOS of jobs that name none.
            type: str
          limits:
            description: Limits of the user in the account.
            type: dict
      default_account:
        description: Account of jobs that name none. Without it the first account of a new user.
        type: str
      admin_level:
        description: What the user may do to the accounting and to jobs of others.
        type: str
        choices: [administrator, none, operator]
      state:
        description: Whether the user shall be in the accounting of this cluster.
        type: str
        choices: [present, absent]
        default: present
  exclusive:
    description:
      - Whether what is not listed is removed. QOS, accounts and users that are not listed go, and so do associations of
        listed users and limits of listed entries. Account and user V(root) and QOS V(normal) stay.
    type: bool
    default: false
  executable:
    description: The sacctmgr command.
    type: path
    default: sacctmgr
"""

EXAMPLES = r"""
- name: Two groups share the cluster, three to one
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
  description: Arguments of sacctmgr, one list for each change; in check mode those that would be used.
  returned: success
  type: list
  elements: list
  sample: [[modify, account, where, name=research, cluster=lab, set, Fairshare=3]]
problems:
  description: Everything that is wrong with what is listed. Nothing has been changed.
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
    """What is listed cannot be had."""

    def __init__(self, problems: list[str]) -> None:
        """Join the problems to one message."""
        super().__init__("; ".join(problems))
        self.problems = problems


def present_state(sacctmgr: Sacctmgr | None, cluster: str, check_mode: bool) -> accounts.Accounting:
    """Return what the accounting holds; in check mode nothing where nobody answers yet."""
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
    """Bring the accounting to what is listed and describe what changed."""
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
