# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from ansible_collections.hpcai.gpucluster.plugins.module_utils._accounts.database import Account, Database, Entry

# The form of Debian 13 (passwd 4.17), with a line of NIS and an entry that a person broke.
FILES = {
    "/etc/passwd": """root:x:0:0:root:/root:/bin/bash
sshd:x:990:65534:sshd user:/run/sshd:/usr/sbin/nologin
alice:x:2001:2001:Alice Liddell,,,:/home/alice:/bin/bash
bob:x:2002:5000::/home/bob:/bin/sh
broken:x:many:1::/:
+::::::
""",
    "/etc/group": "root:x:0:\nvideo:x:44:alice,bob\nalice:x:2001:\nbob:x:2002:\nresearch:x:5000:alice\n+:::\n",
    "/etc/shadow": "root:*:20410:0:99999:7:::\nalice:$6$x$y:20410:0:99999:7:::\nbob:!:20410:0:99999:7:::\n",
}


def database() -> Database:
    return Database.read(FILES.__getitem__)


def test_files_are_read_and_foreign_lines_skipped() -> None:
    found = database()

    assert list(found.users) == ["root", "sshd", "alice", "bob"]
    assert found.users["alice"] == Account("alice", 2001, 2001, "Alice Liddell,,,", "/home/alice", "/bin/bash")
    assert found.groups["video"] == Entry("video", 44, ("alice", "bob"))
    assert found.hashes == {"root": "*", "alice": "$6$x$y", "bob": "!"}
    assert found.memberships() == {"alice": {"video", "research"}, "bob": {"video"}}


def test_a_removed_user_takes_the_own_group_along() -> None:
    rest = database().without(["alice"])

    assert "alice" not in rest.users
    assert "alice" not in rest.groups
    assert rest.groups["video"].members == ("bob",)
    assert "alice" not in rest.hashes


def test_a_group_that_somebody_uses_stays() -> None:
    found = database()
    found.groups["alice"] = Entry("alice", 2001, ("bob",))

    assert "alice" in found.without(["alice"]).groups


def test_somebody_who_is_not_there_takes_nothing_along() -> None:
    assert "research" in database().without(["research"]).groups
