# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.filter import storage_problems as plugin
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs import storage_checks


def test_the_filter_gives_the_faults() -> None:
    judge = plugin.FilterModule().filters()["storage_problems"]

    assert judge({"nfs_mounts": [{"path": "/home", "server": "a"}]}) == []
    assert len(judge({"nfs_mounts": [{"path": "/etc", "server": "a"}]})) == 1


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage_checks, "netaddr", None)

    with pytest.raises(AnsibleFilterError, match="netaddr"):
        plugin.storage_problems({})
