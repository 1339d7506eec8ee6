# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module firewall by its options, on a machine in memory."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._firewall import guard, lasting
from ansible_collections.hpcai.gpucluster.plugins.modules import firewall
from ansible_collections.hpcai.gpucluster.tests.unit.plugins.module_utils._firewall.test_guard import Machine
from ansible_collections.hpcai.gpucluster.tests.unit.support.run_module import RunModule

NETWORKS: dict[str, t.Any] = {"cluster": ["10.0.0.0/24"]}


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    found = Machine()
    monkeypatch.setattr(firewall, "Host", lambda _run: found)
    return found


def test_rules_are_loaded_on_trial_and_confirmed(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    run = RunModule(capsys)
    foreseen = run(firewall.main, True, **NETWORKS)
    assert machine.files == {}
    loaded = run(firewall.main, **NETWORKS, seconds="30")
    confirmed = run(firewall.main, step="confirm")
    again = run(firewall.main, **NETWORKS)

    assert [(one["changed"], one["pending"]) for one in (foreseen, loaded, confirmed, again)] == [
        (True, False),
        (True, True),
        (True, False),
        (False, False),
    ]
    assert "10.0.0.0/24" in machine.files[guard.FIREWALL.rules]
    assert foreseen["diff"] == loaded["diff"]


def test_the_firewall_is_removed_once(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    run = RunModule(capsys)
    run(firewall.main, **NETWORKS)
    run(firewall.main, step="confirm")
    assert run(firewall.main, True, state="absent")["changed"]

    assert [run(firewall.main, state="absent")["changed"] for _time in range(2)] == [True, False]
    assert (machine.table, machine.files) == ("", {})


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({}, "cluster: found nothing"),
        ({**NETWORKS, "ssh": []}, "ssh: found nothing"),
        ({"cluster": ["ten"]}, "found 'ten'; allowed: addresses or networks"),
        ({**NETWORKS, "allow": [{"ports": [0]}]}, "found port 0; allowed: 1 to 65535"),
        ({**NETWORKS, "allow": [{"ports": [80], "protocol": "icmp"}]}, "protocol"),
        ({**NETWORKS, "allow": [{}]}, "ports"),
        ({**NETWORKS, "state": "on"}, "state"),
    ],
)
def test_wrong_options_are_refused_and_change_nothing(
    machine: Machine, capsys: pytest.CaptureFixture[str], options: dict[str, t.Any], named: str
) -> None:
    found = RunModule(capsys)(firewall.main, **options)

    assert found["failed"]
    assert named in found["msg"]
    assert (machine.table, machine.files) == ("", {})


def test_rules_that_nft_refuses_are_named(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    machine.refuses = ["--check"]
    found = RunModule(capsys)(firewall.main, **NETWORKS)

    assert found["failed"]
    assert found["msg"].startswith("nft refuses the rules, and nothing was changed")


@pytest.mark.parametrize(
    ("installed", "others", "settings", "unused"),
    [
        (True, "", "", True),
        (False, "", "", False),  # the machine had nftables before
        (True, "table ip nat\n", "", False),
        (True, "", "??5?????? c /etc/nftables.conf\n", False),  # somebody wrote rules
    ],
)
def test_nftables_goes_only_if_nobody_else_uses_it(
    machine: Machine,
    capsys: pytest.CaptureFixture[str],
    installed: bool,
    others: str,
    settings: str,
    unused: bool,
) -> None:
    run = RunModule(capsys)
    run(firewall.main, **NETWORKS)
    run(firewall.main, step="confirm")
    if installed:
        machine.files[lasting.INSTALLED] = "ours"
    machine.others, machine.settings = others, settings

    assert [run(firewall.main, check, state="absent")["unused"] for check in (True, False)] == [unused, unused]
