#!/usr/bin/python
# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action validation_report."""

from __future__ import annotations

DOCUMENTATION = r"""
module: validation_report
short_description: Determine the verdict on a cluster and write the report
version_added: 0.1.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Combines the stages of a validation, compares them with an earlier run, and returns the verdict.
  - Writes C(report.json), C(junit.xml) and C(report.html) on the control node, to a directory with the name of the run.
  - C(report.html) is one file without scripts and external resources. Its size is bounded, because many nodes without a
    fault become one line.
  - In C(junit.xml) each stage is a suite, and each check of each node a case. Checks that did not run are skipped.
  - The verdict is V(fail) if a check failed, if a requested stage did not run, or if the run proved nothing. It is
    V(warn) if there are warnings or regressions, and V(pass) otherwise. A check that did not run never counts as
    passed.
  - The task does not fail if the verdict is V(fail).
  - It is an action; it needs no connection.
extends_documentation_fragment:
  - hpcai.gpucluster._attributes
attributes:
  check_mode:
    support: full
    details: Nothing is written in check mode.
  diff_mode:
    support: none
  idempotent:
    support: none
    details: The report says when it was made.
options:
  results:
    description:
      - Stages, as M(hpcai.gpucluster.validation_stage) returns them in
        RV(hpcai.gpucluster.validation_stage#module:stage).
    type: list
    elements: dict
    required: true
  stages:
    description: Names of the requested stages.
    type: list
    elements: str
    required: true
  run:
    description:
      - Name of the run, and of its directory. If it is the start time as C(20261120T101500Z), the report contains the
        duration.
    type: str
    required: true
  cluster:
    description: Name of the cluster.
    type: str
    default: ""
  directory:
    description: Directory on the control node that contains the reports of all runs.
    type: path
    required: true
  baseline:
    description:
      - Path of an earlier C(report.json) on the control node to compare with. A figure that is lower by more than
        10 percent (80 between CPUs), or a worse status, is a regression.
    type: path
  regression_percent:
    description: A figure that is lower than that of O(baseline) by more than this fails.
    type: int
    default: 50
    version_added: 0.3.0
  reasons:
    description: Output of the prologs of drained nodes, by node. It completes Slurm's reason C(Prolog error).
    type: dict
    default: {}
  plots:
    description: Whether the page shows bandwidth by message size and the map of pairs.
    type: bool
    default: true
seealso:
  - module: hpcai.gpucluster.validation_stage
"""

EXAMPLES = r"""
- name: Write the report
  hpcai.gpucluster.validation_report:
    results: ["{{ __scheduler.stage }}", "{{ __nccl.stage }}"]
    stages: [scheduler, nccl]
    run: "{{ now(utc=true, fmt='%Y%m%dT%H%M%SZ') }}"
    directory: ~/validation
  register: __report

- name: Fail if the verdict is fail
  ansible.builtin.assert:
    that: __report.verdict != 'fail'
    fail_msg: "{{ [__report.summary] + __report.worst }}"
"""

RETURN = r"""
verdict:
  description: V(pass), V(warn) or V(fail).
  returned: always
  type: str
summary:
  description: The verdict in one sentence.
  returned: always
  type: str
worst:
  description:
    - Failed checks, then regressions and warnings, one line each. The node or path that the search found comes first.
  returned: always
  type: list
  elements: str
page:
  description: Path of C(report.html).
  returned: always
  type: str
brief:
  description: Time, verdict, states of the stages and slowest figures, for the monitoring.
  returned: always
  type: dict
  version_added: 0.3.0
"""
