# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Return a stage of the validation."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation import shortfalls, stages

DOCUMENTATION = r"""
name: validation_stage
author: HPC AI Infrastructure Team (@hpcai)
version_added: 0.1.0
short_description: Judge what a stage of the validation measured
description:
  - Turns measurements into checks that have passed, warned, failed, or not run, and into what the report draws.
  - It is the role C(validate) that uses it; P(hpcai.gpucluster.validation_report#filter) takes what it returns.
positional: name
options:
  _input:
    description:
      - What was measured. C(nodes), C(ended) (seconds since 1970), C(error) (the text of what broke the stage off), and
        C(follows) (whether that follows from an earlier stage) can be in every stage; all but V(preflight) and V(after)
        take the nodes that were left out, as C(busy) (names), C(unusable) (nodes of
        M(hpcai.gpucluster.slurm_nodes_info)) and C(named) (whether they were asked for by name, which makes them
        failures).
      - V(preflight) takes C(facts) (M(hpcai.gpucluster.node_consistency_info) by node, null for one that does not
        answer) and C(states) (nodes of M(hpcai.gpucluster.slurm_nodes_info)).
      - V(scheduler) takes C(job) (results of M(hpcai.gpucluster.slurm_job)), C(mpi) (results of
        M(hpcai.gpucluster.nccl_test)), C(controllers) and C(accounting) (C(status) and C(message)), and C(containers)
        (C(plugin), C(image), and C(results) and C(mpi) as for the jobs and MPI of the nodes).
      - V(node) takes C(check), C(dcgm) and C(nvbandwidth) (results of M(hpcai.gpucluster.slurm_job)) and C(thresholds).
      - V(nccl) takes the input of P(hpcai.gpucluster.isolation#filter), C(node) (results in one node), and
        C(isolation) (its verdict). C(limits_from) says where the limits of each kind come from.
      - V(after) takes C(before) and C(states) (nodes of M(hpcai.gpucluster.slurm_nodes_info) at the beginning and at
        the end), the names C(meant) and C(measured), and C(hardware) (what
        P(hpcai.gpucluster.cluster_nodes#filter) returns).
    type: dict
    required: true
  name:
    description: Name of the stage.
    type: str
    choices: [preflight, scheduler, node, nccl, after]
    required: true
"""

EXAMPLES = r"""
- name: Judge the bandwidth of pairs
  ansible.builtin.set_fact:
    __stage: "{{ {'nodes': nodes, 'pair': __pairs.results} | hpcai.gpucluster.validation_stage('nccl') }}"
"""

RETURN = r"""
_value:
  description: The stage, with C(checks), and C(curves), C(pairs), C(isolation) and C(versions) where it has them.
  type: dict
"""


def validation_stage(raw: t.Mapping[str, t.Any], name: str) -> dict[str, t.Any]:
    """Return a stage."""
    try:
        return stages.build(name, raw)
    except (stages.StageError, shortfalls.ThresholdError) as exc:
        raise AnsibleFilterError(f"hpcai.gpucluster.validation_stage: {exc}") from exc


class FilterModule:
    """The filter."""

    def filters(self) -> dict[str, t.Any]:
        """Return the filter by name."""
        return {"validation_stage": validation_stage}
