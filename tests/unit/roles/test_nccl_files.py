# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which files the role nccl writes on which machine."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.tests.unit.support.role_values import role_values

if t.TYPE_CHECKING:
    from pathlib import Path

CONF, MOUNTS, ENVIRON = "/etc/nccl.conf", "/etc/enroot/mounts.d/50-nccl.fstab", "/etc/enroot/environ.d/50-nccl.env"
BARE = {"nccl_hardware": "{{ 'DGX_H100' | hpcai.gpucluster.vm_size }}"}
CLOUD = {"nccl_hardware": "{{ 'Standard_ND96isr_H100_v5' | hpcai.gpucluster.vm_size }}"}
NO_GPUS = {"nccl_hardware": "{{ 'lab' | hpcai.gpucluster.vm_size }}"}
CASES: dict[str, tuple[dict[str, t.Any], list[str]]] = {
    "cloud": (CLOUD, [CONF, MOUNTS, ENVIRON]),
    "cloud_without_enroot": ({**CLOUD, "nccl_enroot_path": ""}, [CONF]),
    "bare": (BARE, [ENVIRON]),
    "bare_with_settings": ({**BARE, "nccl_settings": {"NCCL_DEBUG": "WARN"}}, [CONF, MOUNTS, ENVIRON]),
    "bare_without_enroot": ({**BARE, "nccl_enroot_path": ""}, []),
    "bare_with_nothing": ({**BARE, "nccl_environment": {"CUDA_DEVICE_ORDER": None}}, []),
    "no_gpus": (NO_GPUS, []),
    "no_gpus_with_a_variable": ({**NO_GPUS, "nccl_environment": {"UCX_TLS": "tcp"}}, [ENVIRON]),
}


def test_each_machine_gets_the_files_that_have_something_to_say(tmp_path: Path) -> None:
    found = role_values(
        tmp_path,
        "nccl",
        "__nccl_files | items2dict('path', 'state')",
        {name: case for name, (case, _files) in CASES.items()},
    )

    for name, (case, files) in CASES.items():
        own = [CONF, MOUNTS, ENVIRON]
        assert found[name] == {path: "present" if path in files else "absent" for path in own}, case
