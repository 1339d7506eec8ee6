# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This fragment is PRIVATE to the collection. It may change or vanish at any time.
"""Options of every module that allocates nodes of Slurm temporarily."""

from __future__ import annotations


class ModuleDocFragment:
    """Options of the allocation; the argument spec is in C(module_utils/_slurm/allocation.py)."""

    DOCUMENTATION = r"""
options:
  name:
    description:
      - Name of the job. Use it to find or cancel the job.
    type: str
    default: gpucluster
  job_id:
    description:
      - ID of an existing job. Then the module submits no job, and does not cancel this one at the end.
    type: int
  partition:
    description:
      - Name of the partition. The default is Slurm's default partition.
    type: str
  exclusive:
    description:
      - Whether the job has the nodes exclusively.
    type: bool
    default: true
  time_limit:
    description:
      - Slurm's own time limit of the job in minutes. It ends the job even if the module cannot cancel it.
    type: int
    default: 15
  pending_timeout:
    description:
      - Seconds to wait for the job to start. Then it is cancelled, and the error reports why Slurm held it.
    type: int
    default: 120
  submit_options:
    description:
      - Further options of C(sbatch), as a mapping of long names without dashes, such as C(account) and C(qos).
      - V(true) sets an option that has no value.
    type: dict
    default: {}
"""
