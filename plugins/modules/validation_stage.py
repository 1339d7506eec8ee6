#!/usr/bin/python
# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action validation_stage."""

from __future__ import annotations

DOCUMENTATION = r"""
module: validation_stage
short_description: Run one stage of the validation of a cluster
version_added: 0.1.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Runs all modules of a stage on a host that can submit jobs, evaluates their results, and returns the stage with its
    checks.
  - The role C(validate) runs the stages in order. M(hpcai.gpucluster.validation_report) writes the report.
  - Prints each step when it starts, so that the progress of a long stage is visible.
  - The search for a slow node is part of the stage V(nccl). It measures groups of nodes until the slow node or path is
    known, in about log2(number of nodes) measurements, plus two for each bad node.
  - A stage that cannot continue does not fail the task. It returns a failed check with the reason, in addition to all
    its measurements. The task fails only if a setting is wrong, before the first measurement.
  - Cancels its jobs when Ansible is interrupted, when the connection breaks, and when the C(timeout) of the task
    expires.
  - It is an action, which runs M(hpcai.gpucluster.slurm_nodes_info), M(hpcai.gpucluster.slurm_job),
    M(hpcai.gpucluster.nccl_test) and M(hpcai.gpucluster.training_log_info) on the host.
extends_documentation_fragment:
  - hpcai.gpucluster._attributes
attributes:
  check_mode:
    support: partial
    details: The stage V(preflight) runs, for it only asks. All others are skipped in check mode.
  diff_mode:
    support: N/A
    details: This action measures.
  idempotent:
    support: N/A
    details: This action measures each time.
options:
  stage:
    description: Name of the stage.
    type: str
    choices: [preflight, scheduler, node, nccl, training, after]
    required: true
  settings:
    description:
      - The inputs of the role C(validate) with the same names, without C(validate_). See C(ansible-doc -t role
        hpcai.gpucluster.validate).
      - All of C(busy_too), C(collectives), C(command), C(container_image), C(container_mounts), C(cpu_bind),
        C(cpus_per_task), C(dcgm_level), C(environment), C(gpus_per_node), C(hardware), C(iterations), C(max_bytes),
        C(min_bytes), C(mpi), C(node_checks), C(nodelist), C(nodes), C(pair_rounds), C(partition), C(pending_timeout),
        C(program), C(relative), C(repeats), C(search_rounds), C(stages), C(submit_options), C(test_timeout),
        C(thresholds) and C(time_limit) are required.
      - C(training) describes the job of the stage V(training), as the role C(training) sets it.
      - C(mpi_program) is the source of the Python program that measures MPI between CPUs.
    type: dict
    required: true
  facts:
    description:
      - Results of M(hpcai.gpucluster.node_consistency_info) by host. A host without C(versions) did not answer, and is
        excluded.
    type: dict
    default: {}
  earlier:
    description:
      - Results of this action for earlier stages, in order. Nodes that ran no job in one of them are excluded.
      - If empty, the stage selects its nodes.
    type: list
    elements: dict
    default: []
seealso:
  - module: hpcai.gpucluster.validation_report
"""

EXAMPLES = r"""
- name: Run jobs on all idle nodes
  hpcai.gpucluster.validation_stage:
    stage: scheduler
    settings: "{{ __validate_settings }}"
  register: __scheduler

- name: Measure the bandwidth between these nodes
  hpcai.gpucluster.validation_stage:
    stage: nccl
    settings: "{{ __validate_settings }}"
    earlier: ["{{ __scheduler }}"]
  register: __nccl
"""

RETURN = r"""
stage:
  description: The stage, as input for M(hpcai.gpucluster.validation_report).
  returned: always, except in check mode
  type: dict
  contains:
    stage:
      description: Name of the stage.
      type: str
    checks:
      description:
        - Each with C(check), C(title), C(node) (null for the whole cluster), C(status) (V(pass), V(warn), V(fail)
          or V(not_run)), and C(message).
      type: list
      elements: dict
    nodes:
      description: Names of the nodes that took part.
      type: list
      elements: str
nodes:
  description: Information about the nodes for the next stages.
  returned: always, except in check mode
  type: dict
"""
