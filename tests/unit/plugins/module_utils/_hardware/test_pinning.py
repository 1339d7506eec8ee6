# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where processes are and where they should be."""

from __future__ import annotations

import typing as t

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.hpcai.gpucluster.plugins.module_utils._hardware import machine as hardware_machine
from ansible_collections.hpcai.gpucluster.plugins.module_utils._hardware import pinning
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.bounded_run import CommandMissing, CommandTimeout
from ansible_collections.hpcai.gpucluster.plugins.modules import process_pinning_info
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue import records
from ansible_collections.hpcai.gpucluster.tests.unit.support import sysfs

if t.TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

GOOD = {0: "24-35", 1: "36-47", 2: "0-11", 3: "12-23", 4: "72-83", 5: "84-95", 6: "48-59", 7: "60-71"}
GPUS = ["0001", "0002", "0003", "0004", "000b", "000c", "000d", "000e"]


class Smi:
    """Answer like nvidia-smi."""

    def __init__(self, out: str = "", code: int = 0, error: Exception | None = None) -> None:
        self.out, self.code, self.error = out, code, error
        self.calls: list[list[str]] = []

    def __call__(self, args: Sequence[str]) -> tuple[int, str, str]:
        self.calls.append(list(args))
        if self.error:
            raise self.error
        return self.code, self.out, ""


def _collect(tree: sysfs.Tree, smi: Smi, **options: t.Any) -> dict[str, t.Any]:
    params = {"pattern": None, "record": None, "executable": "nvidia-smi", **options}
    params.update(sysfs=str(tree.sysfs), procfs=str(tree.procfs))
    return process_pinning_info.collect(params, smi)


def _job(tmp_path: Path, places: dict[int, str], busy: int = 1) -> tuple[sysfs.Tree, Smi]:
    tree = sysfs.nd_a100_v4(tmp_path)
    for task, cpus in places.items():
        first = int(cpus.split("-")[0])
        tree.process(1000 + 100 * task, "python3", cpus, [("R", first)] * busy + [("S", first + 1)])
    tree.process(77, "sshd", "0-95")
    return tree, Smi("".join(f"0000{GPUS[task]}:00:00.0, {1000 + 100 * task}\n" for task in places))


def test_good_placement_has_no_problem(tmp_path: Path) -> None:
    tree, smi = _job(tmp_path, GOOD, busy=12)

    found = _collect(tree, smi)

    assert found["problems"] == []
    assert found["notes"] == []
    assert len(smi.calls) == 1
    assert found["processes"][0] == {
        "pid": 1000,
        "name": "python3",
        "gpus": ["0001:00:00.0"],
        "cpus": "24-35",
        "last_cpus": "24-25",
        "numa_nodes": [1],
        "best_numa_nodes": [1],
        "best_cpus": "24-47",
        "threads": 13,
        "running": 12,
        "warnings": [],
    }


@pytest.mark.parametrize(
    ("places", "busy", "text"),
    [
        ({0: "0-95"}, 1, r"python3 \(1000\): it is not pinned"),
        ({0: "20-30"}, 1, r"its CPUs 20-30 are on the NUMA nodes \[0, 1\]"),
        ({0: "0-11"}, 1, "it runs on NUMA node 0, its GPU 0001:00:00.0 is at node 1: CPUs 24-47 are best"),
        ({0: "24-25"}, 5, "5 busy threads share 2 CPUs"),
        ({0: "24-25", 1: "24-25"}, 2, "the processes 1000, 1100 have 4 busy threads on the same 2 CPUs 24-25"),
        ({0: "24-30", 1: "31-40", 2: "0-1", 3: "2-3", 4: "72-73"}, 1, "spread unevenly over the NUMA nodes"),
    ],
)
def test_bad_placement_is_told(tmp_path: Path, places: dict[int, str], busy: int, text: str) -> None:
    problems = _collect(*_job(tmp_path, places, busy))["problems"]

    assert any(__import__("re").search(text, problem) for problem in problems), problems


