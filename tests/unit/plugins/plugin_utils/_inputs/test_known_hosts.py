# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.filter.ssh_host_keys import FilterModule as Keys
from ansible_collections.hpcai.gpucluster.plugins.filter.ssh_known_hosts import FilterModule as KnownHosts

keys = Keys().filters()["ssh_host_keys"]
known_hosts = KnownHosts().filters()["ssh_known_hosts"]


def facts(**found: str) -> dict[str, t.Any]:
    """Return the facts of a machine with these host keys."""
    kinds = {"ed25519": "ssh-ed25519", "rsa": "ssh-rsa", "ecdsa": "ecdsa-sha2-nistp256"}
    both = [
        (f"ssh_host_key_{kind}_public", key, f"ssh_host_key_{kind}_public_keytype", kinds[kind])
        for kind, key in found.items()
    ]
    return {name: value for row in both for name, value in ((row[0], row[1]), (row[2], row[3]))}


HOSTVARS = {
    "gpu1": {"ansible_facts": facts(rsa="AAAAB3", ed25519="AAAAC3"), "ansible_host": "10.0.0.1"},
    "gpu2": {"ansible_facts": facts(rsa="AAAAB4")},
    "gpu3": {"ansible_facts": {}, "ansible_host": "gpu3"},
}


def test_the_strongest_key_of_each_machine_is_taken() -> None:
    assert keys(["gpu1", "gpu2", "gpu3", "gpu1", "gpu9"], HOSTVARS) == [
        {"names": ["gpu1", "10.0.0.1"], "key": "ssh-ed25519 AAAAC3"},
        {"names": ["gpu2"], "key": "ssh-rsa AAAAB4"},
        {"names": ["gpu3"], "key": ""},
        {"names": ["gpu9"], "key": ""},
    ]


def test_a_limited_run_keeps_the_keys_that_it_does_not_see() -> None:
    first = known_hosts("", keys(["gpu2", "gpu1"], HOSTVARS))

    assert first == "gpu1,10.0.0.1 ssh-ed25519 AAAAC3\ngpu2 ssh-rsa AAAAB4\n"

    unseen = keys(["gpu1", "gpu2", "gpu3"], {"gpu3": {"ansible_facts": facts(ed25519="AAAAC5")}})

    assert known_hosts(first, unseen) == "gpu1 ssh-ed25519 AAAAC3\ngpu2 ssh-rsa AAAAB4\ngpu3 ssh-ed25519 AAAAC5\n"


def test_a_machine_that_was_made_anew_has_its_new_key() -> None:
    assert known_hosts("gpu1 ssh-ed25519 AAAAold\n", keys(["gpu1"], HOSTVARS)).endswith(" ssh-ed25519 AAAAC3\n")


def test_a_machine_that_has_left_the_inventory_leaves_the_list() -> None:
    assert known_hosts("gpu8 ssh-ed25519 AAAAC8\n# note\n\nbroken\n", keys(["gpu3"], HOSTVARS)) == ""


@pytest.mark.parametrize(
    "machine",
    [
        {"names": ["gpu1 *"], "key": "ssh-ed25519 AAAA"},
        {"names": ["gpu1\n*"], "key": "ssh-ed25519 AAAA"},
        {"names": ["*"], "key": "ssh-ed25519 AAAA"},
        {"names": ["gpu1"], "key": "ssh-ed25519 AAAA\n* ssh-ed25519 BBBB"},
        {"names": ["gpu1"], "key": "cert-authority AAAA"},
    ],
)
def test_nothing_but_names_and_keys_gets_into_the_file(machine: dict[str, t.Any]) -> None:
    assert known_hosts("", [machine]) == ""


def test_what_is_no_machine_is_refused() -> None:
    with pytest.raises(AnsibleFilterError, match="a machine is"):
        known_hosts("", [{"key": "ssh-ed25519 AAAA"}])
