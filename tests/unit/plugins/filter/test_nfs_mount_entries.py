# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.hpcai.gpucluster.plugins.filter.nfs_mount_entries import FilterModule


def test_every_mount_gets_its_source_and_never_holds_up_the_boot() -> None:
    entries = FilterModule().filters()["nfs_mount_entries"]([{"path": "/home"}], "control", ["hard"])

    assert entries[0]["source"] == "control:/home"
    assert {"hard", "nofail", "_netdev", "x-systemd.automount"} <= set(entries[0]["options"])
