# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs.storage_checks import client_problem, problems

LAN = ["10.0.0.0/24"]


def test_the_defaults_with_a_network_and_a_server_are_right() -> None:
    both = [{"path": "/home"}, {"path": "/shared"}]

    assert (
        problems(
            {"nfs_exports": both, "nfs_clients": "10.0.0.0/24", "nfs_mounts": both, "nfs_server_address": "control"}
        )
        == []
    )


def test_nothing_is_wrong_with_nothing() -> None:
    assert problems({}) == []


@pytest.mark.parametrize(
    ("export", "words"),
    [
        ({"path": "/etc"}, ["nfs_exports[0].path", "/etc", "nfs_export_roots", "/home"]),
        ({"path": "/homes"}, ["outside"]),
        ({"path": "home"}, ["'home'", "absolute"]),
        ({"path": "/home/../etc"}, ["'/etc'", "shortest"]),
        ({"path": "/home/a b"}, ["absolute path of letters"]),
        ({"path": "/home", "clients": ["10.0.0.0/33"]}, ["nfs_exports[0].clients", "10.0.0.0/33"]),
        ({"path": "/home", "clients": ["10.0.0.5/24"]}, ["bits outside", "10.0.0.0/24"]),
        ({"path": "/home", "clients": ["10.0.0"]}, ["not an IP address"]),
        ({"path": "/home", "clients": ["gpu 1"]}, ["neither"]),
        ({"path": "/home", "clients": ["10.0.0.0/8", "10.1.0.0/16"]}, ["10.0.0.0/8", "10.1.0.0/16", "overlap"]),
        ({"path": "/home", "options": "10.0.0.0/8(rw) 10.1.0.0/16(ro)"}, ["overlap"]),
        ({"path": "/home", "squash": "yes"}, ["squash", "root, none, all"]),
        ({"path": "/home", "mode": "0999"}, ["mode", "'0755'"]),
    ],
)
def test_an_export_is_refused_by_name(export: dict[str, t.Any], words: list[str]) -> None:
    (problem,) = problems({"nfs_exports": [export], "nfs_clients": LAN})

    assert all(word in problem for word in words), problem


def test_an_export_without_clients_names_what_to_set() -> None:
    (problem,) = problems({"nfs_exports": [{"path": "/home"}], "nfs_clients": []})

    assert "nobody" in problem
    assert "nfs_clients" in problem


def test_the_forms_of_deepops_are_right() -> None:
    exports = [{"path": "/home", "options": "10.0.0.0/24(rw,sync,no_root_squash) @nodes(ro)"}]
    mounts = [{"mountpoint": "/home", "server": "control", "path": "/home", "options": "async,vers=3"}]

    assert problems({"nfs_exports": exports, "nfs_mounts": mounts}) == []


@pytest.mark.parametrize(
    ("export", "words"),
    [
        ({"options": "*(rw,sync,no_root_squash)"}, "root of every machine would be root on /home"),
        ({"clients": "*", "squash": "none"}, "root of every machine would be root on /home"),
        ({"clients": "*", "options": "no_root_squash"}, "root of every machine would be root on /home"),
        ({"options": "rw) *(rw,no_root_squash"}, "is not of the form"),
        ({"options": "10.0.0.1(rw)\n/etc *(rw)"}, "is not of the form"),
        ({"options": "10.0.0.1(rw,\nsync)"}, "is not of the form"),
        ({"options": ["ro\n/etc *"]}, "is no option of an export"),
        ({"options": "ro)"}, "is no option of an export"),
        ({"clients": ["0.0.0.0/0"]}, "every machine there is"),
        ({"clients": ["::/0"]}, "every machine there is"),
        ({"mode": 457}, "an octal mode in quotes"),
    ],
)
def test_a_line_of_exports_says_no_more_than_was_meant(export: dict[str, t.Any], words: str) -> None:
    found = problems({"nfs_exports": [{"path": "/home", **export}], "nfs_clients": "10.0.0.0/24"})

    assert any(words in text for text in found), found


