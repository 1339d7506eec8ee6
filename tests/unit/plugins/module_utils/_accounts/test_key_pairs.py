# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._accounts.key_pairs import KeyStore, KeyStoreError

if t.TYPE_CHECKING:
    from collections.abc import Sequence


class FakeKeygen:
    """Write two files like ssh-keygen and count."""

    def __init__(self, rc: int = 0) -> None:
        self.rc = rc
        self.comments: list[str] = []

    def __call__(self, args: Sequence[str]) -> tuple[int, str, str]:
        path = Path(args[args.index("-f") + 1])
        self.comments.append(args[args.index("-C") + 1])
        path.write_text(f"private {len(self.comments)}\n")
        path.with_name("id_ed25519.pub").write_text(f"public {len(self.comments)}\n")
        return self.rc, "", "no space left" if self.rc else ""


def test_a_pair_is_made_once(tmp_path: Path) -> None:
    keygen = FakeKeygen()
    store = KeyStore(tmp_path / "keys", keygen)
    assert store.missing(["alice", "bob"]) == ["alice", "bob"]

    with store.locked():
        store.make("alice")

    assert store.missing(["alice", "bob"]) == ["bob"]
    assert store.pair("alice") == {"private": "private 1\n", "public": "public 1\n"}
    assert keygen.comments == ["alice@gpucluster"]
    assert (tmp_path / "keys").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "keys/alice").stat().st_mode & 0o777 == 0o700


def test_a_failure_leaves_no_half_of_a_pair(tmp_path: Path) -> None:
    store = KeyStore(tmp_path, FakeKeygen(rc=1))

    with pytest.raises(KeyStoreError, match="no space left"):
        store.make("alice")

    assert list(tmp_path.iterdir()) == []


def test_a_removed_pair_is_gone(tmp_path: Path) -> None:
    store = KeyStore(tmp_path, FakeKeygen())
    store.make("alice")

    store.remove("alice")

    assert store.present(["alice"]) == []
    assert list(tmp_path.iterdir()) == []
