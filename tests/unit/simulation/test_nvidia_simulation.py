# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The simulated nvidia-smi looks like the real one, where the real one was captured."""

from __future__ import annotations

import errno
import os
import re
import typing as t
from pathlib import Path
from xml.etree import ElementTree

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia import query_xml
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue import records
from ansible_collections.hpcai.gpucluster.tests.simulation.nvidia_simulation import cli, visible

FIXTURES = Path(__file__).parents[1] / "fixtures/nvidia_smi/580.159.04"
H200: dict[str, t.Any] = {"driver": "580.159.04", "gpus": {"model": "H200", "count": 4}, "persistence": True}


def paths(document: str) -> set[str]:
    found: set[str] = set()

    def walk(element: ElementTree.Element, prefix: str) -> None:
        path = f"{prefix}/{element.tag}"
        found.add(path)
        for child in element:
            walk(child, path)

    walk(ElementTree.fromstring(document[document.find("<nvidia_smi_log") :]), "")
    return found


def test_every_element_of_the_document_is_a_real_one() -> None:
    real = paths((FIXTURES / "h200-x4-q.xml").read_text(encoding="utf-8"))

    assert paths(cli.run(["-q", "-x"], H200, {})[1]) <= real


def test_the_document_reads_as_the_captured_one() -> None:
    real = query_xml.parse((FIXTURES / "h200-x4-q.xml").read_text(encoding="utf-8")).gpus[0]
    simulated = query_xml.parse(cli.run(["-q", "-x"], H200, {})[1]).gpus[0]
    volatile = ("power_w", "temperature_c", "memory_mib", "vbios_version", "clocks_mhz", "serial")

    assert {key: simulated[key] for key in simulated if key not in volatile} == {
        key: real[key] for key in real if key not in volatile
    }
    assert simulated["clocks_mhz"]["application"] == real["clocks_mhz"]["application"]


@pytest.mark.parametrize("case", ["h200-x4-query-units.csv", "h200-query-alias.csv"])
def test_the_header_of_a_query_is_the_real_one(case: str) -> None:
    fields = {
        "h200-query-alias.csv": "gpu_name,gpu_bus_id,gpu_uuid,clocks.gr,clocks.sm,clocks.mem,clocks.applications.gr,"
        "clocks.applications.mem,clocks.default_applications.gr,clocks.max.gr,clocks.max.mem,"
        "clocks_throttle_reasons.active,fabric.state,persistence_mode",
        "h200-x4-query-units.csv": "timestamp,index,name,uuid,serial,pci.bus_id,driver_version,persistence_mode,pstate,"
        "clocks.current.graphics,clocks.current.sm,clocks.current.memory,clocks.applications.graphics,"
        "clocks.applications.memory,clocks.default_applications.graphics,clocks.default_applications.memory,"
        "clocks.max.graphics,clocks.max.sm,clocks.max.memory,power.draw,power.limit,enforced.power.limit,"
        "power.default_limit,power.min_limit,power.max_limit,mig.mode.current,mig.mode.pending,ecc.mode.current,"
        "compute_mode,clocks_throttle_reasons.active,clocks_event_reasons.active,pcie.link.gen.current,pcie.link.width.current",
    }[case]
    real = (FIXTURES / case).read_text(encoding="utf-8").splitlines()
    simulated = cli.run([f"--query-gpu={fields}", "--format=csv"], H200, {})[1].splitlines()
    moving = re.compile(r"\d{4}/\d\d/\d\d [\d:.]+|\d+\.\d+ W")

    assert simulated[0] == real[0]
    assert moving.sub("x", simulated[1]) == moving.sub("x", real[1])


def test_the_list_and_the_matrix_are_the_captured_ones() -> None:
    topology = {**H200, "affinity": [{"cpus": "0-63", "numa": "0"}] * 4}
    rows = cli.run(["topo", "-m"], topology, {})[1].split("\n\n")[0]

    assert cli.run(["-L"], H200, {})[1] == (FIXTURES / "h200-x4-list.txt").read_text(encoding="utf-8")
    assert rows == (FIXTURES / "h200-x4-topo-m.txt").read_text(encoding="utf-8").split("\n\n")[0]


@pytest.mark.parametrize("name", sorted(records.load()))
def test_every_record_of_the_catalogue_can_be_simulated(name: str) -> None:
    record = records.load()[name]
    code, text = cli.run(["-q", "-x"], {**record, "driver": "580.159.04"}, {})
    if not record["gpus"]["count"]:
        assert (code, text) == (6, "No devices were found\n")
        return
    report = query_xml.parse(text)
    addresses = [gpu.get("pci") for gpu in record["topology"]]

    assert len(report.gpus) == record["gpus"]["count"]
    if "clocks" in record["gpus"]:
        assert report.gpus[0]["best_clocks_mhz"] == record["gpus"]["clocks"]
    assert report.gpus[0]["memory_mib"]["total"] == record["gpus"]["memory_mib"]
    if addresses and all(addresses):
        assert [gpu["pci_bus_id"] for gpu in report.gpus] == addresses


TASK = {"SLURM_PROCID": "0"}


@pytest.mark.parametrize(
    ("environment", "seen"),
    [
        ({}, 8),
        ({"SLURM_JOB_GPUS": "2,3"}, 8),  # the prolog and the epilog
        ({**TASK, "SLURM_STEP_GPUS": "2,3", "SLURM_JOB_GPUS": "0,1,2,3"}, 2),
        ({**TASK, "SLURM_JOB_GPUS": "0,1,2,3"}, 4),  # the script of a batch job
        (TASK, 0),
    ],
)
def test_a_task_sees_the_gpus_that_slurm_gave_it(environment: dict[str, str], seen: int) -> None:
    config: dict[str, t.Any] = {"gpus": {"model": "H100", "count": 8}, "devices": "/nowhere/nvidia"}
    config["hidden_gpus"] = visible.hidden_gpus(config, environment)

    lines = cli.run(["-L"], config, {})[1].splitlines()

    assert [line.split(":")[0] for line in lines] == [f"GPU {index}" for index in range(seen)] or (
        seen == 0 and lines == ["No devices were found"]
    )


def test_a_task_sees_the_gpus_whose_device_files_it_may_open(monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(path: str, _flags: int) -> int:
        raise OSError(errno.EPERM if path.endswith(("0", "5")) else errno.ENXIO, "")

    monkeypatch.setattr(os, "open", opened)

    assert visible.hidden_gpus({"devices": "/dev/nvidia"}, {}) == [0, 5]


def test_no_process_computes_on_a_simulated_gpu() -> None:
    assert cli.run(["--query-compute-apps=gpu_bus_id,pid", "--format=csv,noheader"], H200, {}) == (0, "")
    assert cli.run(["--query-compute-apps=gpu_bus_id,pid", "--format=csv"], H200, {}) == (0, "gpu_bus_id, pid\n")
