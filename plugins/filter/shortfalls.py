# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Return what falls short."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation import shortfalls as validation_shortfalls

DOCUMENTATION = r"""
name: shortfalls
author: HPC AI Infrastructure Team (@hpcai)
version_added: 0.1.0
short_description: Return what falls short of thresholds, or lies below the others
description:
  - Compares numbers with thresholds of which more is better, such as those of the hardware catalogue, and numbers
    of the same kind with each other.
  - An empty result is a pass. A value that is missing falls short.
  - An outlier has a modified z score (from the median and the median distance from it, after Iglewicz and Hoaglin)
    below
    -3.5, and lies more than 5 percent below the median of at least three others.
  - Fails if a threshold is no number, or contradicts itself, such as a C(warn) below its C(fail).
positional: thresholds
options:
  _input:
    description:
      - What was measured, by metric. A value is a number, or a mapping of names (of nodes, GPUs or pairs) to numbers.
    type: dict
    required: true
  thresholds:
    description:
      - Thresholds by metric, in the unit of what was measured.
      - A value is a mapping with any of C(expected), C(warn) and C(fail); a bare number means C(fail).
      - C(expected) is only checked for sense, not for being reached.
    type: dict
    default: {}
  outliers:
    description: Whether outliers are found; they have the level V(warn).
    type: bool
    default: true
  relative:
    description: Fractions C(warn) and C(fail) of the median of at least two others that each value must reach.
    type: dict
"""

EXAMPLES = r"""
- name: Fail where the bandwidth is too low
  ansible.builtin.assert:
    that: not __short
    fail_msg: "{{ __short }}"
  vars:
    __short: "{{ {'nccl_allreduce_busbw_gbps': __measured} | hpcai.gpucluster.shortfalls(__record.thresholds) }}"
    __measured: {gpu1: 461.2, gpu2: 188.0}
    __record: "{{ 'Standard_ND96isr_H100_v5' | hpcai.gpucluster.vm_size }}"
"""

RETURN = r"""
_value:
  description: What falls short, worst first.
  type: list
  elements: dict
  contains:
    metric:
      description: The metric.
      type: str
    name:
      description: Name of the value; empty if there is only one.
      type: str
    measured:
      description: The value; null if it is missing.
      type: float
    level:
      description: V(warn) or V(fail).
      type: str
    limit:
      description: What it is below.
      type: float
    message:
      description: The same in words.
      type: str
"""


def shortfalls(
    measured: t.Mapping[str, t.Any],
    thresholds: t.Mapping[str, t.Any] | None = None,
    outliers: bool = True,
    relative: t.Mapping[str, float] | None = None,
) -> list[dict[str, t.Any]]:
    """Return what falls short."""
    try:
        found = validation_shortfalls.shortfalls(measured, thresholds or {}, outliers=outliers, relative=relative)
    except validation_shortfalls.ThresholdError as exc:
        raise AnsibleFilterError(f"hpcai.gpucluster.shortfalls: {exc}") from exc
    return [item._asdict() for item in found]


class FilterModule:
    """The filter."""

    def filters(self) -> dict[str, t.Any]:
        """Return the filter by name."""
        return {"shortfalls": shortfalls}
