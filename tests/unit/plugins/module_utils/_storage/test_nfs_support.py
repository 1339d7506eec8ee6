# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.hpcai.gpucluster.plugins.module_utils._storage.nfs_support import missing
from ansible_collections.hpcai.gpucluster.tests.unit.plugins.module_utils._storage.fake_host import FakeHost

ABSENT = "modprobe: FATAL: Module lustre not found in directory /lib/modules/6.1.0\n"


def test_a_file_system_that_the_kernel_has_needs_no_module() -> None:
    machine = FakeHost()

    assert missing(machine, "nfs") == ""
    assert machine.calls == []


def test_a_module_that_loads_will_do() -> None:
    assert missing(FakeHost(), "lustre") == ""


def test_a_kernel_without_it_is_told_in_one_sentence() -> None:
    machine = FakeHost()
    machine.answers[("modprobe", "lustre")] = machine.answers[("modprobe", "--dry-run", "lustre")] = (1, "", ABSENT)

    assert missing(machine, "lustre").startswith("the kernel of this machine cannot mount Lustre")
    assert missing(machine, "lustre", load=False).endswith("/lib/modules/6.1.0")
