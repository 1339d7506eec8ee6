# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A file that this collection generated on a machine with two H200, and what NCCL 2.28.9 made of it there."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.hpcai.gpucluster.plugins.module_utils._nccl import judge, topology_xml

FIXTURES = Path(__file__).parents[3] / "fixtures/nccl/2.28.9-h200-x2-generated"
GENERATED = (FIXTURES / "580.159.04.xml").read_text(encoding="utf-8")
DUMPED = (FIXTURES / "580.159.04-dumped.xml").read_text(encoding="utf-8")
OURS = ("busid", "class", "link_speed", "link_width")


def _devices(text: str) -> dict[str, tuple[topology_xml.Element, topology_xml.Element]]:
    system = judge.judge(text).system
    assert system is not None
    return judge.devices(system)


def _pcis(text: str) -> list[tuple[str | None, ...]]:
    return [tuple(pci.get(name) for name in OURS) for pci, _cpu in _devices(text).values() if judge.is_gpu(pci)]


def test_we_judge_the_file_as_nccl_did() -> None:
    judged = judge.judge(GENERATED)

    assert not judged.of(judge.FATAL, judge.IGNORED, judge.FAULT)


def test_nccl_kept_every_link_of_the_file() -> None:
    assert _pcis(DUMPED) == _pcis(GENERATED)
    assert len(_pcis(GENERATED)) == 2


def test_nccl_kept_the_cores_of_the_file() -> None:
    (cpu,) = {id(cpu): cpu for _pci, cpu in _devices(DUMPED).values()}.values()

    assert cpu.get("affinity") == "ffffffff"
