# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute the configuration of the health program from a hardware record."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue.plain import plain
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._health import expectations

DOCUMENTATION = r"""
name: health_expectations
author: HPC AI Infrastructure Team (@hpcai)
version_added: 0.1.0
short_description: Compute the configuration of the health program from a hardware record
description:
  - Returns the configuration of C(gpucluster-check), which the role P(hpcai.gpucluster.health#role) writes to
    C(/etc/gpucluster/check.json).
  - The expected values come from the record, from the inputs of the roles that configure the machine, and from a table
    of thresholds. They never come from the machine that is checked.
  - The page C(docs/health.md) lists every check and parameter with its unit and source.
  - Fails if an override names an unknown check or parameter, or has a wrong type. The message lists all errors.
positional: overrides
options:
  _input:
    description: A record as P(hpcai.gpucluster.vm_size#filter) returns it.
    type: dict
    required: true
  overrides:
    description:
      - By check, the parameters that replace the computed ones.
      - V(null) removes an expected value, so that it is not checked. C(enabled=false) disables a check.
    type: dict
    default: {}
  prolog:
    description:
      - The checks that run before each job.
      - The default is C(gpu_count), C(gpu_ecc), C(gpu_remap), C(gpu_xid), C(infiniband) and C(mounts).
    type: list
    elements: str
  inputs:
    description:
      - Inputs of the roles P(hpcai.gpucluster.gpu#role) and P(hpcai.gpucluster.nccl#role) on this machine, by name.
        Inputs that are missing or V(null) have the defaults of these roles.
      - C(gpu_count), C(gpu_persistence), C(gpu_clocks), C(gpu_memory_clock), C(gpu_graphics_clock),
        C(gpu_clock_method), C(nccl_hardware), C(nccl_topology) and C(nccl_topology_path) change the expected values.
    type: dict
    default: {}
seealso:
  - plugin: hpcai.gpucluster.vm_size
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Show the expected values, with a lower temperature limit for the GPUs
  ansible.builtin.debug:
    msg: "{{ record | hpcai.gpucluster.health_expectations({'gpu_temperature': {'max_celsius': 85}}) }}"
  vars:
    record: "{{ 'Standard_ND96isr_H100_v5' | hpcai.gpucluster.vm_size }}"
"""

RETURN = r"""
_value:
  description: The configuration.
  type: dict
  contains:
    format:
      description: Version of the format, V(1).
      type: int
    vm_size:
      description: Name of the record.
      type: str
    deadline_seconds:
      description: By set, the maximum total duration of its checks, in seconds.
      type: dict
    sets:
      description: By set, V(fast), V(prolog) and V(throughput), the names of its checks.
      type: dict
    checks:
      description: By check, its parameters. The name of a parameter contains its unit.
      type: dict
"""


def health_expectations(
    record: t.Any, overrides: t.Any = None, prolog: t.Any = None, inputs: t.Any = None
) -> dict[str, t.Any]:
    """Return the configuration of the health program."""
    try:
        return expectations.expectations(*map(plain, (record, overrides, prolog, inputs)))
    except expectations.HealthError as exc:
        raise AnsibleFilterError(f"hpcai.gpucluster.health_expectations: {exc}") from exc
    except (KeyError, TypeError, AttributeError) as exc:
        raise AnsibleFilterError(
            f"hpcai.gpucluster.health_expectations: expected a record of hpcai.gpucluster.vm_size, "
            f"found one without {exc}"
        ) from exc


class FilterModule:
    """Offer the filter to Ansible."""

    def filters(self) -> dict[str, t.Any]:
        """Return the filters by name."""
        return {"health_expectations": health_expectations}
