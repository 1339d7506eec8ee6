# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This fragment is PRIVATE to the collection. It may change or vanish at any time.
"""Options of every module that needs nodes of Slurm for a while."""

from __future__ import annotations


class ModuleDocFragment:
    """The allocation; the argument spec is in C(module_utils/_slurm/allocation.py)."""

    DOCUMENTATION = r"""
options:
  name:
    description:
      - Name of the job, by which it can be found and cancelled.
    type: str
    default: gpucluster
  job_id:
    description:
      - A job that exists already. Nothing is submitted then, and the job is not cancelled at the end.
    type: int
  partition:
    description:
      - Partition; without it Slurm's default partition.
    type: str
  exclusive:
    description:
      - Whether no other job may share the nodes.
    type: bool
    default: true
  time_limit:
    description:
      - Slurm's own limit of the job in minutes. It holds even if nobody is left to cancel the job.
    type: int
    default: 15
  pending_timeout:
    description:
      - Seconds to wait for the job to start. After that it is cancelled, and the error says why Slurm held it.
    type: int
    default: 120
  submit_options:
    description:
      - Further options of C(sbatch) as a mapping of long names without dashes, such as C(account) and C(qos).
      - A value of V(true) gives an option without a value.
    type: dict
    default: {}
"""
