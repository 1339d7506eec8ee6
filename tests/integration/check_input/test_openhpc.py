# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An inventory in the form of StackHPC's Slurm appliance passes the input check, and one message says what it means."""

from __future__ import annotations

import json
import re
import typing as t
from pathlib import Path

import pytest

if t.TYPE_CHECKING:
    from ansible_collections.hpcai.gpucluster.tests.integration.conftest import Run

CHECKOUT = Path(__file__).parents[3]
VARIABLES: dict[str, t.Any] = {
    "openhpc_cluster_name": "lab",
    "openhpc_enable": {
        "control": "{{ inventory_hostname in groups['control'] }}",
        "batch": "{{ inventory_hostname in groups['compute'] }}",
        "database": "{{ inventory_hostname in groups['control'] }}",
        "runtime": True,
    },
    "openhpc_slurm_control_host": "{{ groups['control'] | first }}",
    "openhpc_slurmdbd_host": "{{ openhpc_slurm_control_host }}",
    "openhpc_slurm_accounting_storage_type": "accounting_storage/slurmdbd",
    "openhpc_slurmdbd_mysql_password": "{{ vault_mysql_slurm_password }}",
    "openhpc_munge_key_b64": "{{ vault_openhpc_mungekey }}",
    "openhpc_login_only_nodes": "login",
    "openhpc_state_save_location": "/var/lib/state/slurmctld",
    "openhpc_nodegroups": "{{ [{'name': cluster_compute_groups[0]}, {'name': cluster_compute_groups[1]}] }}",
    "openhpc_user_partitions": "{{ openhpc_nodegroups }}",
    "openhpc_partitions": "{{ openhpc_user_partitions }}",
    "openhpc_config": {"KillWait": 60, "HealthCheckProgram": "/usr/sbin/nhc", "SchedulerParameters": ["bf_continue"]},
    "openhpc_packages": ["podman"],
    "ohpc_openhpc_repos": {"9": []},
    "cluster_compute_groups": ["gpu", "cpu"],
    "nfs_configurations": [{"nfs_export": "/exports/home", "nfs_client_mnt_point": "/home"}],
    "nfs_client_mnt_options": "defaults,nosuid",
    "appliances_enable_pam_slurm_adopt": True,
    "basic_users_users": [{"name": "alice", "uid": 2001, "comment": "Alice"}],
    "vault_openhpc_mungekey": "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=",
}
# Of the inventory itself, not of openhpc.
OWN = {"cluster_compute_groups", "vault_openhpc_mungekey"}


def _inventory(**variables: t.Any) -> dict[str, t.Any]:
    names = ("ctl", "login1", "gpu1", "gpu2")
    hosts = {name: {"ansible_host": f"127.0.0.{number}", "ansible_port": 1} for number, name in enumerate(names, 1)}
    children: dict[str, t.Any] = {
        "control": {"hosts": {"ctl": {}}},
        "login": {"hosts": {"login1": {}}},
        "compute": {"hosts": {"gpu1": {}, "gpu2": {}}},
        "lab_gpu": {"hosts": {"gpu1": {}, "gpu2": {}}},
        "openhpc": {"children": {"control": {}, "login": {}, "compute": {}}},
        "nfs": {"children": {"openhpc": {}}},
    }
    return {"all": {"hosts": hosts, "children": children, "vars": {**VARIABLES, **variables}}}


def test_an_inventory_of_the_appliance_passes_and_nothing_is_dropped_in_silence(run: Run, sizes: str) -> None:
    code, output = run(_inventory(), "playbooks/check_input.yml", "-e", sizes)

    assert code == 0, output
    text = re.sub(r"\s+", " ", output)
    assert "openhpc_config -> slurm_config" in text
    assert "openhpc_config.HealthCheckProgram: the role health checks the nodes" in text
    assert "the partition cpu: none of its node groups has a machine" in text
    assert "openhpc_munge_key_b64 -> munge_key" in text
    assert VARIABLES["vault_openhpc_mungekey"] not in text
    shown = [re.sub("^ohpc_.*", "ohpc_*", name).replace("nfs_client_mnt_options", "nfs_*") for name in VARIABLES]
    assert [name for name in shown if name not in text and name not in OWN] == []


@pytest.mark.parametrize("limit", [[], ["--limit", "gpu2"]])
def test_the_cluster_is_the_one_of_openhpc(run: Run, sizes: str, tmp_path: Path, limit: list[str]) -> None:
    play = tmp_path / "show.yml"
    play.write_text(SHOW.replace("CHECKOUT", str(CHECKOUT)), encoding="utf-8")
    groups = [{"name": "gpu", "features": ["h100"]}]

    code, output = run(_inventory(openhpc_nodegroups=groups), str(play), "-e", sizes, *limit)

    assert code == 0, output
    assert json.loads((tmp_path / "shown.json").read_text(encoding="utf-8")) == {
        "controller": ["ctl"],
        "database": ["ctl"],
        "logins": ["login1"],
        "computes": ["gpu1", "gpu2"],
        "name": "lab",
        "state": "/var/lib/state/slurmctld",
        "pam": True,
        "key": VARIABLES["vault_openhpc_mungekey"],
        "config": {"KillWait": 60, "SchedulerParameters": "bf_continue"},
        "partitions": ["gpu[1-2]"],
        "features": ["h100", "h100"],
        "users": [{"name": "alice", "uid": 2001, "gecos": "Alice"}],
    }


SHOW = """---
- import_playbook: CHECKOUT/playbooks/check_input.yml
- hosts: gpu2
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
          controller: "{{ groups.slurm_controller }}"
          database: "{{ groups.slurm_database }}"
          logins: "{{ groups.slurm_login }}"
          computes: "{{ groups.slurm_compute }}"
          name: "{{ slurm_cluster_name }}"
          state: "{{ slurm_state_directory }}"
          pam: "{{ slurm_pam_adopt }}"
          key: "{{ munge_key }}"
          config: "{{ slurm_config }}"
          partitions: "{{ slurm_partitions | map(attribute='Nodes') }}"
          features: "{{ groups.slurm_compute | map('extract', hostvars, ['slurm_node_config', 'Features']) }}"
          users: "{{ users_accounts }}"
"""


def test_inputs_of_the_inventory_take_precedence(run: Run, sizes: str) -> None:
    code, output = run(_inventory(slurm_config={"KillWait": 90}), "playbooks/check_input.yml", "-e", sizes)

    assert code == 0, output
    assert "openhpc_config: the inventory sets slurm_config" in re.sub(r"\s+", " ", output)


def test_wrong_input_of_openhpc_is_refused(run: Run, sizes: str) -> None:
    code, output = run(_inventory(openhpc_config={"KillWiat": 60}), "playbooks/check_input.yml", "-e", sizes)

    assert code != 0
    assert "did you mean KillWait" in re.sub(r"\s+", " ", output)
