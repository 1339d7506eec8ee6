# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filters ssh_host_keys and ssh_known_hosts: from facts to a file."""

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.filter.ssh_host_keys import ssh_host_keys
from ansible_collections.hpcai.gpucluster.plugins.filter.ssh_known_hosts import ssh_known_hosts

FACTS: dict[str, t.Any] = {
    "ssh_host_key_ed25519_public": "AAAAC3New",
    "ssh_host_key_ed25519_public_keytype": "ssh-ed25519",
}


def test_facts_become_lines_and_a_machine_that_was_not_seen_keeps_its_key() -> None:
    hostvars = {"gpu1": {"ansible_host": "10.0.0.1", "ansible_facts": FACTS}, "gpu2": {"ansible_host": "10.0.0.2"}}
    known = "gpu1,10.0.0.1 ssh-ed25519 AAAAC3Old\ngpu2,10.0.0.2 ssh-ed25519 AAAAC3Two\ngone ssh-ed25519 AAAAC3Gone\n"

    text = ssh_known_hosts(known, ssh_host_keys(["gpu2", "gpu1"], hostvars))

    assert text == "gpu1,10.0.0.1 ssh-ed25519 AAAAC3New\ngpu2,10.0.0.2 ssh-ed25519 AAAAC3Two\n"


def test_what_is_no_machine_is_refused_by_the_name_of_the_filter() -> None:
    with pytest.raises(AnsibleFilterError, match="ssh_known_hosts: a machine is"):
        ssh_known_hosts("", t.cast("t.Any", ["gpu1"]))
