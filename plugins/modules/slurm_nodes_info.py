#!/usr/bin/python
# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Module that lists the nodes of Slurm and selects nodes for a test."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_nodes_info
short_description: List the nodes of Slurm and select nodes for a test
version_added: 0.1.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Returns every node with its state, and the nodes that match the options.
  - Fails with the reason if the partition or node does not exist, if no node is idle, or if fewer nodes are idle than
    requested.
extends_documentation_fragment:
  - hpcai.gpucluster._attributes
  - hpcai.gpucluster._attributes.info_module
options:
  partition:
    description:
      - Only nodes of this partition.
    type: str
  nodelist:
    description:
      - Only these nodes, as names or as Slurm's ranges such as V(gpu[1-4,7]).
    type: list
    elements: str
    default: []
  nodes:
    description:
      - Number of nodes. The first idle ones are selected.
    type: int
  busy_too:
    description:
      - Whether nodes with running jobs are selected as well.
    type: bool
    default: false
  select:
    description:
      - Whether the module fails if no node can be selected.
    type: bool
    default: true
"""

EXAMPLES = r"""
- name: Select all idle nodes of a partition
  hpcai.gpucluster.slurm_nodes_info:
    partition: main
  register: __nodes
"""

RETURN = r"""
nodes:
  description: All nodes of Slurm.
  returned: always
  type: list
  elements: dict
  contains:
    name:
      description: Name of the node.
      type: str
    partitions:
      description: Names of its partitions.
      type: list
      elements: str
    state:
      description: State in lower case, without flags.
      type: str
      sample: idle
    answers:
      description: Whether slurmd answers.
      type: bool
    version:
      description: Version of slurmd.
      type: str
    gres:
      description: Generic resources.
      type: str
    gpus:
      description: Number of GPUs among them.
      type: int
    cpus:
      description: Number of CPUs.
      type: int
    reason:
      description: Reason why the node is down or drained.
      type: str
    transition:
      description: >-
        Why the node gets no job now, whatever its state is, such as V(powering down) or V(about to reboot). Empty if
        there is no such reason.
      type: str
wanted:
  description: Names of the nodes of O(partition) and O(nodelist), in any state.
  returned: always
  type: list
  elements: str
selected:
  description: Names of the nodes that a test may use.
  returned: always
  type: list
  elements: str
busy:
  description: Names of the nodes that were skipped because they run jobs.
  returned: always
  type: list
  elements: str
unusable:
  description: Names of the nodes that are down, drained, reserved or in a transition, or do not answer.
  returned: always
  type: list
  elements: str
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.gpucluster.plugins.module_utils._slurm import allocation, job
from ansible_collections.hpcai.gpucluster.plugins.module_utils._slurm import nodes as slurm_nodes

if t.TYPE_CHECKING:
    from collections.abc import Sequence

    from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.bounded_run import Runner


def names(run: Runner, expressions: Sequence[str]) -> list[str]:
    """Return the node names of ranges."""
    if not expressions:
        return []
    code, out, err = run(["scontrol", "show", "hostnames", ",".join(expressions)])
    if code != 0:
        raise slurm_nodes.SelectionError(f"nodelist: {(err or out).strip()}")
    return out.split()


def info(run: Runner, params: dict[str, t.Any]) -> dict[str, t.Any]:
    """Return the nodes and the selection."""
    code, out, err = run(["sinfo", "--Node", "--noheader", f"--format={slurm_nodes.FORMAT}"])
    if code != 0:
        raise slurm_nodes.SelectionError(f"sinfo exited {code}: {(err or out).strip()}")
    nodes = slurm_nodes.parse(out)
    chosen = slurm_nodes.Selection([], [], [])
    partition, nodelist = params["partition"] or None, names(run, params["nodelist"])
    wanted = [node.name for node in slurm_nodes.meant(nodes, partition, nodelist)]
    if params["select"]:
        chosen = slurm_nodes.select(
            nodes,
            partition=partition,
            nodelist=nodelist,
            count=params["nodes"],
            busy_too=params["busy_too"],
        )
    listed = [dict(node._asdict(), partitions=list(node.partitions)) for node in nodes]
    return {"nodes": listed, "wanted": wanted, **chosen._asdict()}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "partition": {"type": "str"},
            "nodelist": {"type": "list", "elements": "str", "default": []},
            "nodes": {"type": "int"},
            "busy_too": {"type": "bool", "default": False},
            "select": {"type": "bool", "default": True},
        },
        supports_check_mode=True,
    )
    try:
        run = allocation.runner()
        found = info(lambda args: run(args, None), module.params)
    except (slurm_nodes.OutputError, slurm_nodes.SelectionError, job.SlurmError) as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(changed=False, **found)


if __name__ == "__main__":
    main()
