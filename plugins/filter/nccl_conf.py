# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Return the content of nccl.conf for NCCL settings."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.module_utils._nccl import conf

DOCUMENTATION = r"""
name: nccl_conf
author: HPC AI Infrastructure Team (@hpcai)
version_added: 0.1.0
short_description: Return the content of nccl.conf for NCCL settings
description:
  - NCCL parses C(/etc/nccl.conf) strictly. Quotes and spaces become part of the value.
  - Fails if a setting cannot be written in this form. The message names the setting and the correct form.
  - Settings whose value is null are skipped, so that a site can remove a default.
options:
  _input:
    description: Values by the name of the variable, such as V(NCCL_DEBUG).
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show the file
  ansible.builtin.debug:
    msg: "{{ {'NCCL_DEBUG': 'WARN', 'NCCL_IB_TIMEOUT': 22} | hpcai.gpucluster.nccl_conf }}"
"""

RETURN = r"""
_value:
  description: The lines, sorted by name.
  type: str
"""


def nccl_conf(settings: t.Any) -> str:
    """Return the content of nccl.conf for NCCL settings."""
    if isinstance(settings, Mapping):
        settings = {name: value for name, value in settings.items() if value is not None}
    wrong = conf.problems(settings)
    if wrong:
        raise AnsibleFilterError(f"hpcai.gpucluster.nccl_conf: {'; '.join(wrong)}")
    return conf.render(settings)


class FilterModule:
    """Offer the filter to Ansible."""

    def filters(self) -> dict[str, t.Any]:
        """Return the filters by name."""
        return {"nccl_conf": nccl_conf}
