# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The example inventories/azure with its edits, and the playbooks of a cluster against the stand-in of Azure."""

from __future__ import annotations

import os
import re
import shutil
import sys
import typing as t
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # a plain checkout is no package

from azure_server.client import ROOT, SUBSCRIPTION, Azure  # type: ignore[import-not-found]

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA admin@example\n"


class Cluster:
    """The cluster hpc of the example, with one set of up to 100 machines."""

    def __init__(self, azure: t.Any, folder: Path) -> None:
        self.azure = azure
        self.inventory = folder / "inventory"
        self.path = ""  # programs of the controller, where it is this machine
        shutil.copytree(ROOT / "inventories" / "azure", self.inventory)
        key = azure.folder / ".ssh" / "id_ed25519.pub"
        key.parent.mkdir(exist_ok=True)
        key.write_text(KEY, encoding="utf-8")
        self.edit("group_vars/all/azure.yml", r"subscription_id: \S+", f"subscription_id: {SUBSCRIPTION}")
        self.edit("group_vars/all/azure.yml", "max_count: 16", "max_count: 100")
        azure.control(subscriptions=[{"id": SUBSCRIPTION}], faults=[], quota=False)

    def edit(self, name: str, pattern: str, text: str) -> None:
        """Change a line of the inventory."""
        file = self.inventory / name
        changed, count = re.subn(pattern, text, file.read_text(encoding="utf-8"))
        assert count == 1, pattern
        file.write_text(changed, encoding="utf-8")

    def run(self, name: str, *arguments: str) -> t.Any:
        """Run a playbook; before there are machines, the inventory is that of the control node alone."""
        early = name in ("azure_up", "azure_down")
        inventory = self.inventory / "control_node.yml" if early else self.inventory
        return self.azure.run(
            "ansible-playbook",
            *("-i", str(inventory), str(ROOT / f"playbooks/{name}.yml"), *arguments),
            environment={**self.azure.signed_in(), "PATH": f"{self.path}:{os.environ['PATH']}"},
        )

    def scale(self, *words: str, joins: bool = False) -> t.Any:
        """Run azure_scale without a join, because the stand-in has no machines behind its addresses."""
        extra = [word for word in words if "=" in word] + ([] if joins else ["azure_scale_join=false"])
        options = [word for word in words if "=" not in word]
        return self.run("azure_scale", *(part for word in extra for part in ("-e", word)), *options)

    def machines(self) -> dict[str, int]:
        """Return the number of instances by scale set."""
        return {name.rpartition("/")[2]: number for name, number in self.azure.contents()["instances"].items()}


def changed(run: t.Any) -> int:
    """Return the sum of what a run changed."""
    return sum(map(int, re.findall(r"changed=(\d+)", run.out)))


@pytest.fixture(scope="session")
def azure(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[t.Any]:
    """Return a running server."""
    server = Azure(tmp_path_factory.mktemp("azure"))
    yield server
    server.close()


@pytest.fixture
def cluster(azure: t.Any, tmp_path: Path) -> Cluster:
    """Return a cluster that is not there yet."""
    return Cluster(azure, tmp_path)
