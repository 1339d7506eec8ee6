# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from ansible_collections.hpcai.gpucluster.plugins.module_utils._accounts.lists import GROUP_KEYS, USER_KEYS
from ansible_collections.hpcai.gpucluster.plugins.modules.accounts import GROUP, USER


def test_the_module_takes_exactly_the_keys_that_are_judged() -> None:
    aliases = {alias for option in USER.values() for alias in option.get("aliases", [])}

    assert set(USER) | aliases == set(USER_KEYS)
    assert set(GROUP) == set(GROUP_KEYS)


def test_hashes_are_secret() -> None:
    assert USER["password"]["no_log"]
