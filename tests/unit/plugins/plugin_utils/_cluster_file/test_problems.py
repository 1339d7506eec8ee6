# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults between keys, and the message with lines."""

from __future__ import annotations

import typing as t

import pytest
from ansible.module_utils.common.yaml import yaml_load

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._cluster_file import problems

GOOD: dict[str, t.Any] = {
    "plugin": "hpcai.gpucluster.cluster",
    "name": "c",
    "machines": {
        "head": {"roles": "controller", "address": "10.0.0.9"},
        "gpu[1-4]": {"roles": ["compute"], "address": "10.0.0.[1-4]"},
    },
    "users": {"alice": {"uid": 1}},
}


def _machines(**machines: t.Any) -> dict[str, t.Any]:
    return {"machines": {**GOOD["machines"], **machines}}


def _node(name: str, **keys: t.Any) -> dict[str, t.Any]:
    return _machines(**{name: {"roles": "compute", **keys}})


def test_a_good_file_has_no_fault() -> None:
    assert problems.find(GOOD) == []


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (_node("localhost"), "machines.localhost: found localhost; allowed: names that are neither groups of the"),
        (_node("slurm_compute"), "machines.slurm_compute: found slurm_compute; allowed: names"),
        (_node("gpu[3-5]"), "machines.gpu[3-5]: found gpu3, gpu4; allowed: each machine once; machines.gpu[1-4] has"),
        (_node("n[2-1]"), "machines.n[2-1]: found 'n[2-1]'; allowed: a name or a range such as gpu[1-64]"),
        (
            _node("n[1-3]", address="10.1.0.[1-2]"),
            "n[1-3].address: found 2 values for 3 machines; allowed: one for each",
        ),
        (_node("n[1-3]", address="10.1.0.[2-1]"), "machines.n[1-3]: found a range that is not valid"),
        (_node("n[1-3]", rack="r[1-2]"), "n[1-3].rack: found 2 values for 3 machines; allowed: a number that divides"),
        (
            _node("n1", address="10.0.0.4"),
            "machines.n1.address: found 10.0.0.4; allowed: addresses that machines.gpu[1-4]",
        ),
        (_node("n1", vm_size="dgx_h10"), "machines.n1.vm_size: found 'dgx_h10'; allowed: auto, DGX_A100"),
        ({"vm_size": "Standard_ND96isr_H100"}, "; did you mean Standard_ND96isr_H100_v5?"),
        ({"machines": None}, "machines: found nothing; allowed: a mapping"),
        ({"admins": ["alcie"]}, "admins[0]: found 'alcie'; allowed: alice; did you mean alice?"),
        (
            {"partitions": {"p": {"nodes": "gpu[4-5]"}}},
            "partitions.p.nodes: found gpu5; allowed: machines with the role",
        ),
        ({"partitions": {"p": {"nodes": "head"}}}, "partitions.p.nodes: found head"),
        ({"partitions": {"p": {"nodes": "gpu["}}}, "partitions.p.nodes: found 'gpu['; allowed: nodes such as"),
        (
            {"partitions": {"p": {"default": True}, "q": {"default": True}}},
            "q.default: found true; allowed: one default",
        ),
        ({"options": {"fierwall": "present"}}, "options.fierwall: found an unknown option; allowed: "),
        ({"options": {"fierwall": "present"}}, "did you mean firewall?"),
        (
            {"proxy": {"http": "http://x:y@p:1"}},
            "proxy.http: found a value that is not shown here; allowed: a URL without",
        ),
        ({"vars": {"users_accounts": []}}, "vars.users_accounts: found a variable that a key of this file sets, too"),
        ({"vars": {"slurm_database_password": "x"}}, "vars.slurm_database_password: found a secret"),
        ({"vars": {"enroot_credentials": [{"password": "x"}]}}, "vars.enroot_credentials[0].password: found a secret"),
        ({"vars": {"own_api_token": 5}}, "vars.own_api_token: found a secret"),
        (_node("n1", vars={"munge_key": "x"}), "machines.n1.vars.munge_key: found a secret"),
        ({"slurm": {"database_config": {"password": "x"}}}, "slurm.database_config.password: found a secret"),
    ],
)
def test_a_fault_is_named(change: dict[str, t.Any], sentence: str) -> None:
    found = [str(fault) for fault in problems.find({**GOOD, **change})]

    assert any(sentence in line for line in found), found
    assert not any("'x'" in line for line in found)


@pytest.mark.parametrize(
    "change",
    [
        {"machines": {}},
        {"vm_size": "AUTO"},
        {"vm_size": "dgx_h100"},
        {"vm_size": "{{ azure_vm_size }}"},
        {"partitions": {"p": {"nodes": "ALL"}, "q": {"nodes": ["gpu1", "gpu[2-3]"]}}},
        {
            "proxy": {"http": "{{ vault_proxy }}", "https": "http://p:1", "no_proxy": ["m"]},
            "options": {"firewall": "present"},
        },
        {"vars": {"slurm_database_password": "{{ vault_database }}", "own_token": "", "token_lifespan": 5}},
    ],
)
def test_what_is_allowed(change: dict[str, t.Any]) -> None:
    assert problems.find({**GOOD, **change}) == []


def test_a_file_without_machines_is_refused_unless_azure_makes_them() -> None:
    without = {key: value for key, value in GOOD.items() if key != "machines"}

    (fault,) = problems.find(without)
    assert "{} if other files of the inventory have the machines" in str(fault)
    assert problems.find({**without, "azure": {"location": "x"}}) == []


def test_the_message_has_a_line_for_each_fault() -> None:
    text = "plugin: hpcai.gpucluster.cluster\nusers:\n  bob: {}\n  amy: {uid: 0}\n"
    found = problems.message(problems.find(yaml_load(text)), "dir/cluster.yml", text)

    assert [line.split(": found")[0] for line in found.splitlines()] == [
        "dir/cluster.yml:1: name",
        "dir/cluster.yml:3: users.bob.uid",
        "dir/cluster.yml:4: users.amy.uid",
    ]


def test_a_long_message_counts_the_rest() -> None:
    text = "plugin: hpcai.gpucluster.cluster\nname: c\n" + "".join(f"key{number}: 1\n" for number in range(50))

    assert problems.message(problems.find(yaml_load(text)), "f", text).splitlines()[-1] == "and 10 more"
