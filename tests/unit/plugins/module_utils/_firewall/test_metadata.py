# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who reaches the metadata service of Azure; molecule/options tries it with real users."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._firewall import guard, lasting, metadata
from ansible_collections.hpcai.gpucluster.tests.unit.plugins.module_utils._firewall.test_guard import Machine, host

TABLE = metadata.TABLE


def chain(name: str, uids: tuple[int, ...] = ()) -> list[str]:
    text = metadata.render(uids).partition(f"chain {name} {{")[2].partition("}\n\t}")[0].partition("\n\t}")[0]
    return [line.strip() for line in text.splitlines() if line.strip().startswith("ip ")]


@pytest.mark.parametrize(
    ("uids", "allowed"), [((), "{ 0 }"), ((22078,), "{ 0, 22078 }"), ((22078, 1000, 0), "{ 0, 1000, 22078 }")]
)
def test_only_root_and_the_named_users_reach_the_service(uids: tuple[int, ...], allowed: str) -> None:
    assert chain("output", uids)[:2] == [
        f"ip daddr 169.254.169.254 meta skuid {allowed} accept",
        "ip daddr 169.254.169.254 reject",
    ]


def test_only_root_reaches_the_wire_server_and_everybody_its_dns() -> None:
    wire = [rule for rule in chain("output", (22078,)) if "168.63.129.16" in rule]

    assert wire == [
        "ip daddr 168.63.129.16 tcp dport { 80, 32526 } meta skuid 0 accept",
        "ip daddr 168.63.129.16 tcp dport { 80, 32526 } reject",
    ]


def test_nothing_is_forwarded_to_either() -> None:
    assert all(rule.endswith(" reject") and "skuid" not in rule for rule in chain("forward", (22078,)))
    assert len(chain("forward")) == 2


def test_loaded_rules_last_and_a_second_run_changes_nothing() -> None:
    machine, content = Machine(), metadata.render([])
    assert lasting.differs(content, TABLE.state(host(machine)))

    metadata.load(content, host(machine))

    assert not lasting.differs(content, TABLE.state(host(machine)))
    assert lasting.differs(metadata.render([1000]), TABLE.state(host(machine)))
    assert machine.files[TABLE.unit_file].count(f"ExecStart={lasting.NFT} --file {TABLE.rules}") == 1
    assert machine.enabled


@pytest.mark.parametrize("fault", ["table", "unit", "file", "dropin"])
def test_what_somebody_removed_comes_back(fault: str) -> None:
    machine, content = Machine(), metadata.render([])
    metadata.load(content, host(machine))

    if fault == "table":
        machine.table = ""  # nft flush ruleset
    elif fault == "unit":
        machine.enabled = False
    else:
        machine.files[TABLE.rules if fault == "file" else TABLE.dropin_file] = ""

    assert lasting.differs(content, TABLE.state(host(machine)))


@pytest.mark.parametrize("verb", ["StartPost", "Reload"])
def test_the_rules_come_back_when_somebody_starts_or_reloads_nftables(verb: str) -> None:
    """Its configuration may begin with "flush ruleset". molecule/options tries it with systemd."""
    machine = Machine()
    metadata.load(metadata.render([]), host(machine))

    assert f"Exec{verb}={lasting.NFT} --file {TABLE.rules}" in machine.files[TABLE.dropin_file].splitlines()
    assert TABLE.dropin_file != guard.FIREWALL.dropin_file


def test_the_firewall_has_other_names() -> None:
    ours, other = TABLE, guard.FIREWALL
    assert not {ours.name, ours.rules, ours.listing, ours.unit} & {other.name, other.rules, other.listing, other.unit}


def test_rules_that_nft_refuses_have_an_effect_in_their_message() -> None:
    machine = Machine()
    machine.refuses = ["--file"]

    with pytest.raises(lasting.FirewallError, match="every user still reaches the metadata service"):
        metadata.load(metadata.render([]), host(machine))

    assert not machine.enabled


def test_a_removal_leaves_nothing() -> None:
    machine = Machine()
    metadata.load(metadata.render([]), host(machine))

    TABLE.remove(host(machine))

    assert (machine.table, machine.files, machine.enabled) == ("", {}, False)
    assert not TABLE.present(host(machine))


@pytest.mark.parametrize("uid", [-1, 2**32 - 1])
def test_a_number_that_is_no_uid_is_named(uid: t.Any) -> None:
    assert metadata.problems([0, 1000, uid]) == [f"found {uid}; allowed: UIDs from 0 to 4294967294"]
