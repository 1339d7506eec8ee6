# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
Find the variables of playbooks that have one value on all machines.

Ansible evaluates a variable with a template in each task on each machine. Those below are read by every task, so the
playbook check_input.yml evaluates them once, and stores the values.
"""

from __future__ import annotations

import json
import typing as t

if t.TYPE_CHECKING:
    from collections.abc import Mapping

    Names = Mapping[str, frozenset[str]]

_SIZE = frozenset({"azure_vm_size", "gpucluster_vm_size", "gpucluster_vm_size_record"})
# Each variable of playbooks/vars/cluster.yml, with the inputs that its templates read.
OF_ALL: t.Final[Names] = {
    "__gpucluster_containers": frozenset({"gpucluster_containers"}),
    "ansible_scp_extra_args": frozenset({"ansible_scp_extra_args", "gpucluster_bastion"}),
    "ansible_sftp_extra_args": frozenset({"ansible_sftp_extra_args", "gpucluster_bastion"}),
    "ansible_ssh_extra_args": frozenset({"ansible_ssh_extra_args", "gpucluster_bastion"}),
    "gpucluster_environment": frozenset({"gpucluster_apt_config", "gpucluster_proxy"}),
}
# Those that have one value on compute nodes with equal inputs; other machines have other values.
OF_NODES: t.Final[Names] = {
    "gpucluster_hardware": _SIZE,
    "gpucluster_scratch_path": _SIZE | {"scratch_path"},
}


class Equal:
    """The variables of which all machines that were added have the same inputs."""

    def __init__(self, names: Names) -> None:
        """Store the variables, each with the inputs that its templates read."""
        self._inputs = names
        self._found: dict[str, set[str]] = {name: set() for name in names}

    def add(self, variables: Mapping[str, t.Any]) -> None:
        """Add the variables of a machine, as written."""
        for name, inputs in self._inputs.items():
            given = {key: variables[key] for key in sorted(inputs) if key in variables}
            self._found[name].add(json.dumps(given, sort_keys=True, default=repr))

    def names(self) -> list[str]:
        """Return the variables that have one value. An input with a template may have another value on each machine."""
        return [name for name, found in self._found.items() if len(found) == 1 and not _has_template(*found)]


def _has_template(text: str) -> bool:
    return "{{" in text or "{%" in text
