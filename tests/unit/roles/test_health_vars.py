# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the variables of the role health make of its inputs."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.tests.unit.support.role_values import role_values

if t.TYPE_CHECKING:
    from pathlib import Path

HARDWARE = {
    "name": "own",
    "cpus": {"sockets": 1, "cores_per_socket": 2, "threads_per_core": 1},
    "numa_nodes": 1,
    "memory_mib": 1024,
    "gpus": {"count": 0},
}
LINES = ["* || check_ps_service -u root sshd"]


def test_the_default_provider_needs_no_download(tmp_path: Path) -> None:
    cases: dict[str, dict[str, t.Any]] = {
        "default": {},
        "nhc": {"health_provider": "nhc"},
        "lines": {"health_provider": "nhc", "health_nhc_lines": LINES},
    }
    found = role_values(tmp_path, "health", "[health_provider, __health_state, __health_switches.nhc.path]", cases)

    assert found["default"] == ["builtin", "absent", None]
    assert found["nhc"] == ["nhc", "present", None]
    assert found["lines"] == ["nhc", "present", "/usr/local/sbin/nhc"]


def test_a_short_record_of_the_sites_own_is_enough(tmp_path: Path) -> None:
    cases: dict[str, dict[str, t.Any]] = {
        "playbook": {"gpucluster_hardware": HARDWARE},
        "input": {"gpucluster_hardware": {}, "health_hardware": HARDWARE},
    }
    found = role_values(tmp_path, "health", "[__health_config.vm_size, __health_config.checks.cpus.count]", cases)

    assert found == {"playbook": ["own", 2], "input": ["own", 2]}
