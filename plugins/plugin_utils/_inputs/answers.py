# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Turn the answers to init.yml into the parts of an inventory, judged as check_input judges them."""

from __future__ import annotations

import collections
import ipaddress
import re
import typing as t
from pathlib import Path

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs import cluster, roles
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs.types import is_address
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import hostlist

if t.TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Given = Mapping[str, str]
    Hosts = dict[str, dict[str, str]]

QUESTIONS = ("name", "user", "controller", "nodes", "vm_size", "users")
_FIRST_UID = 2001
_LOGIN = re.compile(r"[A-Za-z0-9_][^\s{}]*")
_HOST = re.compile(r"[A-Za-z0-9_:]([A-Za-z0-9._:-]*[A-Za-z0-9_:])?")
# The comment is text of whoever made the key; with braces, Ansible would evaluate it.
_KEY = re.compile(r"(ssh-|ecdsa-|sk-)[a-z0-9@.-]+ [A-Za-z0-9+/=]+( [^{}]*)?")


class AnswerError(ValueError):
    """Answers that cannot be used; the message has one line for each fault."""


def inventory(answers: Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the parts of the inventory, or raise AnswerError."""
    given = {name: str(answers.get(name) or "").strip() for name in QUESTIONS}
    _refuse(_shape(given))
    head, nodes = _hosts("controller", given["controller"]), _hosts("nodes", given["nodes"])
    found = {
        "name": given["name"],
        "user": given["user"],
        "vm_size": given["vm_size"],
        "controller": head,
        "nodes": nodes,
        "networks": _networks([host.get("ansible_host", "") for host in (*head.values(), *nodes.values())]),
        "users": [_user(entry, number) for number, entry in enumerate(_split(given["users"]))],
    }
    _refuse([*_machines(head, nodes), *_judged(found)])
    return found


def _refuse(faults: t.Iterable[str]) -> None:
    if lines := list(faults):
        raise AnswerError("\n".join(lines))


def _shape(given: Given) -> Iterator[str]:
    """Yield the faults of the answers as such."""
    for name, answer in given.items():
        if not answer:
            yield f"init_{name}: found nothing; allowed: an answer"
        elif not answer.isprintable():
            yield f"init_{name}: found {answer!r}; allowed: one line"
    if given["user"] and not _LOGIN.fullmatch(given["user"]):
        yield f"init_user: found {given['user']!r}; allowed: a login name, such as ubuntu"
    if given["users"] and not _split(given["users"]):
        yield f"init_users: found {given['users']!r}; allowed: one user or more, separated by commas"


def _hosts(question: str, answer: str) -> Hosts:
    """Return the machines of NAMES or NAMES=ADDRESSES."""
    names, equals, addresses = (part.strip() for part in answer.partition("="))
    found = f"init_{question}: found"
    try:
        hosts = hostlist.expand(names)
        places = [addresses] if is_address(addresses) else hostlist.expand(addresses)
    except hostlist.HostlistError as exc:
        raise AnswerError(f"{found} {answer!r}; allowed: such as gpu[1-4]=192.0.2.[11-14] ({exc})") from None
    if equals and len(hosts) != len(places):
        raise AnswerError(f"{found} {len(places)} addresses for {len(hosts)} machines; allowed: one for each machine")
    if not hosts or not all(map(_HOST.fullmatch, places)):
        raise AnswerError(f"{found} {answer!r}; allowed: NAME or NAME=ADDRESS, such as gpu1=192.0.2.11")
    return {name: {"ansible_host": places[index]} if equals else {} for index, name in enumerate(hosts)}


def _machines(head: Hosts, nodes: Hosts) -> Iterator[str]:
    """Yield the faults between the machines."""
    if len(head) != 1:
        yield f"init_controller: found {len(head)} machines; allowed: one"
    if head.keys() & nodes.keys():
        yield f"init_nodes: found the controller {', '.join(head)}; allowed: other machines"
    places = [host["ansible_host"] for host in (*head.values(), *nodes.values()) if host]
    twice = [place for place, times in collections.Counter(places).items() if times > 1]
    if twice:
        yield f"init_nodes: found the address {', '.join(twice)} twice; allowed: one address for each machine"


def _judged(found: Mapping[str, t.Any]) -> Iterator[str]:
    """Yield what check_input would refuse in the file."""
    hosts = {**found["controller"], **found["nodes"]}
    groups = {"all": list(hosts), "slurm_controller": list(found["controller"]), "slurm_compute": list(found["nodes"])}
    values = {
        "slurm_cluster_name": found["name"],
        "gpucluster_vm_size": found["vm_size"],
        "users_accounts": found["users"],
    }
    yield from roles.problems("users", values)
    yield from cluster.problems(cluster.Cluster(groups, values, {name: {"host": name} for name in hosts}))


def _networks(places: list[str]) -> list[str]:
    """Return the fewest networks with exactly these addresses, or none if one is no IP address."""
    if not all(map(is_address, places)):
        return []
    networks = [ipaddress.ip_network(place) for place in places]
    old = [network for network in networks if isinstance(network, ipaddress.IPv4Network)]
    new = [network for network in networks if isinstance(network, ipaddress.IPv6Network)]
    return [*map(str, ipaddress.collapse_addresses(old)), *map(str, ipaddress.collapse_addresses(new))]


def _user(entry: str, number: int) -> dict[str, t.Any]:
    """Return the account of NAME or NAME=PUBLIC_KEY_FILE. The first user may use sudo."""
    name, __, file = (part.strip() for part in entry.partition("="))
    keys = [_key(Path(file).expanduser())] if file else []
    return {"name": name, "uid": _FIRST_UID + number, "ssh_keys": keys, "sudo": number == 0}


def _key(path: Path) -> str:
    """Return the public key of a file. Anything else, such as a private key, is refused and not shown."""
    try:
        found = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as exc:
        raise AnswerError(f"init_users: found the file {path}, which cannot be read ({exc})") from None
    if not (_KEY.fullmatch(found) and found.isprintable()):
        raise AnswerError(f"init_users: found the file {path}, which is no public key; allowed: such as id_ed25519.pub")
    return found


def _split(words: str) -> list[str]:
    return [word.strip() for word in words.split(",") if word.strip()]
