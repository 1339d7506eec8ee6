# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The grammar of nccl.conf."""

from __future__ import annotations

import typing as t

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.hpcai.gpucluster.plugins.module_utils._nccl import conf


def test_settings_are_lines_in_order() -> None:
    assert conf.render({"NCCL_B": "x:1,y", "NCCL_A": 1}) == "NCCL_A=1\nNCCL_B=x:1,y\n"


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("UCX_TLS", "rc", "no name of a variable of NCCL"),
        ("nccl_debug", "INFO", "no name of a variable of NCCL"),
        (" NCCL_DEBUG", "INFO", "from the first column on"),
        ("export NCCL_DEBUG", "INFO", "no name of a variable"),
        ("NCCL_DEBUG", '"INFO"', "takes the quotes for a part of the value"),
        ("NCCL_DEBUG", "'INFO'", "takes the quotes for a part of the value"),
        ("NCCL_DEBUG", "INFO ", "no blanks"),
        ("NCCL_DEBUG", "INFO # loud", "no blanks"),
        ("NCCL_DEBUG", "INFO\r", "no line ends"),
        ("NCCL_DEBUG", "a\nNCCL_X=1", "no line ends"),
        ("NCCL_DEBUG", "ä", "plain characters only"),
        ("NCCL_IB_DISABLE", True, "NCCL wants a number: write 1"),
        ("NCCL_DEBUG", ["INFO"], "must be a text or a number"),
    ],
)
def test_what_nccl_would_take_otherwise_is_refused(name: str, value: object, text: str) -> None:
    assert any(text in problem for problem in conf.problems({name: value}))
    with pytest.raises(ValueError, match="NCCL"):
        conf.render({name: value})


def test_settings_that_are_no_mapping_are_refused() -> None:
    assert conf.problems(["NCCL_DEBUG=INFO"]) == ["the settings of NCCL must be a mapping, not list"]


# Each line, and whether NCCL 2.28.9 reads what its writer meant.
@settings(max_examples=80, deadline=None)
@given(st.dictionaries(st.text(max_size=12).map(lambda name: f"NCCL_{name}"), st.text(max_size=8) | st.integers()))
def test_each_accepted_setting_is_one_line(wanted: dict[str, t.Any]) -> None:
    if not conf.problems(wanted):
        lines = conf.render(wanted).split("\n")
        assert lines == [*(f"{name}={value}" for name, value in sorted(wanted.items())), ""]


def test_a_file_is_read_as_nccl_reads_it() -> None:
    text = "# by hand\nNCCL_DEBUG=WARN\nNCCL_TOPO_FILE=/x\nNCCL_TOPO_FILE=/y\nno setting\n"

    assert conf.read(text) == {"NCCL_DEBUG": "WARN", "NCCL_TOPO_FILE": "/x"}
    assert conf.read("") == {}
