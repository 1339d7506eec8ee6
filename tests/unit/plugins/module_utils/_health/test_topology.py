# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The check of the topology file accepts and refuses as NCCL does, by the judge of the module nccl_topology."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.filter.nccl_topology import nccl_topology
from ansible_collections.hpcai.gpucluster.plugins.module_utils._health import network, topology
from ansible_collections.hpcai.gpucluster.plugins.module_utils._health.case import Case
from ansible_collections.hpcai.gpucluster.plugins.module_utils._health.machine import Machine
from ansible_collections.hpcai.gpucluster.plugins.module_utils._health.verdict import NotApplicableError
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._health import expectations
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._programs import zipapp
from ansible_collections.hpcai.gpucluster.tests.patience import PATIENCE
from ansible_collections.hpcai.gpucluster.tests.unit.plugins.module_utils._health import machines
from ansible_collections.hpcai.gpucluster.tests.unit.support import topologies

if t.TYPE_CHECKING:
    from pathlib import Path

DEVICES = {"0000:00:06.0": 0, "0000:00:07.0": 0}
OK = topologies.text("ok_base.xml")
GPU = '<pci busid="0000:00:06.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16"'
# The file is right by itself, but not of a machine that has both GPUs at NUMA node 0.
OF_ANOTHER_MACHINE = {"missing_one_gpu.xml", "cpu_numaid_7.xml"}


def _status(text: str, cpus: dict[int, list[int]] | None = None) -> str:
    return topology.judge("/x", text, DEVICES, cpus or {}).status


@pytest.mark.parametrize("name", sorted(topologies.VERDICTS))
def test_the_verdict_is_that_of_nccl(name: str) -> None:
    accepted = topologies.VERDICTS[name]["verdict"] == "accept" and name not in {
        *topologies.SILENT,
        *OF_ANOTHER_MACHINE,
    }

    assert _status(topologies.text(name)) == ("healthy" if accepted else "unhealthy")


@pytest.mark.parametrize(
    "text",
    [
        OK.replace('" class="0x030200"', '"\nclass="0x030200"'),
        OK.replace('class="0x030200"', 'class = "0x030200"'),
        "<!--made=today-->" + OK,
        OK.replace("<cpu ", "text <cpu ", 1),
        OK.replace('version="1"', f'version="1" name="{"x" * 254}"'),
        OK.replace(GPU, GPU + "".join(f' a{number}="1"' for number in range(13))),
        OK.replace(GPU, GPU + "".join(f' a{number}="1"' for number in range(16))),
        OK.replace(' class="0x060400"', ""),
        OK.replace(GPU + "/>", GPU + '><gpu><nvlink target="0000:00:07.0" tclass="0x030200"/></gpu></pci>'),
        OK.replace(GPU, "".join(GPU.replace("0000:", f"{number:04x}:") + "/>" for number in range(1, 129)) + GPU),
        OK.replace(GPU, "".join(GPU.replace("0000:", f"{number:04x}:") + "/>" for number in range(1, 299)) + GPU),
        OK.replace("<system", "\t<system"),
        OK.replace("</system>", "</system>\t"),
        "\ufeff" + OK,
        '<?xml version="1.0"?>\n' + OK,
        OK.replace("</cpu>", ""),
    ],
    ids=str,
)
def test_what_nccl_refuses_or_dies_of_is_unhealthy(text: str) -> None:
    assert text != OK
    assert _status(text) == "unhealthy"


@pytest.mark.parametrize(
    "text",
    [
        OK,
        "<!-- a\tTAB and two -- dashes -->\n" + OK,
        "<!--\tTAB first -->\n" + OK,
        "<!--word-->\n<!-- made=today -->" + OK,
        OK.replace('link_width="16"/>', 'link_width="16" />'),
        OK.replace(GPU + "/>", GPU + '><gpu><nvlink target="0000:c0:00.0" count="18" tclass="0x068000"/></gpu></pci>'),
    ],
    ids=str,
)
def test_what_nccl_takes_is_healthy(text: str) -> None:
    assert _status(text) == "healthy"


def test_masks_are_compared_with_the_record() -> None:
    assert _status(OK, {0: list(range(64))}) == "healthy"
    finding = topology.judge("/x", OK, DEVICES, {0: list(range(32)), 1: list(range(32, 64))})

    assert finding.status == "unhealthy"
    assert "NUMA node 0 has the CPUs 0-31, the file says 0-63" in finding.reason


