# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Account files and the tools of shadow 4.17 as far as they matter: what they refuse, what they take along."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host

if t.TYPE_CHECKING:
    from collections.abc import Sequence


class FakeShadow(Host):
    """A host with accounts; its tools exit with the codes of the real ones."""

    def __init__(self, usergroups: bool = True) -> None:
        super().__init__(self._tool)
        self.passwd: dict[str, dict[str, t.Any]] = {}
        self.group: dict[str, int] = {}
        self.members: dict[str, set[str]] = {}
        self.hashes: dict[str, str] = {}
        self.pids: dict[int, list[int]] = {}
        self.calls: list[list[str]] = []
        self.stdin: list[str] = []
        self.usergroups = usergroups
        for name, gid in (("root", 0), ("sudo", 27), ("video", 44), ("users", 100)):
            self.add_group(name, gid)
        self.add("root", 0, "root", shell="/bin/bash", home="/root")

    def add_group(self, name: str, gid: int) -> None:
        self.group[name] = gid
        self.members[name] = set()

    def add(self, name: str, uid: int, group: str = "", groups: Sequence[str] = (), **fields: str) -> None:
        if not group:
            group = name
            self.add_group(name, uid)
        self.passwd[name] = {
            "uid": uid,
            "gid": self.group[group],
            "gecos": "",
            "home": f"/home/{name}",
            "shell": "/bin/bash",
            **fields,
        }
        self.hashes[name] = "!"
        for other in groups:
            self.members[other].add(name)

    def processes(self, uid: int) -> list[int]:
        return list(self.pids.get(uid, []))

    def kill(self, pid: int) -> None:
        for pids in self.pids.values():
            if pid in pids:
                pids.remove(pid)

    def executable(self, path: str) -> bool:
        return path in ("/bin/bash", "/bin/sh")

    def pause(self, seconds: float) -> None:
        """Go on at once."""

    def read_required(self, path: str) -> str:
        if path == "/etc/passwd":
            rows = [
                f"{name}:x:{user['uid']}:{user['gid']}:{user['gecos']}:{user['home']}:{user['shell']}"
                for name, user in self.passwd.items()
            ]
        elif path == "/etc/group":
            rows = [f"{name}:x:{gid}:{','.join(sorted(self.members[name]))}" for name, gid in self.group.items()]
        else:
            rows = [f"{name}:{value}:20000:0:99999:7:::" for name, value in self.hashes.items()]
        return "\n".join(rows) + "\n"

    def _tool(self, args: list[str], data: str | None = None) -> tuple[int, str, str]:
        self.calls.append(args)
        options, last = _options(args[1:])
        code = getattr(self, f"_{args[0]}")(last, options, data or "")
        return code, "", f"{args[0]}: refused" if code else ""

    def _groupadd(self, name: str, options: dict[str, str], data: str) -> int:
        gid = int(options["gid"]) if "gid" in options else max(gid for gid in self.group.values() if gid < 1000) + 1
        if name in self.group:
            return 9
        if gid in self.group.values():
            return 4
        self.add_group(name, gid)
        return 0

    def _groupmod(self, name: str, options: dict[str, str], data: str) -> int:
        gid, before = int(options["gid"]), self.group[name]
        if gid in self.group.values():
            return 4
        self.group[name] = gid
        for user in self.passwd.values():
            if user["gid"] == before:
                user["gid"] = gid
        return 0

    def _groupdel(self, name: str, options: dict[str, str], data: str) -> int:
        if name not in self.group:
            return 6
        if self.group[name] in [user["gid"] for user in self.passwd.values()]:
            return 8
        del self.group[name], self.members[name]
        return 0

    def _useradd(self, name: str, options: dict[str, str], data: str) -> int:
        uid, groups = int(options["uid"]), [group for group in options.get("groups", "").split(",") if group]
        if name in self.passwd:
            return 9
        if uid in [user["uid"] for user in self.passwd.values()]:
            return 4
        if not {options["gid"], *groups} <= set(self.group):
            return 6
        fields = {"home": options["home-dir"], "shell": options["shell"], "gecos": options["comment"]}
        self.add(name, uid, options["gid"], groups, **fields)
        return 0

    def _usermod(self, name: str, options: dict[str, str], data: str) -> int:
        user = self.passwd[name]
        if "uid" in options:
            if self.processes(user["uid"]):
                return 8
            if int(options["uid"]) in [other["uid"] for other in self.passwd.values()]:
                return 4
            user["uid"] = int(options["uid"])
        if "gid" in options:
            user["gid"] = self.group[options["gid"]]
        if "groups" in options:
            for group, members in self.members.items():
                members.discard(name)
                if group in options["groups"].split(","):
                    members.add(name)
        fields = {"home": "home", "shell": "shell", "comment": "gecos"}
        user.update({field: options[option] for option, field in fields.items() if option in options})
        return 0

    def _userdel(self, name: str, options: dict[str, str], data: str) -> int:
        if name not in self.passwd:
            return 6
        if self.processes(self.passwd[name]["uid"]):
            return 8
        del self.passwd[name], self.hashes[name]
        for members in self.members.values():
            members.discard(name)
        used = [user["gid"] for user in self.passwd.values()]
        if self.usergroups and name in self.group and not self.members.get(name) and self.group[name] not in used:
            del self.group[name]
            self.members.pop(name, None)
        return 0

    def _chpasswd(self, name: str, options: dict[str, str], data: str) -> int:
        self.stdin.append(data)
        for line in data.splitlines():
            user, value = line.split(":")
            if user not in self.passwd or not value:
                return 1
            self.hashes[user] = value
        return 0


_FLAGS = {"--no-create-home", "--no-user-group", "--system", "--remove", "--encrypted"}


def _options(args: list[str]) -> tuple[dict[str, str], str]:
    """Return the options by name and the last argument."""
    options, rest = {}, list(args)
    while rest and rest[0].startswith("--"):
        word = rest.pop(0)
        if word in _FLAGS:
            options[word[2:]] = ""
        elif "=" in word:
            key, value = word[2:].split("=", 1)
            options[key] = value
        else:
            options[word[2:]] = rest.pop(0)
    return options, rest[0] if rest else ""
