# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from ansible_collections.hpcai.gpucluster.plugins.filter.slurm_restart_keys import slurm_restart_keys

CONFIG = {"SlurmdPort": 6818, "KillWait": 30, "authinfo": "ttl=300", "PluginDir": None}


def test_only_keys_that_slurmd_reads_at_start_are_kept() -> None:
    assert slurm_restart_keys(CONFIG) == {"SlurmdPort": 6818, "authinfo": "ttl=300"}


def test_another_daemon_has_other_keys() -> None:
    assert slurm_restart_keys({"SlurmdUser": "root", "SlurmdPort": 6818}, "slurmctld") == {"SlurmdPort": 6818}
