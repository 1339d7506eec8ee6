# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""SSH host keys of the machines of a cluster: from facts, and as a known_hosts file."""

from __future__ import annotations

import re
import typing as t

if t.TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# The strongest first. One key per machine is sufficient, because ssh requests the type that it knows.
KINDS = ("ed25519", "ecdsa", "rsa")
_NAME = re.compile(r"[A-Za-z0-9_.:-]+\Z")
_KEY = re.compile(r"(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp\d+) [A-Za-z0-9+/]+=*\Z")


class KnownHost(t.TypedDict):
    """One machine: its names, with the inventory name first, and its key if known."""

    names: list[str]
    key: str


def machines(hosts: Sequence[str], hostvars: Mapping[str, Mapping[str, t.Any]]) -> list[KnownHost]:
    """Return the machines with the keys from the facts of this run."""
    known = {host: hostvars[host] for host in hosts if host in hostvars}
    return [_machine(host, known.get(host, {})) for host in dict.fromkeys(hosts)]


def render(known: str, wanted: Sequence[KnownHost]) -> str:
    """Return known_hosts with the keys of these machines only; a machine without a new key keeps its old one."""
    before = {name: key for names, key in _lines(known) for name in names}
    lines = []
    for machine in sorted(wanted, key=lambda one: one["names"][0]):
        names = [name for name in machine["names"] if _NAME.match(name)]
        key = machine["key"] or (before.get(names[0], "") if names else "")
        if names and _KEY.match(key):
            lines.append(f"{','.join(names)} {key}\n")
    return "".join(lines)


def _machine(host: str, variables: Mapping[str, t.Any]) -> KnownHost:
    """Return one machine."""
    facts = variables.get("ansible_facts") or {}
    address = str(variables.get("ansible_host") or "")
    keys = [
        f"{facts.get(f'ssh_host_key_{kind}_public_keytype', '')} {facts[f'ssh_host_key_{kind}_public']}"
        for kind in KINDS
        if facts.get(f"ssh_host_key_{kind}_public")
    ]
    return {"names": list(dict.fromkeys(filter(None, [host, address]))), "key": keys[0] if keys else ""}


def _lines(text: str) -> list[tuple[list[str], str]]:
    """Return the names and the key of each line."""
    parts = [line.split(None, 1) for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(part[0].split(","), part[1].strip()) for part in parts if len(part) > 1]
