# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter ssh_host_keys: the strongest key of each machine from the facts of this run."""

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.filter import ssh_host_keys as module

keys = module.FilterModule().filters()["ssh_host_keys"]


def facts(**found: str) -> dict[str, t.Any]:
    """Return the facts of setup for keys by kind."""
    types = {"ed25519": "ssh-ed25519", "rsa": "ssh-rsa", "ecdsa": "ecdsa-sha2-nistp256"}
    return {
        "ansible_facts": {
            **{f"ssh_host_key_{kind}_public": key for kind, key in found.items()},
            **{f"ssh_host_key_{kind}_public_keytype": types[kind] for kind in found},
        }
    }


def test_a_machine_has_its_names_and_its_strongest_key() -> None:
    hostvars = {"gpu1": {"ansible_host": "10.0.0.1", **facts(rsa="AAAAB3", ecdsa="AAAAE2", ed25519="AAAAC3Nza")}}

    assert keys(["gpu1"], hostvars) == [{"names": ["gpu1", "10.0.0.1"], "key": "ssh-ed25519 AAAAC3Nza"}]


@pytest.mark.parametrize(
    ("found", "expected"),
    [({"rsa": "AAAAB3", "ecdsa": "AAAAE2"}, "ecdsa-sha2-nistp256 AAAAE2"), ({"rsa": "AAAAB3"}, "ssh-rsa AAAAB3")],
)
def test_weaker_keys_are_taken_where_there_is_no_other(found: dict[str, str], expected: str) -> None:
    assert keys(["gpu1"], {"gpu1": facts(**found)})[0]["key"] == expected


@pytest.mark.parametrize("variables", [{}, {"ansible_facts": None}, {"ansible_facts": {}, "ansible_host": ""}])
def test_a_machine_whose_facts_were_not_read_has_no_key(variables: dict[str, t.Any]) -> None:
    assert keys(["gpu1"], {"gpu1": variables}) == [{"names": ["gpu1"], "key": ""}]
    assert keys(["gpu2"], {"gpu1": variables}) == [{"names": ["gpu2"], "key": ""}]


def test_a_machine_that_is_named_twice_is_returned_once() -> None:
    assert keys(["gpu1", "gpu2", "gpu1"], {}) == [{"names": ["gpu1"], "key": ""}, {"names": ["gpu2"], "key": ""}]
    assert keys([], {"gpu1": facts(rsa="AAAAB3")}) == []


@pytest.mark.parametrize(("hosts", "hostvars"), [(None, {}), (["gpu1"], None), (["gpu1"], {"gpu1": "10.0.0.1"})])
def test_what_is_no_inventory_is_refused_by_the_name_of_the_filter(hosts: t.Any, hostvars: t.Any) -> None:
    with pytest.raises(AnsibleFilterError, match=r"^hpcai.gpucluster.ssh_host_keys: "):
        keys(hosts, hostvars)
