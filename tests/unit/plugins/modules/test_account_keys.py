# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._accounts.key_pairs import KeyStore
from ansible_collections.hpcai.gpucluster.plugins.modules.account_keys import keep
from ansible_collections.hpcai.gpucluster.tests.unit.plugins.module_utils._accounts.test_key_pairs import FakeKeygen

if t.TYPE_CHECKING:
    from pathlib import Path


def test_second_run_makes_nothing_and_returns_the_same(tmp_path: Path) -> None:
    store = KeyStore(tmp_path / "keys", FakeKeygen())
    first = keep(store, ["alice"], [], check=False)

    second = keep(KeyStore(tmp_path / "keys", FakeKeygen()), ["alice"], ["bob"], check=False)

    assert (first["changed"], first["made"]) == (True, ["alice"])
    assert (second["changed"], second["made"], second["removed"]) == (False, [], [])
    assert first["key_pairs"] == second["key_pairs"]


def test_check_mode_touches_nothing(tmp_path: Path) -> None:
    store = KeyStore(tmp_path / "keys", FakeKeygen())

    result = keep(store, ["alice"], [], check=True)

    assert (result["changed"], result["made"], result["key_pairs"]) == (True, ["alice"], {})
    assert list(tmp_path.iterdir()) == []


def test_removal(tmp_path: Path) -> None:
    store = KeyStore(tmp_path / "keys", FakeKeygen())
    keep(store, ["alice", "bob"], [], check=False)

    result = keep(store, ["alice"], ["bob"], check=False)

    assert (result["changed"], result["removed"]) == (True, ["bob"])
    assert list(result["key_pairs"]) == ["alice"]
