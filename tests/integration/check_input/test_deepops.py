# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""
An inventory of DeepOps passes the input check without a change, and one message says what its variables mean.

The inventory has the variables and groups that DeepOps documents. With GPUCLUSTER_MIRROR, the test also uses DeepOps'
own files, `deepops/config.example` of the mirror.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
from patience import PATIENCE  # type: ignore[import-not-found]

if t.TYPE_CHECKING:
    from ansible_collections.hpcai.gpucluster.tests.integration.conftest import Run

CHECKOUT = Path(__file__).parents[3]
EXAMPLE = Path(os.environ.get("GPUCLUSTER_MIRROR") or "/nonexistent") / "deepops/config.example"
MASTER = "{{ groups['slurm-master'][0] }}"
VARIABLES: dict[str, t.Any] = {
    "deepops_dir": "/opt/deepops",
    "slurm_install_prefix": "/usr/local",
    "slurm_password": "not-a-secret",
    "slurm_db_password": "not-a-secret",
    "slurm_restrict_node_access": True,
    "slurm_max_job_timelimit": "2-00:00:00",
    "slurm_enable_ha": False,
    "slurm_health_check_program": "/usr/sbin/nhc",
    "slurm_login_on_compute": False,
    "slurm_install_enroot": True,
    "slurm_install_pyxis": True,
    "chrony_config_server": ["0.pool.ntp.org", "1.pool.ntp.org"],
    "http_proxy": "http://10.0.2.5:3128",
    "no_proxy": "localhost,cluster.local,127.0.0.1,::1,10.0.2.10",
    "gpu_clock_lock": "1507,1507",
    "software_extra_packages": ["curl", "{{ 'linux-headers-' + ansible_kernel }}"],
    "users": [{"username": "alice", "name": "Alice", "uid": 10008, "groups": ["sudo"], "home": "/home/alice"}],
    "enroot_runtime_path": "/run/enroot/user-$(id -u)",
    "enroot_config": "ENROOT_MOUNT_HOME y\nENROOT_RUNTIME_PATH {{ enroot_runtime_path }}\n",
    "nfs_exports": [{"path": "/home", "options": "*(rw,sync,no_root_squash)"}],
    "nfs_mounts": [{"mountpoint": "/home", "server": MASTER, "path": "/home", "options": "async,vers=3"}],
    "nfs_server_group": "slurm-master[0]",
    "nfs_client_group": "slurm-master[1:],slurm-node",
}


def _inventory(**variables: t.Any) -> dict[str, t.Any]:
    hosts = {
        name: {"ansible_host": f"127.0.0.{number}"} for number, name in enumerate(("login01", "gpu01", "gpu02"), 1)
    }
    masters: dict[str, t.Any] = {"children": {"slurm-master": {}}}
    return {
        "all": {
            "hosts": hosts,
            "children": {
                "slurm-master": {"hosts": {"login01": {}}},
                "slurm-nfs": {"hosts": {"login01": {}}},
                "slurm-node": {"hosts": {"gpu01": {}, "gpu02": {}}},
                "slurm-cache": masters,
                "slurm-metric": masters,
                "slurm-login": masters,
                "slurm-nfs-client": {"children": {"slurm-node": {}}},
                "slurm-cluster": {
                    "children": {"slurm-master": {}, "slurm-node": {}, "slurm-nfs": {}, "slurm-login": {}},
                    "vars": {**VARIABLES, **variables},
                },
            },
        }
    }


def test_an_inventory_of_deepops_passes_and_nothing_is_dropped_in_silence(run: Run, sizes: str) -> None:
    code, output = run(_inventory(), "playbooks/check_input.yml", "-e", sizes)

    assert code == 0, output
    text = re.sub(r"\s+", " ", output)
    assert "slurm_restrict_node_access -> slurm_pam_adopt" in text
    assert "http_proxy -> gpucluster_proxy" in text
    assert "slurm_max_job_timelimit -> slurm_partitions" in text
    assert "software_extra_packages: its value needs facts of the machine; set base_packages" in text
    missing = [name for name in VARIABLES if name not in text]
    assert missing == []


