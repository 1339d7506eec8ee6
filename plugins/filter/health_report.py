# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Combine the output of the health program from many nodes into one table and one verdict."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._health import report

DOCUMENTATION = r"""
name: health_report
author: HPC AI Infrastructure Team (@hpcai)
version_added: 0.1.0
short_description: Combine the output of the health program from many nodes into one table and one verdict
description:
  - Reads the JSON lines that C(gpucluster-check --json) prints, one per node. Other lines are ignored.
  - An expected node that did not answer is not healthy. An empty output is not healthy either.
  - A check that applies to the hardware and did not run is neither healthy nor unhealthy.
positional: expected
options:
  _input:
    description: Outputs of C(gpucluster-check --json), each from one or more nodes.
    type: list
    elements: str
    required: true
  expected:
    description: Names of the nodes that must have answered.
    type: list
    elements: str
    default: []
seealso:
  - plugin: hpcai.gpucluster.health_expectations
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Show the table
  ansible.builtin.debug:
    msg: "{{ ([__run.stdout] | hpcai.gpucluster.health_report(['gpu1', 'gpu2'])).table }}"
"""

RETURN = r"""
_value:
  description: The report.
  type: dict
  contains:
    status:
      description:
        - V(healthy) if every expected node answered and every check that applies to it passed.
        - V(not run) if there is no fault, but a check that applies to the hardware did not run, or no check applied.
        - V(unhealthy) otherwise.
      type: str
    healthy:
      description: Whether RV(_value.status=healthy).
      type: bool
    nodes:
      description: By node, its output.
      type: dict
    faults:
      description: Results that are unhealthy, suspect or unknown, with V(node), V(check), V(status) and V(reason).
      type: list
      elements: dict
    not_run:
      description: Checks that apply to the hardware and did not run, in the same form.
      type: list
      elements: dict
    missing:
      description: Expected nodes that did not answer.
      type: list
      elements: str
    summary:
      description: Readable lines with all faults, including nodes that did not answer. Empty if there is no fault.
      type: list
      elements: str
    table:
      description: Lines of a table, one check per line and one node per column.
      type: list
      elements: str
"""


def health_report(outputs: t.Any, expected: t.Any = ()) -> dict[str, t.Any]:
    """Return the report."""
    if not isinstance(outputs, (list, tuple)) or not all(isinstance(output, str) for output in outputs):
        raise AnsibleFilterError(
            f"hpcai.gpucluster.health_report: expected a list of outputs, found {type(outputs).__name__}"
        )
    return report.report(outputs, expected)


class FilterModule:
    """Offer the filter to Ansible."""

    def filters(self) -> dict[str, t.Any]:
        """Return the filters by name."""
        return {"health_report": health_report}
