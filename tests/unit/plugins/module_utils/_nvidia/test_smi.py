# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Calls of nvidia-smi: exit codes and texts as in the table of facts, for reading and for setting."""

from __future__ import annotations

import typing as t

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia.report import ParseError
from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia.smi import NvidiaSmi, NvidiaSmiError, Outcome
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.bounded_run import CommandMissing, CommandTimeout
from ansible_collections.hpcai.gpucluster.tests.simulation.simulated_smi import SimulatedSmi

if t.TYPE_CHECKING:
    from collections.abc import Sequence

GPU = {"uuid": "GPU-a", "pci_bus_id": "0000:00:06.0"}
OTHER = {"uuid": "GPU-b", "pci_bus_id": "0000:00:07.0"}
B = "00000000:00:06.0"


def answering(code: int, text: str) -> NvidiaSmi:
    return NvidiaSmi(lambda args: (code, text, ""))


def test_a_machine_is_read_in_one_start() -> None:
    simulated = SimulatedSmi(gpus={"count": 8})

    report = NvidiaSmi(simulated).read()

    assert len(report.gpus) == 8
    assert simulated.calls == [["-q", "-x"]]


@pytest.mark.parametrize(
    ("faults", "kind", "words"),
    [
        ({"no_driver": True}, "no_driver", "driver is not loaded"),
        ({"no_library": True}, "no_driver", "library is not installed"),
        ({"version_mismatch": True}, "mismatch", "reboot or reload"),
        ({"blocked": True}, "blocked", "/dev/nvidia"),
        ({"missing_gpus": [0, 1]}, "no_device", "sees no GPU"),
        ({"lost_gpus": [1]}, "lost", "reboot the machine"),
    ],
)
def test_a_machine_without_an_answer_says_why(faults: dict[str, t.Any], kind: str, words: str) -> None:
    simulated = SimulatedSmi(driver="535.216.03", gpus={"count": 2}, faults=faults)

    with pytest.raises(NvidiaSmiError, match=words) as caught:
        NvidiaSmi(simulated).read()

    assert caught.value.kind == kind


def test_an_old_driver_that_stops_at_a_lost_gpu_names_it() -> None:
    simulated = SimulatedSmi(driver="535.216.03", gpus={"count": 2}, faults={"lost_gpus": [1]})

    with pytest.raises(NvidiaSmiError) as caught:
        NvidiaSmi(simulated).read()

    assert caught.value.lost == [
        {"pci_bus_id": "0000:00:07.0", "reason": "GPU is lost.  Reboot the system to recover this GPU"}
    ]


def test_exit_14_beside_good_data_is_a_note() -> None:
    simulated = SimulatedSmi(gpus={"count": 2}, faults={"warnings": ["infoROM is corrupted at gpu 0000:00:06.0"]})

    report = NvidiaSmi(simulated).read()

    assert len(report.gpus) == 2
    assert report.notes == ["WARNING: infoROM is corrupted at gpu 0000:00:06.0"]


def test_a_lost_gpu_in_the_other_stream_explains_a_missing_row() -> None:
    simulated = SimulatedSmi(gpus={"count": 3}, faults={"lost_gpus": [1]})

    def apart(args: t.Sequence[str]) -> tuple[int, str, str]:
        """Write about lost GPUs to the standard error stream."""
        code, out, _err = simulated(args)
        lines = out.splitlines(keepends=True)
        lost = "".join(line for line in lines if line.startswith("Unable"))
        return code, "".join(line for line in lines if not line.startswith("Unable")), lost

    table = NvidiaSmi(apart).query("gpu", ["index", "uuid", "pci.bus_id"])

    assert [row["index"] for row in table.rows] == ["0", "2"]
    assert table.lost == [{"pci_bus_id": "0000:00:07.0", "reason": "Unknown Error"}]


