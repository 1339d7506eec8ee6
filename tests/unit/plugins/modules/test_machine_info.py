# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module machine_info on this machine, whatever it is."""

from __future__ import annotations

import os
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.modules import machine_info
from ansible_collections.hpcai.gpucluster.tests.unit.support.run_module import RunModule

if t.TYPE_CHECKING:
    import pytest


def test_a_machine_is_read_without_a_change(capsys: pytest.CaptureFixture[str]) -> None:
    found = RunModule(capsys)(machine_info.main)

    assert found["changed"] is False
    machine = found["machine"]
    assert machine["cpus"] == os.cpu_count()
    assert machine["memory_mib"] > 256
    assert machine["architecture"] == os.uname().machine
    assert set(machine) == {"gpus", "cpus", "numa_nodes", "memory_mib", "nvme", "hcas", "architecture", "product"}
