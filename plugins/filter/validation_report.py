# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Return the report of a validation."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation import report

DOCUMENTATION = r"""
name: validation_report
author: HPC AI Infrastructure Team (@hpcai)
version_added: 0.1.0
short_description: Put the stages of a validation together and reach the verdict
description:
  - The verdict is V(fail) if a check failed, if a stage that was asked for did not run, or if nothing at all was
    proved. It is V(warn) if there are warnings or regressions, and V(pass) otherwise.
  - A check that did not run is never counted as passed.
  - Fails if a stage is unknown, or if the baseline is no report.
positional: about, baseline
options:
  _input:
    description: Stages as P(hpcai.gpucluster.validation_stage#filter) returns them.
    type: list
    elements: dict
    required: true
  about:
    description:
      - What the run was, such as C(run), C(started), C(finished), C(cluster), and C(stages), the names of the
        stages that were asked for.
    type: dict
    required: true
  baseline:
    description:
      - An earlier report to compare with. A figure more than 10 percent lower (80 between CPUs), or a worse status, is
        a regression.
    type: dict
"""

EXAMPLES = r"""
- name: Reach the verdict
  ansible.builtin.set_fact:
    __report: "{{ [__stage] | hpcai.gpucluster.validation_report({'run': '20261120T101500Z', 'stages': ['nccl']}) }}"
"""

RETURN = r"""
_value:
  description: The report, as it is written to C(report.json).
  type: dict
  contains:
    verdict:
      description: V(pass), V(warn) or V(fail).
      type: str
    summary:
      description: The verdict in one sentence.
      type: str
    checks:
      description: All checks, with what to do about those that did not pass.
      type: list
      elements: dict
    stages:
      description: How each stage went.
      type: list
      elements: dict
    versions:
      description: The usual version of each component.
      type: dict
    baseline:
      description: C(regressions), C(improvements), and C(versions) that changed since the baseline; null without one.
      type: dict
"""


def validation_report(
    stages: t.Sequence[t.Mapping[str, t.Any]],
    about: t.Mapping[str, t.Any],
    baseline: t.Mapping[str, t.Any] | None = None,
) -> dict[str, t.Any]:
    """Return the report."""
    try:
        return report.build(stages, about, baseline)
    except report.ReportError as exc:
        raise AnsibleFilterError(f"hpcai.gpucluster.validation_report: {exc}") from exc


class FilterModule:
    """The filter."""

    def filters(self) -> dict[str, t.Any]:
        """Return the filter by name."""
        return {"validation_report": validation_report}
