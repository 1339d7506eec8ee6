# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What root of a node can do to a file server."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.hpcai.gpucluster.tests.unit.support.places import expect_none, place

ROOT = Path(__file__).parents[3]


def test_no_role_exports_to_root_of_a_node_unless_the_user_says_so() -> None:
    files = [*ROOT.glob("roles/*/tasks/*.yml"), *ROOT.glob("roles/*/vars/*.yml"), *ROOT.glob("playbooks/**/*.yml")]
    expect_none(
        f"{place(path, 'no_root_squash')}: root of a client would be root in this export"
        for path in files
        if "no_root_squash" in path.read_text(encoding="utf-8")
    )