def test_everybody_may_mount_where_root_is_nobody() -> None:
    assert problems({"nfs_exports": [{"path": "/home", "clients": "*"}]}) == []


@pytest.mark.parametrize("options", ["noatime,\nexec", "noatime x", "noatime /dev/sda /mnt", ""])
def test_options_of_scratch_stay_on_their_line(options: str) -> None:
    assert "scratch_mount_options" in problems({"scratch_mount_options": options})[0]


def test_a_mode_without_quotes_is_refused() -> None:
    assert "scratch_mode: 493 is not an octal mode in quotes" in problems({"scratch_mode": 0o755})[0]
    assert problems({"scratch_mode": "0755"}) == []


@pytest.mark.parametrize(
    ("mounts", "words"),
    [
        ([{"path": "/home"}, {"path": "/home", "server": "b"}], ["nfs_mounts[1].path", "/home", "nfs_mounts[0]"]),
        ([{"path": "/"}], ["belongs to the system"]),
        ([{"path": "/usr"}], ["belongs to the system"]),
        ([{"path": "/run/x"}], ["belongs to the system"]),
        ([{"path": "/home/"}], ["shortest"]),
        ([{"path": "/home", "source": "filer/vol"}], ["nfs_mounts[0].source", "server:/path"]),
        ([{"path": "/home", "server": "10.0.1.400"}], ["nfs_mounts[0].source", "'10.0.1.400' is not an IP address"]),
        ([{"path": "/home", "type": "cifs"}], ["'cifs'", "lustre"]),
        ([{"path": "/home", "options": "nconnect=17"}], ["nconnect=17", "1 to 16"]),
        ([{"path": "/home", "options": ["hard #x"]}], ["'hard #x'"]),
        ([{"path": "/a", "options": "nconnect=4"}, {"path": "/b"}], ["nfs_mounts[1]", "share their connections"]),
    ],
)
def test_a_mount_is_refused_by_name(mounts: list[dict[str, t.Any]], words: list[str]) -> None:
    (problem,) = problems({"nfs_mounts": mounts, "nfs_server_address": "control", "nfs_mount_options": ["nconnect=8"]})

    assert all(word in problem for word in words), problem


def test_a_mount_without_a_server_names_what_to_set() -> None:
    (problem,) = problems({"nfs_mounts": [{"path": "/home"}]})

    assert "nfs_server_address" in problem


def test_mounts_of_several_servers_may_differ_in_their_connections() -> None:
    mounts = [{"path": "/a", "source": "one:/a", "options": "nconnect=4"}, {"path": "/b", "source": "two:/b"}]

    assert problems({"nfs_mounts": mounts, "nfs_mount_options": ["nconnect=8"]}) == []


@pytest.mark.parametrize("source", ["filer:/vol1", "10.0.0.4:/vol1", "[fd00::4]:/vol1", "files.example.com:/a/b-c.d"])
def test_sources_of_existing_servers_are_right(source: str) -> None:
    assert problems({"nfs_mounts": [{"path": "/data", "source": source}]}) == []


def test_a_lustre_source_is_right() -> None:
    assert problems({"nfs_mounts": [{"path": "/data", "source": "10.0.0.4@tcp:/lustrefs", "type": "lustre"}]}) == []


