# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter slurm_conf_problems."""

from __future__ import annotations

DOCUMENTATION = r"""
name: slurm_conf_problems
short_description: Find errors in a Slurm configuration before a daemon reads it
version_added: 0.1.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Accepts the same data as the filter P(hpcai.gpucluster.slurm_conf#filter). Returns a message for everything that
    Slurm would refuse or misinterpret.
  - Finds unknown keys, keys that the version does not use or ignores, keys written in two ways, and values of a wrong
    type (numbers, YES or NO, times, and words out of a list).
  - Finds nodes in two lines, and nodesets and partitions that name unknown nodes, features, nodesets or partitions.
  - Finds two default partitions, partitions with an unknown QOS, and GRES that C(GresTypes) does not list or that
    contradict the hardware catalogue.
  - The table of keys is C(plugin_utils/_slurm/keys.yml). It is based on the source code of SchedMD, releases 22.05 to
    26.05.
extends_documentation_fragment:
  - hpcai.gpucluster._slurm_conf_data
options:
  file:
    description: Name of the file.
    type: str
    choices: [slurm.conf, cgroup.conf, gres.conf, mpi.conf, slurmdbd.conf]
    default: slurm.conf
  version:
    description: The version of Slurm that will read the file.
    type: str
    default: "26.05"
  gpus:
    description:
      - Number of GPUs by host name or hostlist expression, from the hardware catalogue.
      - Other hosts are not compared.
    type: dict
  records:
    description:
      - Hardware record by host name or hostlist expression. The filter P(hpcai.gpucluster.vm_size#filter) returns one.
      - The type of GPUs must be that of C(gres.conf), and no figure of a node may be more than the record has.
    type: dict
    version_added: 0.3.0
  qos:
    description: Names of the existing QOS, in addition to V(normal). If not set, QOS are not compared.
    type: list
    elements: str
  variable:
    description: Name of the variable at the start of every message.
    type: str
    default: slurm_config
"""

EXAMPLES = r"""
- name: Refuse a configuration that Slurm would refuse
  ansible.builtin.assert:
    that: __slurm_problems | length == 0
    fail_msg: "{{ __slurm_problems | join('\n') }}"
  vars:
    __slurm_problems: "{{ slurm_config | hpcai.gpucluster.slurm_conf_problems(
      nodes=nodes, partitions=slurm_partitions, version=slurm_version, gpus={'gpu1': 8}) }}"
"""

RETURN = r"""
_value:
  description: One message for each problem. Empty if there is none.
  type: list
  elements: str
"""

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import check, conf

if t.TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    Lines = Iterable[Mapping[str, t.Any]]


def slurm_conf_problems(
    config: Mapping[str, t.Any],
    nodes: Lines = (),
    nodesets: Lines = (),
    partitions: Lines = (),
    lines: Lines = (),
    **options: t.Any,
) -> list[str]:
    """Return the errors of a Slurm configuration."""
    try:
        collected = conf.collect(nodes, nodesets, partitions, lines)
        return check.problems(check.Cluster(config, collected, **options))
    except ValueError as exc:
        return [f"{options.get('variable', 'slurm_config')}: {exc}"]
    except (AttributeError, TypeError) as exc:
        raise AnsibleFilterError(f"hpcai.gpucluster.slurm_conf_problems: {exc}") from exc


class FilterModule:
    """Tell Ansible the name of the filter."""

    def filters(self) -> dict[str, Callable[..., t.Any]]:
        """Return the filters of this file."""
        return {"slurm_conf_problems": slurm_conf_problems}
