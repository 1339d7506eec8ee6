# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter slurm_conf."""

from __future__ import annotations

DOCUMENTATION = r"""
name: slurm_conf
short_description: Render a Slurm configuration file from data
version_added: 0.1.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Writes one line for each key of a mapping, in the order of the mapping, and then one line for each node, nodeset and
    partition. Supports slurm.conf, cgroup.conf, gres.conf, slurmdbd.conf and other files of this form.
  - A key is skipped if its value is none, C(omit), an empty string, an empty list or an empty mapping.
  - A boolean becomes C(YES) or C(NO), or C(1) or C(0) where Slurm expects a number.
  - A list is joined by commas. If Slurm accepts a key in several lines, such as C(SlurmctldHost) and C(Prolog), the
    list becomes one line per item. Host names in C(NodeName), C(Nodes), C(DownNodes) and C(SuspendExcNodes) become
    ranges.
  - A mapping becomes names and name=value pairs joined by commas. With the value true, only the name is written. With
    false or none, the name is skipped. C(SlurmctldParameters) and similar keys need this form. In C(PMIxEnv), the
    separator is a semicolon.
  - Values with spaces are quoted, and C(#) is escaped. A value with a line break is refused.
extends_documentation_fragment:
  - hpcai.gpucluster._slurm_conf_data
options:
  file:
    description: Name of the file, which determines the form of booleans and lists.
    type: str
    default: slurm.conf
"""

EXAMPLES = r"""
- name: Write slurm.conf
  ansible.builtin.copy:
    dest: /etc/slurm/slurm.conf
    mode: "0644"
    content: "{{ config | hpcai.gpucluster.slurm_conf(nodes=nodes, partitions=partitions) }}"
  vars:
    config:
      ClusterName: lab
      SlurmctldHost: [control]
      SlurmctldParameters: {enable_configless: true, node_reg_mem_percent: 90}
      MpiDefault: # skipped
    nodes:
      - {NodeName: [gpu1, gpu2], CPUs: 96, Gres: "gpu:h100:8"}
    partitions:
      - {PartitionName: main, Nodes: ALL, Default: true}

- name: Print gres.conf
  ansible.builtin.debug:
    msg: "{{ {'AutoDetect': 'off'} | hpcai.gpucluster.slurm_conf(file='gres.conf', lines=lines) }}"
  vars:
    lines:
      - {NodeName: "gpu[1-2]", Name: gpu, Type: h100, File: "/dev/nvidia[0-3]", Cores: 0-47}
"""

RETURN = r"""
_value:
  description: The content of the file, with a newline after every line and without comments.
  type: str
"""

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import conf

if t.TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    Lines = Iterable[Mapping[str, t.Any]]


def slurm_conf(
    config: Mapping[str, t.Any],
    nodes: Lines = (),
    nodesets: Lines = (),
    partitions: Lines = (),
    lines: Lines = (),
    file: str = "slurm.conf",
) -> str:
    """Return the content of a Slurm configuration file."""
    try:
        return conf.render(config, conf.collect(nodes, nodesets, partitions, lines), file)
    except (ValueError, AttributeError, TypeError) as exc:
        raise AnsibleFilterError(f"hpcai.gpucluster.slurm_conf: {exc}") from exc


class FilterModule:
    """Tell Ansible the name of the filter."""

    def filters(self) -> dict[str, Callable[..., t.Any]]:
        """Return the filters of this file."""
        return {"slurm_conf": slurm_conf}
