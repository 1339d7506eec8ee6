# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which machines the plays of the playbook teardown take."""

from __future__ import annotations

import re
import typing as t

if t.TYPE_CHECKING:
    from ansible_collections.hpcai.gpucluster.tests.integration.conftest import Run


def _plays(run: Run, **groups: str) -> dict[str, list[str]]:
    """Return the machines of each play, where each group has one."""
    children: dict[str, t.Any] = {group: {"hosts": {host: {}}} for group, host in groups.items()}
    _code, output = run({"all": {"children": children}}, "playbooks/teardown.yml", "--list-hosts")
    found = re.findall(r"\): (.+?)\s+TAGS:.*\n.*\n    hosts \(\d+\):((?:\n      \S+)*)", output)
    return {name: hosts.split() for name, hosts in found}


def test_the_database_goes_wherever_it_is(run: Run) -> None:
    plays = _plays(run, slurm_controller="head", slurm_database="head", slurm_login="head", slurm_compute="gpu1")

    assert plays["Remove the accounting database"] == plays["Cancel all jobs"] == ["head"]
    assert list(plays).index("Remove the accounting database") < list(plays).index("Uninstall login and compute nodes")
    assert sorted(
        plays["Uninstall login and compute nodes"] + plays["Uninstall controllers and all other machines"]
    ) == ["gpu1", "head"]
