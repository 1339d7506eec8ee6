# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbooks of a cluster in Azure refuse wrong input before they sign in. No request leaves this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from patience import PATIENCE  # type: ignore[import-not-found]

ROOT = Path(__file__).resolve().parents[3]
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA admin@example"
CLUSTER = {
    "name": "hpc",
    "subscription_id": "11111111-2222-3333-4444-555555555555",
    "location": "South Central US",
    "admin": {"ssh_keys": [KEY]},
    "gpu_sets": [{"name": "h100", "vm_size": "Standard_ND96isr_H100", "count": 2}],
}


@pytest.mark.parametrize(
    ("playbook", "arguments"), [("azure_up", ["--check"]), ("azure_up", []), ("azure_down", ["-e", "azure_down=hpc"])]
)
def test_wrong_input_is_refused_without_a_request(playbook: str, arguments: list[str], tmp_path: Path) -> None:
    variables = tmp_path / "cluster.json"
    variables.write_text(json.dumps({"azure_cluster": CLUSTER}), encoding="utf-8")
    inventory = ROOT / "inventories/azure/control_node.yml"
    tool = Path(sys.executable).parent / "ansible-playbook"
    # A request would end at once at a proxy that does not exist, and with another message.
    nowhere = {"HTTPS_PROXY": "http://127.0.0.1:9", "HOME": str(tmp_path), "ANSIBLE_NOCOLOR": "1"}
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "ANSIBLE_COLLECTIONS_PATH") if name in os.environ}
    done = subprocess.run(
        [tool, "-i", inventory, "-e", f"@{variables}", ROOT / f"playbooks/{playbook}.yml", *arguments],
        env={**kept, **nowhere},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    said = " ".join((done.stdout + done.stderr).split())

    assert done.returncode != 0
    assert "azure_cluster.location: found 'South Central US'; allowed: the short name of a region" in said
    assert "azure_cluster.gpu_sets[0].vm_size: found 'Standard_ND96isr_H100'; allowed: a size of the catalogue" in said
