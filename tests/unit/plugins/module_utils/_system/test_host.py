# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import socket
import stat
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host

if t.TYPE_CHECKING:
    from pathlib import Path

MACHINE = Host(lambda _args: (0, "", ""))


def test_a_file_is_replaced_with_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "directory/file"

    MACHINE.write(str(path), "one\n", mode=0o600)
    MACHINE.write(str(path), "two\n", mode=0o600)

    assert MACHINE.read(str(path)) == "two\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert MACHINE.entries(str(path.parent)) == ["file"]


def test_what_is_missing_is_empty(tmp_path: Path) -> None:
    MACHINE.remove(str(tmp_path / "none"))

    assert MACHINE.read(str(tmp_path / "none")) == ""
    assert MACHINE.entries(str(tmp_path / "none")) is None


def test_a_port_that_answers_and_one_that_does_not() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert MACHINE.connect("127.0.0.1", port, 5) == ""

    assert MACHINE.connect("127.0.0.1", port, 5).startswith(f"127.0.0.1 port {port}: ")


def test_a_name_without_an_address_is_told() -> None:
    assert MACHINE.connect("no-such-host.invalid", 2049, 5).startswith("no-such-host.invalid has no address")
