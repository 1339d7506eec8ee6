# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Convert the credentials of container registries from the input to the format of enroot. Errors omit passwords."""

from __future__ import annotations

import re
import typing as t

if t.TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    Record = Mapping[str, t.Any]

# NVIDIA's registry uses two hosts, and a login that is this literal string.
NGC_MACHINES = ("nvcr.io", "authn.nvidia.com")
NGC_LOGIN = "$oauthtoken"
KEYS = ("ngc", "machine", "login", "password", "users")
_MACHINE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?")
_LINE = re.compile(r"^machine\s+(\S+)\s+login\s+(\S+)\s+password(\s|$)")


class Login(t.NamedTuple):
    """One line of the file."""

    machine: str
    login: str
    password: str

    def line(self) -> str:
        """Return the line in the format that enroot and curl read."""
        return f"machine {self.machine} login {self.login} password {self.password}"


def problems(
    entries: Sequence[t.Any], known_users: Collection[str] = (), name: str = "enroot_credentials"
) -> list[str]:
    """Return one sentence per fault. If I(known_users) is empty, any user name is valid."""
    found = []
    for index, entry in enumerate(entries):
        where = f"{name}[{index}]"
        if not isinstance(entry, dict):
            found.append(f"{where} is not a mapping of {', '.join(KEYS)}")
            continue
        found += [f"{where}: {fault}" for fault in _faults(entry, known_users)]
    return found


def _faults(entry: Record, known_users: Collection[str]) -> Iterator[str]:
    unknown = sorted(set(map(str, entry)) - set(KEYS))
    if unknown:
        yield f"{', '.join(unknown)} is unknown; known: {', '.join(KEYS)}"
    if "ngc" in entry:
        yield from _secret("ngc", entry["ngc"])
        if {"machine", "login", "password"} & set(entry):
            yield "ngc stands for machine, login and password; leave those out"
    else:
        yield from _machine(entry.get("machine"))
        yield from _word("login", entry.get("login"))
        yield from _secret("password", entry.get("password"))
    yield from _users(entry.get("users"), known_users)


def _machine(machine: t.Any) -> Iterator[str]:
    if not isinstance(machine, str) or not machine:
        yield "machine is missing; it is the host name of the registry, such as nvcr.io"
    elif not _MACHINE.fullmatch(machine):
        yield f"machine is {machine!r}; it has to be a host name, without a scheme, a port and a path"


def _word(key: str, value: t.Any) -> Iterator[str]:
    if not isinstance(value, str) or not value:
        yield f"{key} is missing, or is not text"
    elif re.search(r"\s", value):
        yield f"{key} holds a blank or a line break"


def _secret(key: str, value: t.Any) -> Iterator[str]:
    yield from _word(key, value)
    if isinstance(value, str) and value.startswith("$") and not value.startswith("$("):
        yield f"{key} starts with $, which enroot would hand to a shell; only $(command) may"


def _users(users: t.Any, known: Collection[str]) -> Iterator[str]:
    if users is None:
        return
    if not isinstance(users, list) or not users or not all(isinstance(user, str) for user in users):
        yield "users has to be a list of user names; omit it for all users"
        return
    unknown = [user for user in users if known and user not in known]
    if unknown:
        yield f"users names {', '.join(unknown)}; known users: {', '.join(sorted(known))}"


def logins(entries: Sequence[Record], user: str | None) -> list[Login]:
    """Return the logins of a user, one per machine and login. For None, return the logins that all users have."""
    found: dict[tuple[str, str], Login] = {}
    # An entry for named users takes precedence over an entry for all users.
    for entry in sorted(entries, key=lambda entry: bool(entry.get("users"))):
        if entry.get("users") and user not in entry["users"]:
            continue
        for login in _expanded(entry):
            found[login.machine, login.login] = login
    return list(found.values())


def _expanded(entry: Record) -> list[Login]:
    if "ngc" in entry:
        return [Login(machine, NGC_LOGIN, entry["ngc"]) for machine in NGC_MACHINES]
    return [Login(entry["machine"], entry["login"], entry["password"])]


def named_users(entries: Sequence[Record]) -> list[str]:
    """Return the users that the entries name."""
    return list(dict.fromkeys(user for entry in entries for user in entry.get("users") or []))


def text(current: str, wanted: Sequence[Login], managed: Collection[tuple[str, str]]) -> str:
    """Return the file with the managed lines. Lines of the user for other machines or logins remain, and come first."""
    ours = {(login.machine, login.login) for login in wanted} | set(managed)
    kept = [
        line for line in current.splitlines() if (match := _LINE.match(line)) is None or match.group(1, 2) not in ours
    ]
    return "".join(f"{line}\n" for line in [*kept, *(login.line() for login in wanted)])
