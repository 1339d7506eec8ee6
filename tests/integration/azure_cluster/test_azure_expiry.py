# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cluster that azure_up made deletes itself, by the metadata service and Resource Manager of the stand-in."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import typing as t
from pathlib import Path

import pytest
from patience import PATIENCE  # type: ignore[import-not-found]

ROOT = Path(__file__).resolve().parents[3]
SUBSCRIPTION = "11111111-0000-0000-0000-000000000000"
PACKAGE = "ansible_collections.hpcai.gpucluster.plugins.module_utils._azure_expiry"
# The program with its files in a directory of the test.
PROGRAM = f"""
import sys
from {PACKAGE} import cli, notices
cli.STATE, notices.MOTD = sys.argv[1] + "/state.json", sys.argv[1] + "/motd"
sys.exit(cli.main(["--config", sys.argv[1] + "/config.json", *sys.argv[2:]]))
"""
# az tag update, from elsewhere.
SET_TAG = f"""
import sys
from {PACKAGE} import azure, cli
settings = cli.read_settings(open(sys.argv[1] + "/config.json").read(), "config.json")
azure.Azure(settings).set_tag("gpucluster_delete_after", sys.argv[2])
"""
Cluster = t.Any  # of conftest.py, which a plain checkout imports by another name


class Controller:
    """The controller of the cluster hpc, without Slurm."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster = cluster
        self.folder = folder
        config = {
            "subscription_id": SUBSCRIPTION,
            "resource_group": "hpc",
            "cluster": "hpc",
            "period": "7d",
            "wait_hours": 0,
            "warn_hours": [24, 4, 1],
            "client_id": "",
            "metadata": cluster.azure.url,
            "resource_manager": cluster.azure.url,
        }
        (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")

    def run(self, *command: str, program: str = PROGRAM) -> tuple[int, str]:
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        own = {"SSL_CERT_FILE": str(self.cluster.azure.certificate), "PYTHONPATH": str(ROOT / ".collections")}
        done = subprocess.run(
            [sys.executable, "-c", program, str(self.folder), *command],
            env={**kept, **own},
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
        return done.returncode, done.stdout + done.stderr

    def warned_long_ago(self, tag: str) -> None:
        """Remember a warning of two hours ago."""
        state = {"period": "7d", "tag": tag, "first_warned": time.time() - 7200, "hours_said": 1.0}
        (self.folder / "state.json").write_text(json.dumps(state), encoding="utf-8")

    def tag(self) -> str:
        """Return what the program says of the time."""
        return str(re.findall(r"deleted at (\S+)", self.run("status")[1])[-1])


@pytest.fixture
def controller(cluster: Cluster, tmp_path: Path) -> Controller:
    cluster.edit("group_vars/all/azure.yml", "# delete_after: 7d", "delete_after: 7d")
    place = {"machine": {"subscriptionId": SUBSCRIPTION, "resourceGroupName": "hpc"}}
    cluster.azure.control(subscriptions=[{"id": SUBSCRIPTION}], faults=[], quota=False, imds=place)
    done = cluster.run("azure_up")
    assert done.rc == 0, done.out[-3000:]
    folder = tmp_path / "controller"
    folder.mkdir()
    return Controller(cluster, folder)


def test_a_cluster_deletes_itself_and_leaves_nothing(controller: Controller) -> None:
    code, said = controller.run("run")
    assert code == 0, said
    assert "the tag gpucluster_delete_after becomes" in said
    assert controller.run("extend", "1h")[0] == 0
    code, said = controller.run("run")
    assert (code, "with all its data is deleted at" in said) == (0, True), said
    assert (controller.folder / "motd").exists()

    past = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 60))
    assert controller.run(past, program=SET_TAG) == (0, "")
    assert controller.run("run")[0] == 0
    assert controller.cluster.azure.contents()["groups"] == ["hpc"], "an hour passes after the first warning"
    controller.warned_long_ago(past)
    code, said = controller.run("run")

    assert code == 0, said
    assert "Azure has accepted the deletion" in said
    assert controller.cluster.azure.contents() == {"groups": [], "resources": [], "instances": {}}
    assert controller.run("run") == (0, "the resource group is gone\n")


def test_a_deployment_does_not_move_the_time(controller: Controller) -> None:
    controller.run("run")
    before = controller.tag()
    again = controller.cluster.run("azure_up")
    controller.cluster.edit("group_vars/all/azure.yml", "login: {count: 1}", "login: {count: 2}")
    changed = controller.cluster.run("azure_up")
    controller.run("run")

    assert (again.rc, changed.rc) == (0, 0)
    assert "changed=0" in again.out
    assert controller.tag() == before


def test_the_identity_of_another_group_deletes_nothing(controller: Controller) -> None:
    config = json.loads((controller.folder / "config.json").read_text())
    (controller.folder / "config.json").write_text(json.dumps({**config, "resource_group": "other"}))

    code, said = controller.run("run")

    assert code == 1
    assert "this machine is in the resource group" in said
