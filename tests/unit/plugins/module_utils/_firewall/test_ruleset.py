# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules of the firewall, and what is refused."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._firewall import ruleset

GIVEN: dict[str, t.Any] = {
    "cluster": ["10.0.0.0/24", "10.0.0.7", "fd00::/64"],
    "ssh": ["192.0.2.1"],
    "ssh_ports": [22, 2222],
    "allow": [{"ports": [9400, 9100, 9100], "sources": ["10.9.0.0/24"]}, {"ports": [60001], "protocol": "udp"}],
}


def rules(**changes: t.Any) -> list[str]:
    text = ruleset.render(ruleset.settings({**GIVEN, **changes}))
    return [line.strip() for line in text.splitlines() if "accept" in line and "saddr @" in line]


def test_each_source_reaches_its_ports_only() -> None:
    assert rules() == [
        "ip saddr @cluster4 accept",
        "ip6 saddr @cluster6 accept",
        "ip saddr @ssh4 tcp dport { 22, 2222 } accept",
        "ip saddr @allow14 tcp dport { 9100, 9400 } accept",
        "ip saddr @allow24 udp dport { 60001 } accept",
        "ip6 saddr @allow26 udp dport { 60001 } accept",
    ]


def test_a_set_has_no_intervals_that_overlap() -> None:
    text = ruleset.render(ruleset.settings(GIVEN))

    assert "elements = { 10.0.0.0/24 }" in text
    assert "10.0.0.7" not in text


def test_loading_replaces_the_table_in_one_step_and_drops_the_rest() -> None:
    text = ruleset.render(ruleset.settings(GIVEN))

    assert text.startswith(ruleset.DELETE)
    assert "policy drop" in text
    assert "flush ruleset" not in text


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"cluster": []}, "Slurm would stop"),
        ({"ssh": []}, "nobody could log in"),
        ({"cluster": ["10.0.0.0/33"]}, "10.0.0.0/33"),
        ({"ssh": ["any; }"]}, "any; }"),
        ({"ssh_ports": [0]}, "found port 0"),
        ({"allow": [{"ports": [70000]}]}, "found port 70000"),
        ({"allow": [{"ports": [1], "protocol": "icmp"}]}, "found protocol 'icmp'"),
        ({"allow": [{"ports": [1], "sources": ["gpu1"]}]}, "gpu1"),
    ],
)
def test_rules_that_lock_out_or_cannot_be_loaded_are_refused(changes: dict[str, t.Any], said: str) -> None:
    (fault,) = ruleset.problems(ruleset.settings({**GIVEN, **changes}))

    assert said in fault


def test_valid_settings_have_no_fault() -> None:
    assert ruleset.problems(ruleset.settings(GIVEN)) == []
