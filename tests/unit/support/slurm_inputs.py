# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Inputs of the role slurm, as its variables pass them to Python."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import nodes

RICH = {"gpucluster_vm_size": "Standard_ND96isr_H100_v5"}
LAB = {"gpucluster_vm_size": "lab"}


def inputs(**given: t.Any) -> dict[str, t.Any]:
    """Return the inputs of a cluster that nothing is wrong with, with some of them replaced."""
    values: dict[str, t.Any] = {
        "slurm_accounts": [],
        "slurm_allow_job_loss": False,
        "slurm_block_sizes": [],
        "slurm_cgroup_config": {},
        "slurm_cluster_name": "test",
        "slurm_config": {},
        "slurm_configure_options": [],
        "slurm_containment": "auto",
        "slurm_controllers": ["head1"],
        "slurm_database": "",
        "slurm_database_config": {},
        "slurm_database_password": "",
        "slurm_drained": [],
        "slurm_elastic": {},
        "slurm_health_check_program": "",
        "slurm_job_completion": False,
        "slurm_jobs_on_controllers": False,
        "slurm_known_checksums": ["26.05.4"],
        "slurm_memory_headroom_percent": 5,
        "slurm_metrics": False,
        "slurm_mpi_config": {},
        "slurm_nodes": nodes.group(["gpu1", "gpu2"], {"gpu1": LAB, "gpu2": LAB}),
        "slurm_pam_adopt": False,
        "slurm_pam_groups": ["sudo"],
        "slurm_pam_users": [],
        "slurm_partitions": [{"PartitionName": "batch", "Nodes": "ALL", "Default": True}],
        "slurm_private_tmp": False,
        "slurm_private_tmp_directory": "/var/spool/slurm-tmp",
        "slurm_qos": [],
        "slurm_share_nodes": False,
        "slurm_source": "url",
        "slurm_source_checksum": f"sha256:{'0' * 64}",
        "slurm_source_url": "https://example.com/slurm.tar.bz2",
        "slurm_state_directory": "/var/spool/slurmctld",
        "slurm_task_prolog": False,
        "slurm_topology": {},
        "slurm_topology_plugin": "",
        "slurm_user_uid": 22078,
        "slurm_users": [],
        "slurm_version": "26.05.4",
        "slurm_x11": False,
    }
    unknown = given.keys() - values.keys()
    assert not unknown, unknown
    return {**values, **given}


def with_gpus() -> list[dict[str, t.Any]]:
    """Return nodes of which one has GPUs."""
    return nodes.group(["gpu1", "cpu1"], {"gpu1": RICH, "cpu1": LAB})
