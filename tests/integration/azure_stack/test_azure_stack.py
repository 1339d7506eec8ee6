# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""azure_stack, azure-core and azure-identity against a server that speaks Azure over HTTPS."""

from __future__ import annotations

import typing as t

Cluster = t.Any  # of conftest.py, which pytest imports by another name


def test_a_cluster_comes_up_in_one_run_and_the_second_changes_nothing(cluster: Cluster) -> None:
    first = cluster.run()
    second = cluster.run()

    assert first.rc == 0, first.text
    assert first.module["changed"], first.text
    assert ("Create", "training-rg") in first.named()
    assert ("Create", "h100") in first.named()
    assert first.module["outputs"]["principal"].count("-") == 4
    assert second.module["changes"] == [], second.text
    assert not second.module["changed"]
    assert second.module["requests"] <= 3
    assert second.module["outputs"] == first.module["outputs"]
