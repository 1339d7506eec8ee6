# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Users by name: known ones, unknown ones, and those who are root by another name."""

from __future__ import annotations

import pwd
import types

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._training.directories import Account
from ansible_collections.hpcai.gpucluster.plugins.module_utils._training.trust import TrustError
from ansible_collections.hpcai.gpucluster.plugins.modules import training_directories

USERS = {"alice": (2001, 100), "toor": (0, 0), "root": (0, 0)}


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Know a few users."""

    def find(name: str) -> types.SimpleNamespace:
        return types.SimpleNamespace(pw_name=name, pw_uid=USERS[name][0], pw_gid=USERS[name][1])

    monkeypatch.setattr(pwd, "getpwnam", find)


def test_users_are_found_once_and_unknown_ones_are_told() -> None:
    found = training_directories.accounts(["alice", "carol", "alice"])

    assert found == ([Account("alice", 2001, 100)], ["carol"])


@pytest.mark.parametrize("name", ["root", "toor"])
def test_root_does_not_train_by_any_name(name: str) -> None:
    with pytest.raises(TrustError, match=f"{name} is root, who does not train"):
        training_directories.accounts(["alice", name])
