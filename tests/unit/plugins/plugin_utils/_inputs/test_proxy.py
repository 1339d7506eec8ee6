# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs import proxy, rules

PROXY = {"http": "http://proxy:3128", "https": "http://proxy:3129", "no_proxy": [".example.com", "localhost"]}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {}),
        ({"http": "", "https": None, "no_proxy": ["a"]}, {}),
        ({"https": "http://p:1"}, {"https_proxy": "http://p:1", "no_proxy": "localhost,127.0.0.1,::1"}),
        (
            PROXY,
            {
                "http_proxy": "http://proxy:3128",
                "https_proxy": "http://proxy:3129",
                "no_proxy": "localhost,127.0.0.1,::1,.example.com",
            },
        ),
    ],
)
def test_programs_get_the_proxy_and_reach_their_own_machine_without_it(
    given: dict[str, t.Any], expected: dict[str, str]
) -> None:
    assert proxy.environment(given) == expected


def test_a_good_proxy_has_no_problem() -> None:
    assert proxy.problem(PROXY) == ""


@pytest.mark.parametrize("value", ["alice:secret@proxy", "http://alice:se/cret@proxy:1 x", "ftp://alice:secret@p"])
def test_the_login_of_a_wrong_proxy_is_not_shown(value: str) -> None:
    (fault,) = rules.judge({"gpucluster_proxy": {"http": value}}).faults

    assert fault.startswith("gpucluster_proxy: found {'http': '***@p")
    assert "cret" not in fault