# What azhpc-images shipped until 2025-01-29: this mask on every node, in an otherwise right file.
@pytest.mark.parametrize("size", ["standard_nd96asr_v4", "standard_nd96amsr_a100_v4", "standard_nd40rs_v2"])
def test_public_files_that_were_once_wrong_do_not_pass(size: str) -> None:
    machine = machines.healthy(size)
    config = machines.expectations(size)
    path = config["checks"]["nccl_topology"]["path"]
    right = machines.judge(machine, config, names=["nccl_topology"])["nccl_topology"]
    machine.files[path] = re.sub('affinity="[^"]*"', 'affinity="0000ffff,0000ffff"', machine.files[path])
    wrong = machines.judge(machine, config, names=["nccl_topology"])["nccl_topology"]

    assert right.status == "healthy"
    assert wrong.status == "unhealthy"


def test_swapped_masks_of_nd_h100_v5_do_not_pass() -> None:
    size = "standard_nd96isr_h100_v5"
    low, high = "00000000,0000ffff,ffffffff", "ffffffff,ffff0000,00000000"
    text = nccl_topology(machines.record(size))
    machine = machines.healthy(size)
    config = machines.expectations(size)
    swapped = text.replace(low, "@").replace(high, low).replace("@", high)
    machine.files[config["checks"]["nccl_topology"]["path"]] = swapped
    verdict = machines.judge(machine, config, names=["nccl_topology"])["nccl_topology"]

    assert verdict.status == "unhealthy"
    assert "NUMA node 0 has the CPUs 0-47, the file says 48-95" in verdict.reason


def test_a_file_made_from_the_machine_has_the_machines_cpus() -> None:
    record = machines.record("standard_nd96isr_h100_v5")
    config = expectations.expectations(record, inputs={"nccl_topology": "machine"})["checks"]["nccl_topology"]
    odd, even = "aaaaaaaa,aaaaaaaa,aaaaaaaa", "55555555,55555555,55555555"
    text = nccl_topology(record).replace("00000000,0000ffff,ffffffff", even).replace("ffffffff,ffff0000,00000000", odd)

    assert odd in text
    assert even in text
    assert topology.judge("/x", text, config["devices"], config["cpus"]).status == "healthy"


@pytest.mark.parametrize(
    ("gpu", "file", "status", "reason"),
    [
        ("0000:00:07.0", OK, "healthy", "/opt/own.xml names its GPUs"),
        ("000f:00:00.0", OK, "unhealthy", "GPU 000f:00:00.0 is not in the file"),
        ("0000:00:07.0", "<system>", "unhealthy", "in the form that NCCL uses"),
        ("0000:00:07.0", None, "unhealthy", "no such file"),
    ],
    ids=["own", "foreign", "broken", "missing"],
)
def test_a_file_that_nccl_conf_names_is_judged_without_a_record(
    tmp_path: Path, gpu: str, file: str | None, status: str, reason: str
) -> None:
    """It was set by hand, and may be that of another machine."""
    pci = f"sys/bus/pci/devices/{gpu}"
    files = {"etc/nccl.conf": "NCCL_DEBUG=WARN\nNCCL_TOPO_FILE=/opt/own.xml\n", f"{pci}/vendor": "0x10de\n"}
    files |= {f"{pci}/class": "0x030200\n", **({} if file is None else {"opt/own.xml": file})}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    case = Case(Machine(PATIENCE, str(tmp_path)), {"path": None, "devices": None, "cpus": {}})
    finding = topology.check(case)

    assert finding.status == status
    assert reason in finding.reason
    (tmp_path / "etc/nccl.conf").unlink()
    with pytest.raises(NotApplicableError):
        topology.check(case)


def test_the_program_holds_the_judge(tmp_path: Path) -> None:
    program = tmp_path / "gpucluster-check"
    program.write_bytes(zipapp.build("_health.cli", sys.executable))
    program.chmod(0o755)
    (tmp_path / "topo.xml").write_text(OK.replace("ffffffff,ffffffff", "00000000,ffffffff"), encoding="utf-8")
    params = {"path": str(tmp_path / "topo.xml"), "devices": DEVICES, "cpus": {"0": "0-31"}}
    config = {"checks": {"nccl_topology": params}, "state_dir": str(tmp_path / "state")}
    (tmp_path / "check.json").write_text(json.dumps(config), encoding="utf-8")
    done = subprocess.run(
        [str(program), "--config", str(tmp_path / "check.json"), "nccl_topology"],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )

    assert "nccl_topology: healthy: " in done.stdout, done.stdout + done.stderr


def test_a_machine_without_a_physical_interface_has_no_ethernet_to_judge(tmp_path: Path) -> None:
    case = Case(Machine(PATIENCE, str(tmp_path)), {"interfaces": []})

    with pytest.raises(NotApplicableError, match="no physical interface is set up"):
        network.ethernet(case)
