# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.hpcai.gpucluster.plugins.filter.nfs_export_entries import FilterModule


def test_every_export_gets_its_clients() -> None:
    entries = FilterModule().filters()["nfs_export_entries"](
        [{"path": "/home"}, {"path": "/sw", "clients": "a"}], ["b"]
    )

    assert [entry["clients"][0].partition("(")[0] for entry in entries] == ["b", "a"]
