# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter slurm_settings."""

from __future__ import annotations

DOCUMENTATION = r"""
name: slurm_settings
short_description: Return the settings of Slurm that the machines of a cluster need
version_added: 0.1.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Merges the defaults for a GPU cluster with the settings of the site, and returns the settings that the machines
    need. As in Slurm, the case of keys is ignored.
options:
  _input:
    description: The inputs of the role C(slurm) by name.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show the servers from which slurmd gets its configuration
  ansible.builtin.debug:
    msg: "{{ (slurm_inputs | hpcai.gpucluster.slurm_settings).servers }}"
"""

RETURN = r"""
_value:
  description: The settings.
  type: dict
  contains:
    servers:
      description: The controllers, with the port that slurmd and sackd connect to.
      type: str
      sample: head1:6817,head2:6817
    slurmd_digest:
      description: A digest of the settings that slurmd reads only when it starts.
      type: str
    slurmdbd_conf:
      description: The content of C(slurmdbd.conf). It contains the password of the database, if there is one.
      type: str
    database:
      description: The port of slurmdbd (C(port)) and the location of its database, C(host), C(here), C(name) and more.
      type: dict
    on_both:
      description: The machines that are both controllers and compute nodes.
      type: list
      elements: str
    accounts_given:
      description: Whether the site lists the users that may use the cluster.
      type: bool
"""

import typing as t
from collections.abc import Mapping

from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue.plain import plain
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import conf, settings

if t.TYPE_CHECKING:
    from collections.abc import Callable


def slurm_settings(inputs: Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the settings of Slurm that the machines of a cluster need."""
    if not isinstance(inputs, Mapping):
        raise AnsibleFilterError(f"hpcai.gpucluster.slurm_settings: expected a mapping, found {inputs!r}")
    given = plain(inputs)
    try:
        return {
            "servers": settings.servers(given),
            "slurmd_digest": settings.slurmd_digest(given),
            "slurmdbd_conf": conf.render(settings.slurmdbd_conf(given), file="slurmdbd.conf"),
            "database": settings.database(given),
            "on_both": settings.on_both(given),
            "accounts_given": settings.accounts_given(given),
        }
    except (ValueError, KeyError, AttributeError, TypeError) as exc:
        raise AnsibleFilterError(f"hpcai.gpucluster.slurm_settings: {exc!r}") from exc


class FilterModule:
    """Tell Ansible the name of the filter."""

    def filters(self) -> dict[str, Callable[..., t.Any]]:
        """Return the filters of this file."""
        return {"slurm_settings": slurm_settings}
