# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter slurm_metrics."""

from __future__ import annotations

DOCUMENTATION = r"""
name: slurm_metrics
short_description: Return whether slurmctld serves its figures to Prometheus
version_added: 0.3.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Compares the release of Slurm and C(slurm_config) with what the endpoint of slurmctld needs.
options:
  _input:
    description: The variables of the controller. C(slurm_version) and C(slurm_config) are read.
    type: dict
    required: true
  version:
    description: The release if the variables have none.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Show whether Prometheus can read slurmctld
  ansible.builtin.debug:
    msg: "{{ hostvars.head1 | hpcai.gpucluster.slurm_metrics('26.05.4') }}"
"""

RETURN = r"""
_value:
  description: Whether slurmctld can serve its figures. False for a wrong input, which the check of the input reports.
  type: bool
"""

import typing as t
from collections.abc import Mapping

from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue.plain import plain
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import settings

if t.TYPE_CHECKING:
    from collections.abc import Callable


def slurm_metrics(variables: Mapping[str, t.Any], version: str) -> bool:
    """Return whether slurmctld can serve its figures to Prometheus."""
    if not isinstance(variables, Mapping):
        raise AnsibleFilterError(f"hpcai.gpucluster.slurm_metrics: expected a mapping, found {variables!r}")
    config = plain(variables.get("slurm_config") or {})
    try:
        return settings.has_metrics(str(plain(variables.get("slurm_version") or version)), config)
    except (ValueError, AttributeError, TypeError):
        return False


class FilterModule:
    """Tell Ansible the name of the filter."""

    def filters(self) -> dict[str, Callable[..., t.Any]]:
        """Return the filters of this file."""
        return {"slurm_metrics": slurm_metrics}
