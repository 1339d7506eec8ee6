#!/usr/bin/python
# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module that waits until Slurm is in a wanted state."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_wait
short_description: Wait for the controller, the nodes or the end of the jobs of Slurm
version_added: 0.3.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Queries Slurm until the condition is met or the time is over, in one task without retries.
extends_documentation_fragment:
  - hpcai.gpucluster._attributes
  - hpcai.gpucluster._attributes.info_module
options:
  condition:
    description:
      - V(controller_answers) waits until a controller answers. A failure has the last lines of the journal of slurmctld
        of this machine, which only root can read, and the next step if the module knows the state.
      - V(nodes_registered) waits until slurmd of each of O(nodes) has registered with the controller. A drained node
        has registered. A node whose name the controller cannot resolve has not, although Slurm shows it as idle.
      - V(jobs_ended) waits until no job uses O(nodes), or any node if O(nodes) is empty. Pending jobs do not count.
    type: str
    choices: [controller_answers, nodes_registered, jobs_ended]
    required: true
  nodes:
    description: Names of the nodes.
    type: list
    elements: str
    default: []
  seconds:
    description: Longest time to wait in seconds. V(0) queries once.
    type: int
    default: 60
  fail:
    description: Whether the module fails if the condition is not met in time.
    type: bool
    default: true
"""

EXAMPLES = r"""
- name: Wait until the nodes have registered
  hpcai.gpucluster.slurm_wait:
    condition: nodes_registered
    nodes: [gpu1, gpu2]

- name: Wait an hour for the jobs of a node
  hpcai.gpucluster.slurm_wait:
    condition: jobs_ended
    nodes: [gpu1]
    seconds: 3600
"""

RETURN = r"""
reached:
  description: Whether the condition is met.
  returned: always
  type: bool
nodes:
  description: By name of a node, whether it has registered, and its state with the reason. The state is empty if Slurm
    does not know the node.
  returned: with V(nodes_registered)
  type: dict
  sample: {gpu1: {registered: true, state: idle}}
jobs:
  description: The jobs that still use the nodes.
  returned: with V(jobs_ended)
  type: list
  elements: str
  sample: ["17 train of alice, RUNNING, 1:00:00 left"]
problem:
  description: The error of Slurm's command, if any.
  returned: always
  type: str
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.gpucluster.plugins.module_utils._slurm import waiting
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import bounded_run, journal
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host

if t.TYPE_CHECKING:
    from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.bounded_run import Runner


def query(run: Runner, condition: str, nodes: list[str]) -> waiting.Found:
    """Query Slurm once."""
    if condition == "controller_answers":
        return waiting.controller(run)
    return (waiting.nodes if condition == "nodes_registered" else waiting.jobs)(run, nodes)


def result(found: waiting.Found) -> dict[str, t.Any]:
    """Return what the module returns."""
    states = {name: {"registered": here, "state": state} for name, (here, state) in found.nodes.items()}
    return {"reached": found.reached, "nodes": states, "jobs": list(found.jobs), "problem": found.problem}


def message(found: waiting.Found, condition: str, seconds: int) -> str:
    """Return why the condition is not met."""
    silent = [f"{name}: {state or 'unknown to Slurm'}" for name, (here, state) in found.nodes.items() if not here]
    details = found.problem or "; ".join([*silent, *found.jobs])
    return f"{condition} is not met after {seconds} s: {details or 'Slurm said nothing'}"


def reason(found: waiting.Found, condition: str, host: Host) -> str:
    """Return why slurmctld of this machine does not answer; empty for other conditions."""
    silent = condition == "controller_answers" and not found.missing
    return f". {journal.why('slurmctld', host)}" if silent else ""


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "condition": {"choices": ["controller_answers", "nodes_registered", "jobs_ended"], "required": True},
            "nodes": {"type": "list", "elements": "str", "default": []},
            "seconds": {"type": "int", "default": 60},
            "fail": {"type": "bool", "default": True},
        },
        required_if=[("condition", "nodes_registered", ["nodes"])],
        supports_check_mode=True,
    )
    params = module.params
    run = bounded_run.feeding_runner(bounded_run.ASK)
    found = waiting.wait(lambda: query(run, params["condition"], params["nodes"]), params["seconds"])
    if params["fail"] and not found.reached:
        text = message(found, params["condition"], params["seconds"])
        module.fail_json(msg=text + reason(found, params["condition"], Host(run)), **result(found))
    module.exit_json(changed=False, **result(found))


if __name__ == "__main__":
    main()
