# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading and writing by the rules of NCCL."""

from __future__ import annotations

import contextlib
import typing as t

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.hpcai.gpucluster.plugins.module_utils._nccl import topology_xml
from ansible_collections.hpcai.gpucluster.plugins.module_utils._nccl.topology_xml import Element
from ansible_collections.hpcai.gpucluster.tests.unit.support import topologies


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<system", "line 1: the file ends inside a tag"),
        ("text<system/>", "expecting '<', got 't'"),
        ("<system>x</system>", "expecting '<', got 'x'"),
        ("\ufeff<system/>", "expecting '<'"),
        ("<system>\n\t<cpu/></system>", r"line 2: expecting '<', got '\\t'"),
        ('<system\tversion="1"/>', r"expected > at the end of <system\tversion>, got '='"),
        ('<system version="1"\tname="x"/>', r"got '\\t'"),
        ('<system version="1"\nname="x"/>', r"expected > at the end of <system>, got '\\n'"),
        ("<system\nversion='1'/>", r"expected > at the end of <system>, got '\\n'"),
        ('<system version = "1"/>', "expected a quote after =, got ' '"),
        ("<system version=1/>", "expected a quote after version=, got '1'"),
        ('<system version="1/>', "the value of version has no closing quote"),
        ('<?xml version="1.0"?><system/>', r"got '\?'"),
        ("<system></cpu>", "found </cpu> where </system> belongs"),
        ("</system>", "found </system> where no closing tag belongs"),
        ("<system></system >", "expected > after </system"),
        ("<system/ >", "expected > at the end of <system>, got ' '"),
        ("<system><cpu>", "unterminated <cpu>"),
        ("<!-- never closed", "a comment without its end"),
        ("<!--key=value--><system/>", "write a blank after '<!--'"),
        (f'<system name="{"x" * 254}"/>', "has 254 characters, NCCL takes 253"),
        (f"<{'x' * 254}/>", "a name of 254 characters"),
        (f'<system {"x" * 255}="1"/>', "a name of 255 characters"),
        ("<system>" + "<cpu/>" * 129 + "</system>", "more than 128 elements"),
        ("<system>" + f"<cpu>{'<pci/>' * 126}</cpu>" * 2 + "<cpu/></system>", "more than 255 elements"),
    ],
)
def test_what_nccl_refuses_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(topology_xml.NcclXmlError, match=message) as caught:
        topology_xml.parse(text)
    assert not caught.value.crash


def test_seventeen_attributes_are_a_crash() -> None:
    with pytest.raises(topology_xml.NcclXmlError, match="NCCL crashes") as caught:
        topology_xml.parse("<system" + "".join(f' a{number}="1"' for number in range(17)) + "/>")
    assert caught.value.crash


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\r\n ",
        "<system/>",
        "<system></system>",
        "<system name='single'/>",
        f'<system name="{"x" * 253}"/>',
        f'<{"x" * 253} {"y" * 254}="1"/>',
        "<system>" + f"<cpu>{'<pci/>' * 126}</cpu>" * 2 + "</system>",
        "<system>" + "<unknown/>" * 300 + "</system>",
        "<system><unknown><cpu></x></y></system>",
        "<!--\ta -- b\t--><system/>",
        "<system/x>",
        "<!-- one > two\nthree --><system/><!--word-->",
        "<!-- key=value --><system/>",
        "<system>\r\n<cpu/>\r\n</system>\r\n",
    ],
)
def test_what_nccl_takes_is_taken(text: str) -> None:
    assert topology_xml.parse(text).name == ""


def test_first_of_two_attributes_counts() -> None:
    assert topology_xml.parse('<a b="1" b="2"/>').children[0].get("b") == "1"


def test_deep_nesting_is_no_trouble() -> None:
    text = "<a>" * 5000 + "</a>" * 5000

    assert topology_xml.serialize(topology_xml.parse(text).children[0]).count("<a>") == 4999


@pytest.mark.parametrize("value", ['a"b', "a'b", "a<b", "a&b", "a\tb", "a\nb", "x" * 254])
def test_value_that_nccl_cannot_read_is_not_written(value: str) -> None:
    with pytest.raises(ValueError, match="NCCL decodes no entities"):
        topology_xml.serialize(Element("a", [("b", value)]))


def test_real_file_survives_the_way_there_and_back() -> None:
    text = topologies.text("ok_base.xml")

    assert topology_xml.serialize(topology_xml.parse(text).children[0]) == text


_NAMES = st.text(alphabet="abcdefgxyz_", min_size=1, max_size=8)
_VALUES = st.text(alphabet="0123456789abcdef:., x-", max_size=20)


@st.composite
def _elements(draw: t.Any, depth: int = 3) -> Element:
    element = Element(draw(_NAMES), list(draw(st.dictionaries(_NAMES, _VALUES, max_size=4)).items()))
    if depth:
        element.children = draw(st.lists(_elements(depth=depth - 1), max_size=3))
    return element


def _plain(element: Element) -> t.Any:
    return element.name, element.attributes, [_plain(child) for child in element.children]


@settings(max_examples=60, deadline=None)
@given(_elements())
def test_what_is_written_is_read_as_it_was(element: Element) -> None:
    assert _plain(topology_xml.parse(topology_xml.serialize(element)).children[0]) == _plain(element)


_PIECES = ["<", ">", "/", "</", "/>", "<!--", "-->", "=", '"', "'", " ", "\n", "\t", "system", "cpu", ' a="1"', "\x00"]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(_PIECES) | st.text(max_size=3), max_size=20).map("".join))
def test_no_text_makes_the_parser_die(text: str) -> None:
    with contextlib.suppress(topology_xml.NcclXmlError):
        assert topology_xml.parse(text).name == ""


@settings(max_examples=60, deadline=None)
@given(name=st.sampled_from(sorted(topologies.VERDICTS)), at=st.integers(0, 4000), put=st.text(max_size=2))
def test_no_damage_to_a_real_file_makes_the_parser_die(name: str, at: int, put: str) -> None:
    text = topologies.text(name)
    with contextlib.suppress(topology_xml.NcclXmlError):
        assert topology_xml.parse(text[:at] + put + text[at + 1 :]).name == ""