def test_the_cluster_is_the_one_of_deepops(run: Run, sizes: str, tmp_path: Path) -> None:
    play = tmp_path / "show.yml"
    play.write_text(SHOW.replace("CHECKOUT", str(CHECKOUT)), encoding="utf-8")

    code, output = run(_inventory(), str(play), "-e", sizes)

    assert code == 0, output
    found = json.loads((tmp_path / "shown.json").read_text(encoding="utf-8"))
    assert found == {
        "database": ["login01"],
        "name": "deepops",
        "pam": True,
        "health": "/usr/local/sbin/gpucluster-health",
        "servers": ["login01"],
        "clients": ["gpu01", "gpu02"],
        "enroot": {"ENROOT_MOUNT_HOME": "y"},
        "hardware": "DGX_A100",
        "state": "/var/spool/slurm/ctld",
        "limit": "2-00:00:00",
        "scratch": 0,
    }


SHOW = """---
- import_playbook: CHECKOUT/playbooks/check_input.yml
- hosts: gpu01
  gather_facts: false
  vars_files: [CHECKOUT/playbooks/vars/cluster.yml]
  tasks:
    - delegate_to: localhost
      ansible.builtin.copy:
        dest: "{{ playbook_dir }}/shown.json"
        content: "{{ shown | to_json }}"
        mode: "0644"
      become: false
      vars:
        ansible_connection: local
        shown:
          database: "{{ groups.slurm_database }}"
          name: "{{ slurm_cluster_name }}"
          pam: "{{ slurm_pam_adopt }}"
          health: "{{ slurm_health_check_program }}"
          servers: "{{ groups.nfs_server }}"
          clients: "{{ groups.nfs_client }}"
          enroot: "{{ enroot_config }}"
          hardware: "{{ gpucluster_hardware.name }}"
          state: "{{ slurm_state_directory }}"
          limit: "{{ slurm_partitions[0].MaxTime }}"
          scratch: "{{ scratch_drive_count }}"
"""


def test_inputs_of_the_inventory_take_precedence(run: Run, sizes: str) -> None:
    code, output = run(_inventory(slurm_pam_adopt=False), "playbooks/check_input.yml", "-e", sizes)

    assert code == 0, output
    assert "slurm_restrict_node_access: the inventory sets slurm_pam_adopt" in re.sub(r"\s+", " ", output)


def test_a_machine_that_fits_no_size_is_named_with_what_differs(run: Run, tmp_path: Path) -> None:
    here = ["-e", f"gpucluster_vm_sizes_file={tmp_path / 'new.json'}", "-e", "ansible_connection=local"]

    code, output = run(_inventory(ansible_python_interpreter=sys.executable), "playbooks/check_input.yml", *here)

    assert code != 0
    text = re.sub(r"\s+", " ", output)
    assert re.search(r"gpucluster_vm_size: auto: gpu\[01-02\]: no size fits; the nearest is \S+, but it has \d+ ", text)
    assert not (tmp_path / "new.json").exists()


def test_older_groups_without_variables_of_deepops_change_nothing(run: Run) -> None:
    inventory = _inventory()
    inventory["all"]["children"]["slurm-cluster"]["vars"] = {"gpucluster_vm_size": "lab", "nfs_clients": "10.0.0.0/8"}

    code, output = run(inventory, "playbooks/check_input.yml")

    assert code == 0, output
    assert "Show what the variables of the other project mean" not in output.split("skipping")[0]


@pytest.mark.skipif(not EXAMPLE.is_dir(), reason="not run: the example of DeepOps (no mirror)")
def test_the_example_of_deepops_passes(tmp_path: Path, sizes: str) -> None:
    shutil.copytree(EXAMPLE, tmp_path / "config")
    hosts = tmp_path / "config/inventory"
    text = re.sub(r"^#(?=(login01|gpu0[12])\b)", "", hosts.read_text(encoding="utf-8"), flags=re.MULTILINE)
    hosts.write_text(text, encoding="utf-8")

    done = subprocess.run(
        [
            str(Path(sys.executable).parent / "ansible-playbook"),
            "-i",
            str(hosts),
            "playbooks/check_input.yml",
            "-e",
            sizes,
        ],
        cwd=CHECKOUT,
        env=os.environ | {"ANSIBLE_CONFIG": str(CHECKOUT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"},
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    files = [(EXAMPLE / f"group_vars/{name}.yml").read_text(encoding="utf-8") for name in ("all", "slurm-cluster")]
    names = {name for text in files for name in re.findall(r"^([a-z][a-z0-9_]+):", text, re.MULTILINE)}
    assert len(names) > 70
    said = re.sub(r"\s+", " ", done.stdout)
    assert {name for name in names if name not in said} == set()
