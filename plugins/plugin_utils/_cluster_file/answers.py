# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Write cluster.yml from the answers to six questions."""

from __future__ import annotations

import json
import re
import typing as t
from pathlib import Path

import yaml

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._cluster_file import problems, ranges, schema

if t.TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Answers = Mapping[str, t.Any]

QUESTIONS = ("name", "user", "controller", "nodes", "vm_size", "users")
_FIRST_UID = 2001
# A word that YAML reads as a string without quotes.
_PLAIN = re.compile(r"(?!(?:true|false|yes|no|on|off|null|y|n)$)[a-z][A-Za-z0-9_.\[\]-]*", re.IGNORECASE)
_KEY = re.compile(r"(ssh-|ecdsa-|sk-)[a-z0-9@.-]+ [A-Za-z0-9+/=]+( .*)?")
_SUFFIXES = ("cluster.yml", "cluster.yaml")


class AnswerError(ValueError):
    """An answer that cannot be used; the message has one line for each."""


def text(answers: Answers, file: str) -> str:
    """Return the text of the file, or raise AnswerError with all faults."""
    given = {name: str(answers.get(name) or "").strip() for name in QUESTIONS}
    faults = [*_faults(given, file)]
    if faults:
        raise AnswerError("\n".join(faults))
    result = "\n".join(_lines(given)) + "\n"
    wrong = problems.find(yaml.safe_load(result))
    if wrong:
        raise AnswerError("\n".join(map(str, wrong)))
    return result


def _faults(given: Mapping[str, str], file: str) -> Iterator[str]:
    """Yield the faults of the answers as such; the faults of their values are those of the file."""
    for name, answer in given.items():
        if not answer:
            yield f"init_{name}: found nothing; allowed: an answer"
        elif not answer.isprintable():
            yield f"init_{name}: found {answer!r}; allowed: one line"
    if given["users"] and not _split(given["users"]):
        yield f"init_users: found {given['users']!r}; allowed: one user or more, separated by commas"
    if _machine(given["controller"])[0] == _machine(given["nodes"])[0] != "":
        yield f"init_nodes: found {given['nodes']!r}; allowed: other machines than the controller"
    if not file.endswith(_SUFFIXES):
        yield f"init_file: found {file!r}; allowed: a name that ends in cluster.yml, which Ansible needs"


def _lines(given: Mapping[str, str]) -> Iterator[str]:
    users = dict(_user(entry) for entry in _split(given["users"]))
    names = list(users)
    yield from (
        "---",
        f"# yaml-language-server: $schema={schema.load()['$id']}",
        "# This file is the inventory. docs/cluster-file.md describes its keys. The next steps:",
        "#   ansible-inventory -i cluster.yml --graph",
        "#   ansible-playbook -i cluster.yml hpcai.gpucluster.check_input     # changes nothing",
        "#   ansible-playbook -i cluster.yml hpcai.gpucluster.site --check --diff",
        "#   ansible-playbook -i cluster.yml hpcai.gpucluster.site",
        "#   ansible-playbook -i cluster.yml hpcai.gpucluster.validate_preflight",
        "plugin: hpcai.gpucluster.cluster",
        f"name: {_quoted(given['name'])}",
        "",
        "connection:",
        "  # The user that Ansible logs in as. It needs sudo; add --ask-become-pass if sudo asks for a password.",
        f"  user: {_quoted(given['user'])}",
        "  # jump_host: admin@bastion.example.com",
        "",
        *_machines(given["controller"], given["nodes"]),
        "",
        "# The hardware of the nodes: a size of the catalogue (docs/hardware.md), or auto to look at the machines.",
        f"vm_size: {_quoted(given['vm_size'])}",
        "",
        "# Users who may use sudo on all machines.",
        f"admins: [{_quoted(names[0])}]",
        "users:",
        *(line for number, (name, key) in enumerate(users.items()) for line in _user_lines(name, key, number)),
        "",
        "# partitions:",
        "#   batch: {default: true, default_time: 1-00:00:00, max_time: 7-00:00:00}",
        "",
        "# features:",
        "#   pam_adopt: true    # users log in only to nodes on which they have a job",
        "#   private_tmp: true  # each job has its own /tmp",
        "",
        "# Any input of a role: ansible-doc -t role -l hpcai.gpucluster. A secret stays in a vault:",
        "# NAME: '{{ vault_NAME }}'",
        "vars: {}",
    )


def _machines(controller: str, nodes: str) -> Iterator[str]:
    """Yield the machines. The controller exports directories only if the addresses of all machines are known."""
    entries = [_machine(entry) for entry in (controller, nodes)]
    known = bool(ranges.networks([address for __, text in entries for address in _addresses(text)]))
    roles = ["controller", "database", "build", *(["nfs_server"] if known else [])]
    yield "# Machines by the name that 'hostname -s' prints. Roles: controller, database, build, login, compute,"
    yield "# nfs_server and nfs_client."
    yield "machines:"
    if known:
        yield "  # The controller exports /home and /shared to the machines of this file. With your own file server,"
        yield "  # remove nfs_server and add: storage: {filer: filer.example.com}"
    yield f"  {_entry(*entries[0], '[' + ', '.join(roles) + ']')}"
    yield "  # login1: {address: 192.0.2.9, roles: login}"
    yield f"  {_entry(*entries[1], 'compute')}"
    if not known:
        yield ""
        yield "# Shared directories: a file server, or the role nfs_server above and the networks of the machines here."
        yield "# storage:"
        yield "#   filer: filer.example.com"
        yield "#   networks: [10.0.0.0/24]"


def _machine(entry: str) -> tuple[str, str]:
    """Split NAME=ADDRESS; the address may be missing."""
    name, _equals, address = entry.partition("=")
    return name.strip(), address.strip()


def _addresses(expression: str) -> list[str]:
    try:
        return ranges.values(expression)
    except ranges.RangeError:
        return [""]


def _entry(name: str, address: str, roles: str) -> str:
    where = f"address: {_quoted(address)}, " if address else ""
    return f"{_quoted(name, '[],')}: {{{where}roles: {roles}}}"


def _user(entry: str) -> tuple[str, str]:
    """Split NAME=PUBLIC_KEY_FILE, and return the key, which is empty without a file."""
    name, __, file = entry.partition("=")
    return name.strip(), _key(Path(file.strip()).expanduser()) if file.strip() else ""


def _key(path: Path) -> str:
    """Return the public key of a file. Anything else, such as a private key, is refused."""
    try:
        found = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as exc:
        raise AnswerError(f"init_users: found the file {path}, which cannot be read ({exc})") from None
    if not _KEY.fullmatch(found):
        raise AnswerError(f"init_users: found the file {path}, which is no public key; allowed: such as id_ed25519.pub")
    return found


def _user_lines(name: str, key: str, number: int) -> list[str]:
    """Return the lines of one user. The UIDs are consecutive."""
    head = f"  {_quoted(name)}:"
    keys = [f"    ssh_keys: [{json.dumps(key)}]"] if key else ["    # ssh_keys: [ssh-ed25519 AAAA... name@laptop]"]
    return [head, f"    uid: {_FIRST_UID + number}", *keys]


def _split(words: str) -> list[str]:
    return [word.strip() for word in words.split(",") if word.strip()]


def _quoted(word: str, plain: str = "") -> str:
    """Return a word for YAML. In a flow mapping, brackets need quotes; I(plain) has the characters that need none."""
    needs = set("[],") - set(plain)
    return word if _PLAIN.fullmatch(word) and not needs & set(word) else json.dumps(word)
