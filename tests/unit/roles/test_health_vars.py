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


def test_dcgm_is_asked_only_where_requested_and_on_nodes_with_gpus(tmp_path: Path) -> None:
    gpus = {**HARDWARE, "gpus": {"count": 8, "model": "H100", "memory_mib": 81559}}
    cases: dict[str, dict[str, t.Any]] = {
        "default": {"health_hardware": gpus},
        "asked": {"health_hardware": gpus, "health_dcgm": "yes"},
        "no gpus": {"health_hardware": HARDWARE, "health_dcgm": True},
    }
    check = "__health_config.checks.dcgm_health"
    found = role_values(tmp_path, "health", f"[{check}.group, {check}.enabled]", cases)

    assert found == {"default": [None, True], "asked": [0, True], "no gpus": [0, False]}
