# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import hostlist
from ansible_collections.hpcai.gpucluster.tests.patience import cheap


@pytest.mark.parametrize(
    ("names", "expression"),
    [
        ([], ""),
        (["login1"], "login1"),
        (["login"], "login"),
        ([f"gpu{i}" for i in range(1, 401)] + ["login1"], "gpu[1-400],login1"),
        (["n08", "n09", "n10", "n11"], "n[08-11]"),
        (["n8", "n9", "n10"], "n[8-10]"),
        (["n1", "n01", "n02", "n2"], "n[1-2,01-02]"),
        (["n8", "n9", "n08", "n09", "n10"], "n[8-9,08-10]"),
        (["gpu10", "gpu2", "gpu2", "gpu1"], "gpu[1-2,10]"),
        (["rack1-n1", "rack1-n2", "rack2-n1", "rack2-n2"], "rack[1-2]-n[1-2]"),
        (["rack1-n1", "rack1-n2", "rack2-n1"], "rack1-n[1-2],rack2-n1"),
        (["a1.example.org", "a2.example.org"], "a1.example.org,a2.example.org"),
        (["vmss00000A", "vmss000009"], "vmss00000A,vmss000009"),
        (["b9999999999999999999"], "b9999999999999999999"),
        (["007", "008"], "[007-008]"),
    ],
)
def test_names_become_the_expression_that_slurm_prints(names: list[str], expression: str) -> None:
    assert hostlist.compress(names) == expression
    assert set(hostlist.expand(expression)) == set(names)


def test_the_order_of_the_names_does_not_matter() -> None:
    names = [f"gpu{i}" for i in range(50)] + ["login", "a3", "z1"]

    assert hostlist.compress(names) == hostlist.compress(reversed(names)) == "a3,gpu[0-49],login,z1"


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("gpu[1-3]", ["gpu1", "gpu2", "gpu3"]),
        ("gpu[1,3-4],login1", ["gpu1", "gpu3", "gpu4", "login1"]),
        ("r[0-1]_b[08-09]", ["r0_b08", "r0_b09", "r1_b08", "r1_b09"]),
        ("a, b ,,c", ["a", "b", "c"]),
        ("unit[0-1]rack", ["unit0rack", "unit1rack"]),
        ("gpu1,gpu1", ["gpu1"]),
    ],
)
def test_expression_becomes_names(expression: str, names: list[str]) -> None:
    assert hostlist.expand(expression) == names


@pytest.mark.parametrize(
    "bad", ["gpu[1-", "gpu1]", "gpu[[1]]", "gpu[3-1]", "gpu[a-b]", "gpu[]", "a b", "gpu[0-99999999]"]
)
def test_malformed_expressions_are_refused(bad: str) -> None:
    with pytest.raises(hostlist.HostlistError):
        hostlist.expand(bad)


@pytest.mark.parametrize("bad", ["", "gpu[1-2]", "a,b", "a b", 7, None])
def test_what_is_no_host_name_is_refused(bad: object) -> None:
    with pytest.raises(hostlist.HostlistError, match="is no host name"):
        hostlist.compress([bad])  # type: ignore[list-item]


NAMES = st.lists(st.from_regex(r"[a-c]{0,2}[0-9]{0,3}[a-c]{0,1}-?[0-9]{1,3}|[a-z]{1,3}", fullmatch=True), max_size=30)


@settings(max_examples=150, deadline=None)
@given(NAMES)
def test_any_names_come_back(names: list[str]) -> None:
    assert sorted(hostlist.expand(hostlist.compress(names))) == sorted(set(names))


def test_ten_thousand_names_take_well_under_a_second() -> None:
    names = [f"gpu{i:05d}" for i in range(5000)] + [f"rack{r}-n{n}" for r in range(100) for n in range(50)]

    with cheap(0.5):
        expression = hostlist.compress(names)
        found = hostlist.expand(expression)

    assert expression == "gpu[00000-04999],rack[0-99]-n[0-49]"
    assert len(found) == 10_000


def test_the_most_hosts_of_slurm_are_not_too_many() -> None:
    assert len(hostlist.expand(f"n[1-{hostlist.MAX_RANGE}]")) == hostlist.MAX_RANGE


@pytest.mark.parametrize(
    "text",
    [
        f"n,n[1-{hostlist.MAX_RANGE}]",
        "n[1-99999][1-99999]",
        "a[0-9][0-9][0-9][0-9][0-9][0-9]",
        ",".join(f"n{number}x[1-99999]" for number in range(9)),
    ],
)
def test_too_many_hosts_are_refused_before_they_fill_the_memory(text: str) -> None:
    with pytest.raises(hostlist.HostlistError, match="names more than 262144 hosts"):
        hostlist.expand(text)
