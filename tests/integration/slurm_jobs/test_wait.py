# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node that does not take jobs is a failure of that node, and of no other."""

from __future__ import annotations

import re
import typing as t

if t.TYPE_CHECKING:
    from .conftest import Cluster

PLAYBOOK = "../tests/integration/slurm_jobs/wait.yml"


def _wait(cluster: Cluster) -> dict[str, int]:
    """Return the failures of each host."""
    cluster.run(PLAYBOOK, __slurm_wait_seconds=1)
    recap = re.findall(r"(\S+) : ok=\d+ changed=\d+ unreachable=(\d+) failed=(\d+)", cluster.output)
    return {host: int(lost) + int(failed) for host, lost, failed in recap}


def test_nodes_that_take_jobs_go_on(cluster: Cluster) -> None:
    cluster.nodes["gpu2"]["state"] = "drained"

    assert _wait(cluster) == {"gpu1": 0, "gpu2": 0}, cluster.output[-3000:]


def test_a_node_that_is_down_fails_itself_and_the_others_go_on(cluster: Cluster) -> None:
    cluster.nodes["gpu2"]["state"] = "down*"

    assert _wait(cluster) == {"gpu1": 0, "gpu2": 1}, cluster.output[-3000:]
    assert "gpu2 does not take jobs" in cluster.output
    assert "says: down, slurmd does not answer." in cluster.output
    assert "gpu1 goes on" in cluster.output


def test_a_node_that_slurm_does_not_know_is_not_ready(cluster: Cluster) -> None:
    del cluster.nodes["gpu1"]

    assert _wait(cluster) == {"gpu1": 1, "gpu2": 0}, cluster.output[-3000:]
    assert "says: nothing about it." in cluster.output


def test_without_a_controller_no_node_is_ready(cluster: Cluster) -> None:
    cluster.lose("head")

    assert _wait(cluster)["gpu1"] == 1, cluster.output[-3000:]
    assert "[gpu1 -> head]: UNREACHABLE" in cluster.output
    assert "goes on" not in cluster.output
