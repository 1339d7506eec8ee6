# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Only the machines of nodes that left the inventory and Slurm are deleted."""

from __future__ import annotations

import pytest

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.sign_in import AzureError
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_cluster import removal
from ansible_collections.hpcai.gpucluster.tests.unit.support.azure_operations import Clients, Poller, error

OURS = {"gpucluster_cluster": "hpc", "gpucluster_set": "h100"}
ROWS = {
    "hpc-h100-1": OURS,
    "hpc-h100-2": OURS,
    "hpc-controller": {"gpucluster_cluster": "hpc"},
    "theirs": {"gpucluster_cluster": "x", "gpucluster_set": "h100"},
    "untagged": {},
}
LEFT = removal.Removed([*ROWS, "hpc-h100-9"], ["hpc-h100-2"])


def azure(**answers: object) -> Clients:
    clients = Clients()
    rows = [{"name": name, "tags": tags} for name, tags in ROWS.items()]
    clients.machines.answers.update({"list": lambda _group: rows, **answers})
    return clients


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([], "the names of one node or more"),
        (["hpc-h100-3"], "names in gpucluster_removed_nodes; run node_remove.yml first"),
        (["HPC-H100-1"], "names in gpucluster_removed_nodes"),
        (["hpc-h100-2"], "names that Slurm no longer knows"),
        (["hpc-controller"], "machines of a set of the cluster hpc"),
        (["theirs"], "machines of a set of the cluster hpc"),
        (["untagged"], "machines of a set of the cluster hpc"),
        (["hpc-h100-1", "theirs"], "theirs"),
    ],
)
def test_one_wrong_name_deletes_nothing(names: list[str], text: str) -> None:
    clients = azure()

    with pytest.raises(AzureError, match=f"(?s){text}.*Nothing was deleted"):
        removal.remove(clients.asks(), ("hpc", "hpc"), names, LEFT, is_check=False)
    assert clients.writes() == []


@pytest.mark.parametrize("is_check", [True, False])
def test_exactly_the_named_machines_go_and_a_second_run_finds_nothing(is_check: bool) -> None:
    clients = azure()
    found = removal.remove(clients.asks(), ("hpc", "hpc"), ["hpc-h100-1", "hpc-h100-9"], LEFT, is_check)

    assert found == {"changed": True, "removed": ["hpc-h100-1"], "absent": ["hpc-h100-9"]}
    deleted = [given for name, given in clients.calls if name == "begin_delete"]
    assert deleted == ([] if is_check else [("hpc", "hpc-h100-1")])
    assert removal.remove(clients.asks(), ("hpc", "hpc"), ["hpc-h100-9"], LEFT, is_check)["changed"] is False


def test_a_failure_is_told_and_the_others_go() -> None:
    def delete(_group: str, name: str) -> object:
        return error(409, "OperationNotAllowed", "locked") if name == "hpc-h100-1" else Poller(None)

    clients, left = azure(begin_delete=delete), removal.Removed([*ROWS], [])
    with pytest.raises(AzureError, match="deletion of hpc-h100-1: OperationNotAllowed: locked"):
        removal.remove(clients.asks(), ("hpc", "hpc"), ["hpc-h100-1", "hpc-h100-2"], left, is_check=False)
    assert len(clients.writes()) == 2


def test_without_a_group_nothing_is_known() -> None:
    with pytest.raises(AzureError, match="the resource group hpc does not exist"):
        removal.remove(
            azure(list=error(404, "ResourceGroupNotFound")).asks(), ("hpc", "hpc"), ["hpc-h100-1"], LEFT, False
        )
