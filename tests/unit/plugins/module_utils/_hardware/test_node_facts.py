# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._hardware import node_facts

if t.TYPE_CHECKING:
    from pathlib import Path


class FakeTools:
    """Only the tools that are given are installed."""

    def __init__(self, **tools: tuple[int, str]) -> None:
        self.tools = tools

    def __call__(self, args: t.Sequence[str]) -> tuple[int, str, str]:
        if args[0] not in self.tools:
            return 127, "", f"{args[0]} cannot be started"
        code, out = self.tools[args[0]]
        return code, out, ""


def test_versions_of_what_is_installed(tmp_path: Path) -> None:
    (tmp_path / "sys/module/nvidia").mkdir(parents=True)
    (tmp_path / "sys/module/nvidia/version").write_text("580.159.04\n", encoding="utf-8")
    (tmp_path / "usr/lib/x86_64-linux-gnu").mkdir(parents=True)
    for name in ("libnccl.so.2", "libnccl.so.2.28.9"):
        (tmp_path / "usr/lib/x86_64-linux-gnu" / name).touch()
    tools = FakeTools(slurmd=(0, "slurm-wlm 24.11.5\n"), ofed_info=(0, "MLNX_OFED_LINUX-24.10-1.1.4.0:\n"))
    versions = node_facts.Node(tools, tmp_path).versions()

    assert versions["driver"] == "580.159.04"
    assert versions["nccl"] == "2.28.9"
    assert versions["slurm"] == "24.11.5"
    assert versions["ofed"] == "MLNX_OFED_LINUX-24.10-1.1.4.0"


def test_what_is_not_installed_has_no_version(tmp_path: Path) -> None:
    versions = node_facts.Node(FakeTools(), tmp_path).versions()

    assert {name for name, version in versions.items() if version} == {"kernel"}


@pytest.mark.parametrize(
    ("tools", "expected"),
    [
        ({"chronyc": (0, "A9FEA97B,ntp,4,1763634000.1,0.000012,0,0,0,0,0,0,0,64.2,Normal")}, (True, 0.000012)),
        ({"chronyc": (0, "7F7F0101,,0,0.0,2.500000,0,0,0,0,0,0,0,0.0,Not synchronised")}, (False, 2.5)),
        ({"chronyc": (1, "506 Cannot talk to daemon"), "timedatectl": (0, "no\n")}, (False, None)),
        ({"timedatectl": (0, "yes\n")}, (True, None)),
        ({}, (None, None)),
    ],
)
def test_the_clock(tmp_path: Path, tools: dict[str, tuple[int, str]], expected: tuple[bool, float]) -> None:
    clock = node_facts.Node(FakeTools(**tools), tmp_path).clock()

    assert (clock["synchronized"], clock["offset"]) == expected


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ((0, "10.0.0.21       STREAM gpu1\n10.0.0.21       DGRAM\nfe80::1%eth0  STREAM\n"), ["10.0.0.21", "fe80::1"]),
        ((0, "127.0.1.1       STREAM gpu1\n"), ["127.0.1.1"]),
        ((2, ""), []),
        ((2, "10.0.0.21 STREAM\n"), None),
        ((0, ""), None),
        ((0, "10.0.0.O1       STREAM gpu1\n"), None),
        ((124, ""), None),
        ((1, "getent: unknown database\n"), None),
    ],
)
def test_its_own_name(tmp_path: Path, answer: tuple[int, str], expected: list[str] | None) -> None:
    assert node_facts.Node(FakeTools(timeout=answer), tmp_path).own_name()["addresses"] == expected


def test_a_mount_is_missing_or_hangs(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    lines = "nfs:/home /home nfs4 rw 0 0\nnfs:/a /my\\040data nfs4 rw 0 0\n"
    (tmp_path / "proc/mounts").write_text(lines, encoding="utf-8")
    host = node_facts.Node(FakeTools(timeout=(124, "")), tmp_path)

    assert host.mounts(["/home", "/my data", "/data"]) == {"/home": "hangs", "/my data": "hangs", "/data": "missing"}
    assert node_facts.Node(FakeTools(timeout=(0, "")), tmp_path).mounts(["/home"]) == {"/home": "ok"}


def test_users_resolve_or_not() -> None:
    found = node_facts.users(["root", "nobody-has-this-name"])

    assert found == {"root": {"uid": 0, "gid": 0}, "nobody-has-this-name": None}


def test_settings_of_nccl(tmp_path: Path) -> None:
    node = node_facts.Node(lambda *_args: (0, "", ""), tmp_path)
    assert node.nccl_conf() == ""

    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/nccl.conf").write_text("NCCL_DEBUG=WARN\n")
    assert node.nccl_conf() == "NCCL_DEBUG=WARN\n"

    (tmp_path / "etc/nccl.conf").unlink()
    (tmp_path / "etc/nccl.conf").mkdir()
    assert node.nccl_conf() is None