@pytest.mark.parametrize(
    ("volume", "words"),
    [
        ({"devices": []}, ["devices", "at least one"]),
        ({"devices": ["sdb"]}, ["'sdb'", "/dev"]),
        ({"devices": ["/dev/sdb", "/dev/sdb"]}, ["/dev/sdb", "already"]),
        ({"devices": ["/dev/sdb", "/dev/sdc"], "level": "raid6"}, ["raid6", "at least 4"]),
        ({"devices": ["/dev/sdb"], "level": "0"}, ["'0'", "raid0"]),
        ({"devices": ["/dev/sdb"], "filesystem": "zfs"}, ["'zfs'", "xfs"]),
        ({"devices": ["/dev/sdb"], "wipe": ["/dev/sdc"]}, ["/dev/sdc", "not among"]),
        ({"devices": ["/dev/sdb"], "path": "/etc"}, ["system"]),
        ({"devices": ["/dev/sdb"], "quota": 500}, [".quota: 500", "such as 500G"]),
        ({"devices": ["/dev/sdb"], "quota": ""}, [".quota: ''", "such as 500G"]),
        ({"devices": ["/dev/sdb"], "quotas": {"alice": "2TB"}}, [".quotas.alice: '2TB'", "such as 500G"]),
        ({"devices": ["/dev/sdb"], "quotas": ["alice"]}, [".quotas", "not a mapping"]),
        ({"devices": ["/dev/sdb"], "quotas": {"root": "2T"}}, [".quotas: 'root'", "no limit"]),
        ({"devices": ["/dev/sdb"], "quotas": {"a b": "2T"}}, [".quotas: 'a b'", "name of a user"]),
        ({"devices": ["/dev/sdb"], "quotas": {1000: "2T"}}, [".quotas: 1000", "name of a user"]),
        *(({"devices": ["/dev/sdb"], "quota": size}, [f".quota: {size!r}"]) for size in ("8", "0G", "-1G", "1.5T")),
        ({"devices": ["/dev/sdb"], "quota": "2T", "filesystem": "ext4"}, [".filesystem", "xfs"]),
    ],
)
def test_a_volume_is_refused_by_name(volume: dict[str, t.Any], words: list[str]) -> None:
    (problem,) = problems({"nfs_volumes": [{"name": "shared", "path": "/shared", **volume}]})

    assert problem.startswith("nfs_volumes[0]")
    assert all(word in problem for word in words), problem


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"scratch_path": "/usr"}, "scratch_path"),
        ({"scratch_path": "/home", "nfs_mounts": [{"path": "/home", "server": "a"}]}, "scratch_path"),
        ({"scratch_devices": ["/dev/a"], "scratch_drive_count": 2}, "scratch_drive_count"),
        ({"scratch_devices": ["/dev/a"], "scratch_wipe": ["/dev/b"]}, "scratch_wipe"),
        ({"scratch_filesystem": "btrfs"}, "scratch_filesystem"),
        ({"nfs_threads": 100000}, "nfs_threads"),
        ({"nfs_read_ahead_kib": 4}, "nfs_read_ahead_kib"),
        ({"nfs_threads": "many"}, "nfs_threads: 'many' is not a whole number"),
        ({"nfs_mounts": "/home"}, "nfs_mounts: '/home' is not a list"),
        ({"nfs_exports": ["/home"]}, "nfs_exports[0]: '/home' is not a mapping"),
        ({"scratch_devices": [{"path": "/dev/a"}]}, "scratch_devices[0]"),
    ],
)
def test_a_value_is_refused_by_name(values: dict[str, t.Any], word: str) -> None:
    (problem,) = problems(values)

    assert problem.startswith(word), problem


def test_a_count_of_minus_one_takes_what_is_there() -> None:
    assert problems({"scratch_drive_count": -1}) == []


@given(st.integers(0, 2**32 - 1), st.integers(1, 32))
@settings(max_examples=60)
def test_a_network_is_right_exactly_if_no_bit_lies_outside_its_mask(number: int, length: int) -> None:
    address = ".".join(str(number >> shift & 255) for shift in (24, 16, 8, 0))

    assert (client_problem(f"{address}/{length}") == "") == (number % 2 ** (32 - length) == 0)


@given(st.text(max_size=20))
@settings(max_examples=80)
def test_any_text_as_a_client_gives_a_verdict_and_no_crash(text: str) -> None:
    assert isinstance(client_problem(text), str)
