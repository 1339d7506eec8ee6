# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter names itself in an error."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.filter import cluster_file

ANSWERS = {
    "name": "c",
    "user": "root",
    "controller": "head",
    "nodes": "gpu1",
    "vm_size": "lab",
    "users": "alice",
}


def test_the_filter_returns_the_file() -> None:
    text = cluster_file.FilterModule().filters()["cluster_file"](ANSWERS, "/srv/cluster.yml")

    assert text.startswith("---\n")
    assert text.endswith("\n")


def test_wrong_answers_are_an_error_of_ansible() -> None:
    with pytest.raises(AnsibleFilterError, match=r"Wrong answers. No file was written.\ninit_nodes: found nothing"):
        cluster_file.cluster_file({**ANSWERS, "nodes": ""})