def test_an_unreadable_document_is_no_report() -> None:
    simulated = SimulatedSmi(gpus={"count": 2})

    def cut(args: Sequence[str]) -> tuple[int, str, str]:
        code, out, err = simulated(args)
        return code, out[: len(out) // 2], err

    with pytest.raises(
        NvidiaSmiError, match="nvidia-smi exited 0 and said: nvidia-smi -q -x printed no complete"
    ) as caught:
        NvidiaSmi(cut).read()

    assert caught.value.kind == "other"


def test_a_hang_and_a_missing_program_are_answers_too() -> None:
    def hang(args: Sequence[str]) -> tuple[int, str, str]:
        raise CommandTimeout("'nvidia-smi -q -x' did not answer in 60 s and was killed")

    def missing(args: Sequence[str]) -> tuple[int, str, str]:
        raise CommandMissing("nvidia-smi cannot be started")

    with pytest.raises(NvidiaSmiError, match="did not answer in 60 s") as caught:
        NvidiaSmi(hang).read()
    assert caught.value.kind == "timeout"
    with pytest.raises(NvidiaSmiError, match="install the NVIDIA driver") as caught:
        NvidiaSmi(missing).read()
    assert caught.value.kind == "not_installed"


DONE = "All done.\n"
MOVE_ON = "Treating as warning and moving on.\nAll done.\n"


@pytest.mark.parametrize(
    ("code", "text", "problem"),
    [
        (0, f'Applications clocks set to "(MEM 1215, SM 1410)" for GPU {B}\n{DONE}', None),
        (0, f'GPU clocks set to "(gpuClkMin 1500, gpuClkMax 2100)" for GPU {B}\n{DONE}', None),
        (0, f'Memory clocks set to "(memClkMin 8001, memClkMax 8001)" for GPU {B}\n{DONE}', None),
        (0, f"Enabled persistence mode for GPU {B}.\n{DONE}", None),
        (0, f"Persistence mode is already Enabled for GPU {B}.\n{DONE}", None),
        (0, f"Power limit for GPU {B} was set to 200.00 W from 450.00 W.\n{DONE}", None),
        (0, f"Warning: persistence mode is disabled on device {B}. See the Known Issues section.\n{DONE}", None),
        (0, f"Setting applications clocks is not supported for GPU {B}.\n{MOVE_ON}", "unsupported"),
        (0, f"Setting locked GPU clocks is not supported for GPU {B}.\n{MOVE_ON}", "unsupported"),
        (0, f"Setting locked Memory clocks is not supported for GPU {B}.\n{MOVE_ON}", "unsupported"),
        (0, f"Changing power management limit is not supported for GPU: {B}.\n{MOVE_ON}", "unsupported"),
        (3, f"Changing power management limit is not supported for GPU: {B}.\n{DONE}", "unsupported"),
        (
            0,
            f'Specified clock combination "(MEM 715, SM 111)" is not supported for GPU {B}. Run ...\n{MOVE_ON}',
            "unsupported",
        ),
        (0, f"The requested functionality has been deprecated.\n{DONE}", "deprecated"),
        (0, f"Unable to set driver model for GPU {B}: Not Supported\n{MOVE_ON}", "unsupported"),
        (
            2,
            "Provided power limit 10.00 W is not a valid power limit which should be between 100.00 W and 400.00 W "
            f"for GPU {B}\n"
            "Terminating early due to previous errors.\n",
            "invalid",
        ),
        (
            4,
            f"The current user does not have permission to change clocks for GPU {B}.\n"
            "Terminating early due to previous errors.\n",
            "permission",
        ),
        (6, "No devices were found\n", "failed"),
        (255, "ERROR: Option --lmc is not recognized. Please run 'nvidia-smi -h'.\n", "argument"),
        (255, "", "failed"),
    ],
)
def test_the_text_decides_and_not_the_exit_status(code: int, text: str, problem: str | None) -> None:
    (outcome,) = answering(code, text).set("-ac", "1215,1410", [GPU])

    assert outcome.problem == problem


def test_gpus_are_set_in_one_start_and_judged_one_by_one() -> None:
    calls: list[Sequence[str]] = []

    def run(args: Sequence[str]) -> tuple[int, str, str]:
        calls.append(args)
        return (
            0,
            f'GPU clocks set to "..." for GPU {B}\n'
            "Setting locked GPU clocks is not supported for GPU 00000000:00:07.0.\n",
            "",
        )

    outcomes = NvidiaSmi(run).set("-lgc", "345,1980", [GPU, OTHER])

    assert calls == [["nvidia-smi", "-i", "GPU-a,GPU-b", "-lgc", "345,1980"]]
    assert outcomes == [
        Outcome(None, f'GPU clocks set to "..." for GPU {B}'),
        Outcome("unsupported", "Setting locked GPU clocks is not supported for GPU 00000000:00:07.0."),
    ]


@settings(deadline=None)
@given(st.integers(0, 255), st.text(), st.text())
def test_no_answer_makes_the_wrapper_fail_otherwise(code: int, out: str, err: str) -> None:
    smi = NvidiaSmi(lambda args: (code, out, err))

    with pytest.raises(NvidiaSmiError):
        smi.read()
    (outcome,) = smi.set("-pm", "1", [GPU])
    assert code == 0 or outcome.problem


@pytest.mark.parametrize(
    ("code", "text", "dead", "words"),
    [
        (9, "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", True, "couldn't"),
        (12, "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system.", False, "libnvidia-ml"),
        (0, "No devices were found", True, "No devices"),
        (255, "Segmentation fault", False, "Segmentation"),
    ],
)
def test_a_table_without_an_answer_tells_a_dead_driver_from_another_failure(
    code: int, text: str, dead: bool, words: str
) -> None:
    with pytest.raises(NvidiaSmiError) as caught:
        answering(code, text).query("gpu", ("index", "uuid"))

    assert (caught.value.dead, caught.value.code) == (dead, code)
    assert words in caught.value.said


def test_a_field_that_the_driver_does_not_know_is_not_asked_for_again() -> None:
    calls = []

    def old(args: Sequence[str]) -> tuple[int, str, str]:
        calls.append(args[1])
        if "remapped_rows" in args[1]:
            return 2, 'Field "remapped_rows.pending" is not a valid field to query.\n\n', ""
        return 0, "0, GPU-a\nWARNING: infoROM is corrupted\n", ""

    table = NvidiaSmi(old).query("gpu", ("index", "uuid", "remapped_rows.pending", "remapped_rows.failure"), needed=2)

    assert table.rows == [{"index": "0", "uuid": "GPU-a"}]
    assert table.warnings == ["WARNING: infoROM is corrupted"]
    assert len(calls) == 2


def test_a_row_with_cells_too_few_is_no_gpu_less() -> None:
    with pytest.raises(ParseError, match="expected 2 fields from nvidia-smi, found '1'"):
        answering(0, "0, GPU-a\n1\n").query("gpu", ("index", "uuid"))


def test_processes_are_read_with_commas_in_their_names() -> None:
    smi = answering(0, "GPU-a, 12, python, train.py, 100\n")

    assert smi.processes() == [
        {"gpu_uuid": "GPU-a", "pid": "12", "process_name": "python, train.py", "used_memory": "100"}
    ]
