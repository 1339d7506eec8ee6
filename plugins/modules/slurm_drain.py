#!/usr/bin/python
# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module that drains nodes of Slurm and resumes those that it drained."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_drain
short_description: Drain nodes of Slurm, and resume those with the same reason
version_added: 0.3.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Drains nodes with a reason, or resumes the nodes that have this reason.
  - Never changes a node that is drained, failed or down for another reason, such as the drain of an administrator.
extends_documentation_fragment:
  - hpcai.gpucluster._attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  nodes:
    description: Names of the nodes.
    type: list
    elements: str
    required: true
  state:
    description:
      - V(drained) drains nodes that are in service. Jobs that run there continue.
      - V(resumed) returns nodes to service that have O(reason).
    type: str
    choices: [drained, resumed]
    required: true
  reason:
    description: The reason that marks these drains as those of the caller.
    type: str
    required: true
  max_down:
    description:
      - Largest number of nodes that may be out of service afterwards, for any reason. The module fails and drains no
        node if there would be more.
    type: int
"""

EXAMPLES = r"""
- name: Drain two nodes, but never more than four of the cluster
  hpcai.gpucluster.slurm_drain:
    nodes: [gpu1, gpu2]
    state: drained
    reason: new driver
    max_down: 4

- name: Return them to service
  hpcai.gpucluster.slurm_drain:
    nodes: [gpu1, gpu2]
    state: resumed
    reason: new driver
"""

RETURN = r"""
nodes:
  description: Names of the nodes that were changed.
  returned: success
  type: list
  elements: str
ours:
  description: With V(drained), names of the nodes that are drained with O(reason).
  returned: success
  type: list
  elements: str
left:
  description: By name, the state and reason of each node that was not changed because of another reason.
  returned: success
  type: dict
  sample: {gpu3: "drained: bad cable"}
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.gpucluster.plugins.module_utils._slurm import drains
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import bounded_run

if t.TYPE_CHECKING:
    from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.bounded_run import Runner


def change(run: Runner, params: dict[str, t.Any], check_mode: bool) -> dict[str, t.Any]:
    """Change the nodes, and return the result of the module."""
    known, wanted, reason = drains.read(run), list(dict.fromkeys(params["nodes"])), params["reason"].strip()
    if not reason:
        raise drains.DrainError("reason is empty; any drain would count as one of the caller")
    drained = params["state"] == "drained"
    plan = drains.drain(known, wanted, reason, params["max_down"]) if drained else drains.resume(known, wanted, reason)
    if not check_mode:
        drains.apply(run, plan.change, ["State=DRAIN", f"Reason={reason}"] if drained else ["State=RESUME"])
    states = {node.name: node.condition for node in known}
    return {
        "changed": bool(plan.change),
        "nodes": plan.change,
        "ours": plan.ours,
        "left": plan.left,
        "diff": {
            "before": "".join(f"{name}: {states[name]}\n" for name in plan.change),
            "after": "".join(f"{name}: {f'drained: {reason}' if drained else 'in service'}\n" for name in plan.change),
        },
    }


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "nodes": {"type": "list", "elements": "str", "required": True},
            "state": {"choices": ["drained", "resumed"], "required": True},
            "reason": {"type": "str", "required": True},
            "max_down": {"type": "int"},
        },
        supports_check_mode=True,
    )
    try:
        result = change(bounded_run.feeding_runner(bounded_run.ASK), module.params, module.check_mode)
    except drains.DrainError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
