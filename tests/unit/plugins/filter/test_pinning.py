# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How to pin a job."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.filter.pinning import FilterModule
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue import records

pinning = FilterModule().filters()["pinning"]


# The lab's simulated GPUs are more than its processors.
@pytest.mark.parametrize("name", [name for name in records.names() if not name.startswith("simulated")])
def test_usual_layout_of_every_record_draws_no_warning(name: str) -> None:
    record = records.find(name)

    found = pinning(record, 2)

    assert found["warnings"] == [] or not record["topology"], found["warnings"]
    assert len(found["tasks"]) == found["tasks_per_node"]
    assert len(found["openmpi"]["rankfile"]) == 2 * found["tasks_per_node"]


def test_words_for_each_launcher() -> None:
    found = pinning(records.find("Standard_NC48ads_A100_v4"), 2)

    assert found["srun"] == (
        "srun --mpi=pmix --exclusive --nodes=2 --ntasks-per-node=2 --cpus-per-task=24 --gpus-per-node=2 "
        "--cpu-bind=mask_cpu:0xffffff,0xffffff000000"
    )
    # Tried with Open MPI 5.0.7 and a simulated machine of this form.
    assert found["openmpi"] == {
        "rankfile": ["rank 0=+n0 slot=0-23", "rank 1=+n0 slot=24-47", "rank 2=+n1 slot=0-23", "rank 3=+n1 slot=24-47"],
        "command": "mpirun --np 4 --map-by rankfile:file=RANKFILE",
        "command_version_4": "mpirun --np 4 --rankfile RANKFILE",
    }
    assert found["intelmpi"] == "mpirun -n 4 -ppn 2 -genv I_MPI_PIN_DOMAIN=[ffffff,ffffff000000]"


def test_open_mpi_counts_cores_and_slurm_counts_cpus() -> None:
    task = pinning(records.find("DGX_A100"), 1, 8, 16)["tasks"][0]

    assert task["cores"] == "48-55"
    assert task["cpus"] == "48-55,176-183"


def test_machine_without_gpus_asks_for_none() -> None:
    found = pinning(records.find("lab"))

    assert "--gpus" not in found["srun"]
    assert found["tasks"] == [{"task": 0, "gpus": [], "numa_node": 0, "cpus": "0-1", "cores": "0-1", "mask": "0x3"}]


def test_layout_that_does_not_fit_is_warned_about_and_still_shown() -> None:
    found = pinning(records.find("Standard_ND96asr_v4"), 1, 8, 20)

    assert any("want 40 CPUs of NUMA node 1" in text for text in found["warnings"])
    assert found["tasks"][0]["cpus"] == "24-47"


def test_numbers_may_come_as_text_from_the_command_line() -> None:
    assert pinning(records.find("Standard_ND96asr_v4"), "2", "8", "12")["threads_per_task"] == 12


@pytest.mark.parametrize("numbers", [(0, 8, 12), (1, 0, 12), (1, 8, 0), ("many", 8, 12), (1, [], 12)])
def test_bad_numbers_are_an_error_of_ansible(numbers: tuple[object, object, object]) -> None:
    with pytest.raises(AnsibleFilterError, match="pinning: "):
        pinning(records.find("Standard_ND96asr_v4"), *numbers)
