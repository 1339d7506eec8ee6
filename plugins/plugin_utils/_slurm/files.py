# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Build the configuration files of a controller from the inputs of the role slurm."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import conf, node_lines, settings, topology

if t.TYPE_CHECKING:
    from collections.abc import Mapping

    Inputs = Mapping[str, t.Any]

# Each plugin, such as that of the role pyxis, has a file in this directory on each machine.
_PLUGINS = "include /etc/slurm/plugstack.conf.d/*.conf\n"


def names(inputs: Inputs) -> list[str]:
    """Return the names of the files of a controller."""
    return [
        "slurm.conf",
        "cgroup.conf",
        "gres.conf",
        "mpi.conf",
        "plugstack.conf",
        *(["topology.conf"] if inputs["slurm_topology_plugin"] else []),
        *(["job_container.conf"] if inputs["slurm_private_tmp"] else []),
    ]


def texts(inputs: Inputs, cgroup: bool) -> dict[str, str]:
    """Return the content of each file; raise ValueError for inputs that cannot be written to a file."""
    makers: dict[str, t.Callable[[], str]] = {
        "slurm.conf": lambda: conf.render(settings.slurm_conf(inputs, cgroup), lines(inputs)),
        "cgroup.conf": lambda: conf.render(settings.cgroup_conf(inputs, cgroup), file="cgroup.conf"),
        "gres.conf": lambda: node_lines.gres_conf(inputs["slurm_nodes"]),
        "mpi.conf": lambda: conf.render(settings.mpi_conf(inputs), file="mpi.conf"),
        "plugstack.conf": lambda: _PLUGINS,
        "topology.conf": lambda: topology.render(
            inputs["slurm_topology"], inputs["slurm_topology_plugin"], **topology_options(inputs)
        ),
        "job_container.conf": lambda: (
            f"AutoBasePath=true\nBasePath={inputs['slurm_private_tmp_directory']}\nDirs=/tmp,/var/tmp\n"
        ),
    }
    return {name: makers[name]() for name in names(inputs)}


def lines(inputs: Inputs) -> list[dict[str, t.Any]]:
    """Return the lines of nodes and partitions."""
    nodes = node_lines.node_lines(inputs["slurm_nodes"], inputs["slurm_memory_headroom_percent"])
    return conf.collect(nodes, inputs["slurm_partitions"])


def topology_options(inputs: Inputs) -> dict[str, t.Any]:
    """Return the arguments that a topology is checked against."""
    return {
        "known": [group["hosts"] for group in inputs["slurm_nodes"]],
        "block_sizes": list(inputs["slurm_block_sizes"]),
    }
