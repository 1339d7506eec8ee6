# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs.nfs import (
    export_entry,
    flatten,
    merge_options,
    mount_entry,
)

DEFAULTS = ["vers=4.2", "hard", "nconnect=8"]
BOOT = ["_netdev", "nofail", "x-systemd.automount", "x-systemd.mount-timeout=30s"]


@pytest.mark.parametrize(
    ("own", "merged"),
    [
        (None, ["vers=4.2", "hard", "nconnect=8"]),
        ("nconnect=4", ["vers=4.2", "hard", "nconnect=4"]),
        ("soft", ["vers=4.2", "nconnect=8", "soft"]),
        (["nfsvers=3", "ro"], ["hard", "nconnect=8", "nfsvers=3", "ro"]),
        ("async,vers=3", ["hard", "nconnect=8", "async", "vers=3"]),
        ("-nconnect", ["vers=4.2", "hard"]),
        (["rw", "ro"], ["vers=4.2", "hard", "nconnect=8", "ro"]),
    ],
)
def test_own_options_replace_what_they_contradict(own: list[str] | str | None, merged: list[str]) -> None:
    assert merge_options(DEFAULTS, own) == merged


@given(st.lists(st.sampled_from(["ro", "rw", "hard", "soft", "nconnect=2", "vers=3", "noatime", "timeo=600"])))
@settings(max_examples=60)
def test_merging_twice_changes_nothing(own: list[str]) -> None:
    once = merge_options(DEFAULTS, own)

    assert merge_options(once, own) == once


def test_an_export_gets_safe_options() -> None:
    assert export_entry({"path": "/home"}, "10.0.0.0/24") == {
        "path": "/home",
        "clients": ["10.0.0.0/24(rw,sync,no_subtree_check,root_squash)"],
    }


def test_an_export_keeps_its_own_choices() -> None:
    export = {
        "path": "/sw",
        "clients": [["a", "b"], "c"],
        "options": "ro",
        "squash": "none",
        "mode": "0755",
        "owner": "root",
    }

    entry = export_entry(export, ["10.0.0.0/24"])

    assert entry["clients"] == [f"{name}(sync,no_subtree_check,no_root_squash,ro)" for name in "abc"]
    assert (entry["mode"], entry["owner"]) == ("0755", "root")
    assert "group" not in entry


def test_an_export_of_deepops_is_taken_as_it_stands() -> None:
    entry = export_entry({"path": "/home", "options": "*(rw,sync,no_root_squash) 10.0.0.0/8(ro)"}, ["10.1.0.0/16"])

    assert entry["clients"] == ["*(rw,sync,no_root_squash)", "10.0.0.0/8(ro)"]


def test_a_mount_comes_from_the_default_server() -> None:
    entry = mount_entry({"path": "/home"}, "control", DEFAULTS)

    assert entry == {
        "path": "/home",
        "source": "control:/home",
        "type": "nfs",
        "options": ["nosuid", "nodev", *DEFAULTS, *BOOT],
        "hide": False,
    }


@pytest.mark.parametrize(
    ("mount", "path", "source"),
    [
        ({"path": "/data", "source": "filer:/vol1"}, "/data", "filer:/vol1"),
        ({"path": "/data", "server": "filer", "export": "/vol1"}, "/data", "filer:/vol1"),
        ({"path": "/data", "server": "fd00::4"}, "/data", "[fd00::4]:/data"),
        ({"mountpoint": "/sw", "server": "filer", "path": "/export/sw"}, "/sw", "filer:/export/sw"),
    ],
)
def test_a_mount_may_name_its_source_in_several_ways(mount: dict[str, str], path: str, source: str) -> None:
    entry = mount_entry(mount, "control", DEFAULTS)

    assert (entry["path"], entry["source"]) == (path, source)


def test_a_lustre_mount_has_options_of_its_own() -> None:
    mount = {"path": "/lustre", "source": "10.0.0.4@tcp:/lustrefs", "type": "lustre"}

    assert mount_entry(mount, "", DEFAULTS)["options"] == ["nosuid", "nodev", "flock", "noatime", *BOOT]


@pytest.mark.parametrize(
    ("defaults", "own", "safe"),
    [
        (["hard"], None, ["nosuid", "nodev"]),
        (["hard"], "ro", ["nosuid", "nodev"]),
        (["hard"], "suid", ["nodev"]),
        (["hard", "suid"], "dev", []),
        (["hard"], "-nosuid,-nodev", []),
        (["hard", "suid"], "nosuid", ["nodev", "nosuid"]),
    ],
)
def test_a_shared_folder_gives_no_rights_unless_somebody_says_so(
    defaults: list[str], own: str | None, safe: list[str]
) -> None:
    entry = mount_entry({"path": "/sw", "options": own}, "control", defaults)

    assert [word for word in entry["options"] if word in ("nosuid", "nodev")] == safe


def test_nested_lists_of_hosts_become_one_list() -> None:
    assert flatten([["a", ["b"]], "c,a"]) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("word", "hides"), [(True, True), ("yes", True), ("false", False), ("no", False), ("0", False)]
)
def test_a_mount_hides_only_if_it_says_so(word: t.Any, hides: bool) -> None:
    assert mount_entry({"path": "/home", "server": "a", "hide": word}, "", None)["hide"] is hides
