# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter slurm_accounts_problems."""

from __future__ import annotations

DOCUMENTATION = r"""
name: slurm_accounts_problems
short_description: What is wrong with QOS, accounts and users, found before any machine is touched
version_added: 0.1.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Judges the lists that the module M(hpcai.gpucluster.slurm_accounts) takes as far as that is possible without the
    accounting. It finds unknown options, wrong types and names, limits that do not parse, accounts below themselves,
    and users without account.
options:
  _input:
    description: The options C(qos), C(accounts) and C(users) of the module, each of which may be left out.
    type: dict
    required: true
  variable:
    description: Name of the variable that every message begins with.
    type: str
    default: slurm_accounts
  variables:
    description: By C(qos), C(accounts) and C(users), the variable that a message about it begins with.
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Refuse accounts that Slurm would refuse
  ansible.builtin.assert:
    that: __slurm_problems | length == 0
    fail_msg: "{{ __slurm_problems | join('\n') }}"
  vars:
    __slurm_problems: "{{ {'qos': qos} | hpcai.gpucluster.slurm_accounts_problems }}"
    qos:
      - {name: high, limits: {MaxWall: soon}}
"""

RETURN = r"""
_value:
  description: One message for each problem; empty when there is none.
  type: list
  elements: str
"""

import re
import typing as t
from collections.abc import Mapping

from ansible.errors import AnsibleFilterError
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ansible_collections.hpcai.gpucluster.plugins.module_utils._slurm import accounts
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs.plain import plain

if t.TYPE_CHECKING:
    from collections.abc import Callable


def slurm_accounts_problems(
    entries: Mapping[str, t.Any], variable: str = "slurm_accounts", variables: Mapping[str, str] | None = None
) -> list[str]:
    """Return what is wrong with QOS, accounts and users."""
    if not isinstance(entries, Mapping):
        raise AnsibleFilterError(
            "hpcai.gpucluster.slurm_accounts_problems: expected a mapping of qos, accounts and users, "
            f"found {entries!r}"
        )
    given = {kind: listed for kind, listed in entries.items() if listed is not None}
    result = ArgumentSpecValidator(accounts.OPTIONS).validate(plain(given))
    if result.error_messages:
        return [f"{_named(str(message), variable, variables)}: {message}" for message in result.error_messages]
    lists = result.validated_parameters
    wanted = accounts.wanted(lists["qos"], lists["accounts"], lists["users"])
    return [f"{_named(problem, variable, variables)}: {problem}" for problem in wanted.problems]


def _named(message: str, variable: str, variables: Mapping[str, str] | None) -> str:
    """Return the variable that a message is about, by the kind that it begins with or ends with."""
    for kind, name in (variables or {}).items():
        one = {"qos": "qos", "accounts": "account", "users": "user"}[kind]
        if re.match(rf"{one}|elements value for option '{kind}'", message, re.IGNORECASE):
            return name
        if re.search(rf"found in {kind}\b", message):
            return name
    return ", ".join(variables.values()) if variables else variable


class FilterModule:
    """Tell Ansible the name of the filter."""

    def filters(self) -> dict[str, Callable[..., t.Any]]:
        """Return the filters of this file."""
        return {"slurm_accounts_problems": slurm_accounts_problems}
