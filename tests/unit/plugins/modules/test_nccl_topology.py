# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module nccl_topology, run as Ansible runs it, on a machine in a directory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._hardware import machine as hardware_machine
from ansible_collections.hpcai.gpucluster.plugins.module_utils._nccl import build
from ansible_collections.hpcai.gpucluster.plugins.modules import nccl_topology
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue import records
from ansible_collections.hpcai.gpucluster.tests.unit.support import sysfs

RECORD = records.find("Standard_ND96asr_v4")
TEXT = build.from_record(RECORD)


class Machine(t.NamedTuple):
    """A machine in a directory, and the file that the module keeps there."""

    tree: sysfs.Tree
    path: Path

    def run(self, check_mode: bool = False, **options: t.Any) -> dict[str, t.Any]:
        """Run the module in a process of its own and return its result."""
        arguments = {
            "path": str(self.path),
            "sysfs": str(self.tree.sysfs),
            "procfs": str(self.tree.procfs),
            "_ansible_check_mode": check_mode,
            "_ansible_remote_tmp": str(self.path.parent.parent),
            **options,
        }
        done = subprocess.run(
            [sys.executable, nccl_topology.__file__],
            input=json.dumps({"ANSIBLE_MODULE_ARGS": arguments}),
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        return t.cast("dict[str, t.Any]", json.loads(done.stdout or json.dumps({"died": done.stderr})))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    (tmp_path / "opt").mkdir()
    return Machine(sysfs.nd_a100_v4(tmp_path), tmp_path / "opt/topo.xml")


def test_file_is_written_once(machine: Machine) -> None:
    first = machine.run(record=RECORD)
    second = machine.run(record=RECORD)

    assert first["changed"], first
    assert machine.path.read_text(encoding="utf-8") == TEXT
    assert machine.path.stat().st_mode & 0o777 == 0o644
    assert first["gpus"] == sorted(gpu["pci"] for gpu in RECORD["topology"])
    assert not second["changed"]
    assert second["differences"] == []


def test_check_mode_changes_nothing_and_shows_the_difference(machine: Machine) -> None:
    result = machine.run(check_mode=True, record=RECORD)

    assert result["changed"]
    assert result["diff"]["after"] == TEXT
    assert not machine.path.exists()


def test_missing_directories_and_the_link_are_made_once(machine: Machine) -> None:
    machine.path.parent.rmdir()
    link = machine.path.parent / "a/link.xml"

    assert machine.run(check_mode=True, record=RECORD, link=str(link))["changed"]
    assert not link.parent.exists()
    assert machine.run(record=RECORD, link=str(link))["changed"]
    assert link.read_text(encoding="utf-8") == TEXT
    assert not machine.run(record=RECORD, link=str(link))["changed"]


def test_only_a_file_gives_way_to_the_link(machine: Machine) -> None:
    link = machine.path.parent / "link.xml"
    link.write_text("old", encoding="utf-8")
    assert machine.run(record=RECORD, link=str(link))["changed"]
    assert link.is_symlink()

    link.unlink()
    link.mkdir()
    assert "cannot make the link" in machine.run(record=RECORD, link=str(link))["msg"]


def test_replaced_file_is_kept(machine: Machine) -> None:
    machine.path.write_text("old", encoding="utf-8")

    result = machine.run(record=RECORD)

    assert Path(result["backup_file"]).read_text(encoding="utf-8") == "old"


def test_rights_alone_are_a_change(machine: Machine) -> None:
    machine.run(record=RECORD)
    machine.path.chmod(0o600)

    assert machine.run(record=RECORD)["changed"]
    assert machine.path.stat().st_mode & 0o777 == 0o644


def test_machine_itself_gives_the_same_file(machine: Machine) -> None:
    assert machine.run(gpus_per_bridge=2)["content"] == TEXT


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"content": "<graphs/>"}, "this is a graph file"),
        ({"content": TEXT.replace("  <", "\t<")}, r"expecting '<', got '\t'"),
        ({"content": TEXT.replace("16.0 GT/s PCIe", "16.0 GT/s")}, "which NCCL takes for generation 3"),
        ({"record": records.find("DGX_H100")}, "topology of another kind of machine"),
        ({"record": {"name": "x"}}, "record is not of the form"),
        ({"record": {**RECORD, "topology": "all"}}, "record is not of the form"),
        ({"record": records.find("lab")}, "has no PCI address"),
        ({"gpus_per_bridge": 3}, "cannot be shared out with 3 GPUs per bridge"),
        ({"gpus_per_bridge": -1}, "cannot be shared out"),
        ({"content": TEXT.replace("000e:", "000f:"), "machine_check": "fail"}, "file and machine differ"),
        ({"state": "checked"}, "NCCL would ignore"),
    ],
)
def test_bad_input_is_refused(machine: Machine, options: dict[str, t.Any], message: str) -> None:
    params = {
        "path": str(machine.path),
        "state": "present",
        "record": None,
        "content": None,
        "machine_check": "warn",
        "gpus_per_bridge": 0,
        "exclude": [],
        **options,
    }
    seen = hardware_machine.read(str(machine.tree.sysfs), str(machine.tree.procfs))

    with pytest.raises(nccl_topology.RefusedError) as caught:
        nccl_topology.judged(nccl_topology.wanted(params, seen), params, seen)
    assert message in str(caught.value)


def test_refusal_writes_nothing(machine: Machine) -> None:
    machine.path.write_text("old", encoding="utf-8")

    result = machine.run(content="<graphs/>")

    assert result["failed"]
    assert "this is a graph file" in result["msg"]
    assert [path.name for path in machine.path.parent.iterdir()] == ["topo.xml"]
    assert machine.path.read_text(encoding="utf-8") == "old"


def test_difference_is_a_warning_unless_told_otherwise(machine: Machine) -> None:
    result = machine.run(content=TEXT.replace("000e:", "000f:"))

    assert "GPU 000f:00:00.0 of the file is not in the machine" in result["differences"]
    assert any("000f" in str(warning) for warning in result["warnings"])
    assert machine.run(content=TEXT.replace("000e:", "000f:"), machine_check="skip")["differences"] == []


def test_foreign_file_is_taken_when_nobody_looks(machine: Machine) -> None:
    assert machine.run(record=records.find("DGX_H100"), machine_check="skip")["changed"]


def test_file_that_somebody_else_wrote_is_checked(machine: Machine) -> None:
    machine.path.write_text(TEXT, encoding="utf-8")
    assert not machine.run(state="checked", machine_check="fail")["changed"]

    machine.path.write_bytes(b"\xff\xfe broken")
    assert "expecting '<'" in machine.run(state="checked")["msg"]


def test_directory_in_place_of_the_file_is_refused(machine: Machine) -> None:
    machine.path.mkdir()

    assert "cannot be read" in machine.run(state="checked")["msg"]
    assert "cannot read" in machine.run(record=RECORD)["msg"]