def test_processes_are_found_by_name_without_nvidia_smi(tmp_path: Path) -> None:
    tree, _smi = _job(tmp_path, {0: "24-35"})

    found = _collect(tree, Smi(error=CommandMissing("no such program")), pattern="^pyth")

    assert [process["pid"] for process in found["processes"]] == [1000]
    assert found["processes"][0]["best_numa_nodes"] == []
    assert found["notes"] == ["nothing is known about GPUs: no such program"]


@pytest.mark.parametrize(
    ("smi", "note"),
    [
        (Smi(error=CommandTimeout("did not answer in 20 s")), "did not answer in 20 s"),
        (Smi("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", 9), "exited 9"),
        (Smi("No devices were found", 6), "exited 6"),
    ],
)
def test_tool_in_trouble_is_a_note(tmp_path: Path, smi: Smi, note: str) -> None:
    tree, _smi = _job(tmp_path, {0: "24-35"})

    found = _collect(tree, smi)

    assert found["processes"] == []
    assert note in found["notes"][0]


def test_process_on_two_gpus_is_one_process(tmp_path: Path) -> None:
    tree, _smi = _job(tmp_path, {0: "24-47"})

    found = _collect(tree, Smi("00000001:00:00.0, 1000\n00000002:00:00.0, 1000\n00000002:00:00.0, 1000\n"))

    assert found["processes"][0]["gpus"] == ["0001:00:00.0", "0002:00:00.0"]
    assert found["processes"][0]["warnings"] == []


def test_record_tells_what_a_machine_hides(tmp_path: Path) -> None:
    # Standard_ND40rs_v2 shows all its GPUs at NUMA node 0.
    tree = sysfs.Tree(tmp_path, {0: "0-19", 1: "20-39"}, "0-39")
    tree.device("0008:00:00.0", sysfs.GPU, 0)
    tree.process(5, "python3", "0-4")
    smi = Smi("00000008:00:00.0, 5\n")

    assert _collect(tree, smi)["problems"] == []
    problems = _collect(tree, smi, record=records.find("Standard_ND40rs_v2"))["problems"]
    assert any("is at node 1" in problem for problem in problems)


def test_process_that_ends_meanwhile_is_left_out(tmp_path: Path) -> None:
    tree, smi = _job(tmp_path, {0: "24-35"})
    (tree.procfs / "1000/status").unlink()

    assert _collect(tree, smi)["processes"] == []


def test_name_with_brackets_and_blanks_is_read(tmp_path: Path) -> None:
    tree = sysfs.nd_a100_v4(tmp_path)
    tree.process(9, "a) R (b", "0-1", [("R", 7)])

    process = pinning.processes(str(tree.procfs), {9: []})[0]

    assert (process.running, process.last_cpus) == (1, [7])


@settings(max_examples=40, deadline=None)
@given(
    st.text(max_size=40) | st.from_regex(r"[0-9a-fA-F]{8}:\d\d:\d\d\.\d ?, ?\d{1,3}\n", fullmatch=True), st.integers()
)
def test_no_answer_of_the_tool_makes_the_reader_die(out: str, code: int) -> None:
    found, notes = pinning.gpu_processes(Smi(out, code), "nvidia-smi")

    assert all(isinstance(pid, int) for pid in found)
    assert bool(notes) == bool(code)


@settings(max_examples=15, deadline=None)
@given(st.text(max_size=80), st.text(max_size=80))
def test_no_contents_of_proc_make_the_reader_die(
    tmp_path_factory: pytest.TempPathFactory, status: str, stat: str
) -> None:
    tree = sysfs.Tree(tmp_path_factory.mktemp("tree"), {0: "0-1"}, "0-1")
    tree.process(3, "x", "0-1")
    (tree.procfs / "3/status").write_text(f"Name:\tx\nCpus_allowed_list:\t0-1\n{status}", encoding="utf-8")
    (tree.procfs / "3/task/3/stat").write_text(stat, encoding="utf-8")
    machine = hardware_machine.read(str(tree.sysfs), str(tree.procfs))

    places = pinning.place(pinning.processes(str(tree.procfs), {3: []}), machine, {})

    assert all(isinstance(text, str) for text in pinning.warnings(places, machine))
