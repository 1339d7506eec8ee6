# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The judgement of topology files, held against what a real NCCL did with each."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.hpcai.gpucluster.plugins.module_utils._nccl import judge
from ansible_collections.hpcai.gpucluster.tests.unit.support import topologies

VERDICTS = topologies.VERDICTS

HEAD = '<system version="1"><cpu numaid="0" affinity="ff" arch="x86_64" vendor="v" familyid="6" modelid="1">'
ALL_WRONG = (judge.FATAL, judge.IGNORED, judge.FAULT)
GPU = '<pci busid="0001:00:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16"{}>'


def _judge(name: str) -> judge.Judged:
    return judge.judge(topologies.text(name))


def test_every_recorded_file_has_a_verdict() -> None:
    assert {path.name for path in topologies.FOLDER.glob("*.xml")} | {topologies.MADE} == set(VERDICTS)


@pytest.mark.parametrize("name", sorted(VERDICTS))
def test_judgement_is_that_of_nccl(name: str) -> None:
    refused = bool(_judge(name).of(judge.FATAL))

    assert refused == (VERDICTS[name]["verdict"] in ("reject", "crash")), _judge(name).findings


@pytest.mark.parametrize("name", sorted(name for name, found in VERDICTS.items() if found["verdict"] == "accept"))
def test_what_nccl_does_not_say_is_said(name: str) -> None:
    found = _judge(name).of(judge.IGNORED, judge.FAULT)

    if name in topologies.SILENT:
        assert any(topologies.SILENT[name] in text for text in found), found
    else:
        assert found == []


@pytest.mark.parametrize("name", ["space_before_slash.xml", "two_spaces_between_attrs.xml"])
def test_a_blank_too_many_is_noted(name: str) -> None:
    assert any("a blank too many" in text for text in _judge(name).of(judge.NOTE))


def test_every_file_that_cost_bandwidth_is_refused() -> None:
    slow = [name for name, found in VERDICTS.items() if found.get("max_bw") == 48.0]

    assert slow
    assert all(_judge(name).of(judge.FAULT) for name in slow)


@pytest.mark.parametrize(
    ("text", "severity", "message"),
    [
        ("<graphs version='1'></graphs>", judge.IGNORED, "this is a graph file, for NCCL_GRAPH_FILE"),
        ('<system version=""/>', judge.FATAL, "version of <system> is ''"),
        (HEAD + GPU.format(' a="x&amp;y"/') + "</cpu></system>", judge.FAULT, "entities and all"),
        (HEAD + GPU.format("/") * 2 + "</cpu></system>", judge.FAULT, "0001:00:00.0 is already in line 1"),
        (HEAD.replace('"ff"', '"0000ffff0000ffff"') + "</cpu></system>", judge.FAULT, "at most 8 digits"),
        (HEAD.replace('"ff"', '"0,0"') + "</cpu></system>", judge.FAULT, "holds no CPU"),
        (HEAD.replace('"0"', '"zero"') + "</cpu></system>", judge.FAULT, "numaid is 'zero'"),
        (HEAD + "</cpu>" + HEAD[20:] + "</cpu></system>", judge.FAULT, "NUMA node 0 is already in line 1"),
        (HEAD + GPU.format(' \tclass="0x02"/') + "</cpu></system>", judge.FAULT, "has a tab in the name"),
        (HEAD + GPU.format(' class="0x02"/') + "</cpu></system>", judge.FAULT, "has class more than once"),
        (
            HEAD + GPU.replace("0001:", "00000001:").format("/") + "</cpu></system>",
            judge.FAULT,
            "busid '00000001:00:00.0'",
        ),
        (HEAD + GPU.replace("0001:", "000A:").format("/") + "</cpu></system>", judge.FAULT, "busid '000A:"),
        (
            HEAD + GPU.format("") + '<gpu><nvlink target="fffffff:ff:ff.0"/></gpu></pci></cpu></system>',
            judge.FATAL,
            "<nvlink> has no count",
        ),
    ],
)
def test_finding(text: str, severity: str, message: str) -> None:
    found = judge.judge(text).of(severity)

    assert any(message in finding for finding in found), found


LINK = HEAD + GPU.format("") + '<gpu><nvlink count="18" target="{}"{}/></gpu></pci></cpu></system>'


@pytest.mark.parametrize(
    ("target", "tclass", "fault"),
    [
        ("0000:c0:00.0", ' tclass="0x068000"', ""),  # a switch, as in OCI's files for H100
        ("0001:00:00.0", ' tclass="0x068000"', ""),
        ("0000:c0:00.0", ' tclass="0x068001"', ""),  # the CPU of a GH200
        ("fffffff:ff:ff.0", ' tclass="0x068000"', ""),
        ("0000:c0:00.0", "", ""),  # NCCL asks the machine
        ("0000:c0:00.0", ' tclass="0x030200"', "NVLink leads to 0000:c0:00.0, which is not in the file"),
        ("0001:00:00.0", ' tclass="0x030200"', "leads to the GPU itself"),
        ("0001:00:00.0", "", "leads to the GPU itself"),
    ],
)
def test_class_says_where_an_nvlink_leads(target: str, tclass: str, fault: str) -> None:
    found = judge.judge(LINK.format(target, tclass)).of(*ALL_WRONG)

    assert [fault in text for text in found] == ([True] if fault else [])


@pytest.mark.parametrize("version", ["1", " 1", "+1", "0x1", "01", "1x"])
def test_version_is_read_as_a_number(version: str) -> None:
    assert not judge.judge(HEAD.replace('"1"', f'"{version}"', 1) + "</cpu></system>").of(judge.FATAL)


@pytest.mark.parametrize("version", ["", "x1", "-1", "11", "0x11", "2"])
def test_other_versions_are_refused(version: str) -> None:
    assert judge.judge(HEAD.replace('"1"', f'"{version}"', 1) + "</cpu></system>").of(judge.FATAL)


def test_element_before_system_is_skipped() -> None:
    judged = judge.judge("<made by='me'><system version='7'></x></made>" + topologies.text("ok_base.xml"))

    assert judged.of(*ALL_WRONG) == []


def test_second_system_is_a_fault() -> None:
    text = topologies.text("ok_base.xml")

    assert any("a second <system>" in fault for fault in judge.judge(text + text).of(judge.FAULT))
    assert judge.judge(text + "<system/>").of(judge.FATAL)


def test_device_where_nccl_does_not_read_it_is_no_device() -> None:
    text = topologies.text("ok_base.xml").replace("<cpu ", "<processor ").replace("</cpu>", "</processor>")
    judged = judge.judge(text)

    assert any("names no GPU" in fault for fault in judged.of(judge.FAULT))
    assert any("<processor> means nothing to NCCL in <system>" in note for note in judged.of(judge.NOTE))


def test_dump_of_a_virtual_machine_is_no_fault() -> None:
    # It has numaid -1, links of width 0 and NVLinks to a switch that the machine does not show.
    assert _judge("dump.xml.txt").of(judge.FATAL, judge.IGNORED, judge.FAULT) == []


@settings(max_examples=150, deadline=None)
@given(name=st.sampled_from(sorted(VERDICTS)), at=st.integers(0, 1500), put=st.text(max_size=2), cut=st.integers(0, 30))
def test_no_damage_makes_the_judge_die(name: str, at: int, put: str, cut: int) -> None:
    text = topologies.text(name)

    judged = judge.judge(text[:at] + put + text[at + cut :])

    assert all(str(finding) for finding in judged.findings)
