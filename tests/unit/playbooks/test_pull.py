# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What nodes that configure themselves get, and what they do."""

from __future__ import annotations

import base64
import json
import subprocess
import typing as t
from pathlib import Path

import pytest
from ansible.module_utils.common.yaml import yaml_load
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import init_plugin_loader
from ansible.template import Templar, trust_as_template

from ansible_collections.hpcai.gpucluster.tests.patience import PATIENCE

ROOT = Path(__file__).parents[3]
CONTROL: dict[str, t.Any] = {
    "__pull_munge": {"key": "bXVuZ2U="},
    "__pull_server_key": {"content": base64.b64encode(b"ssh-ed25519 AAAAcontrol root@control\n").decode()},
}


@pytest.fixture(scope="module", autouse=True)
def _loader() -> None:
    init_plugin_loader()


def _render(name: str, **given: t.Any) -> t.Any:
    """Return a variable of the playbook, where the inventory has the nodes gpu1 to gpu3."""
    loader = DataLoader()
    variables = loader.load_from_file(str(ROOT / "playbooks/vars/pull.yml"), trusted_as_template=True)
    hostvars: dict[str, dict[str, t.Any]] = {"control": CONTROL, "gpu1": {}, "gpu2": {}, "gpu3": {}}
    variables.update(
        hostvars=hostvars,
        inventory_hostname="gpu1",
        gpucluster_slurm_controllers=["control"],
        gpucluster_slurm_computes=["gpu1", "gpu2", "gpu3"],
    )
    for key, value in given.items():
        (hostvars if key in hostvars else variables)[key] = value
    templar = Templar(loader=loader, variables=variables)
    return templar.template(variables[name])


def _slurped(text: str) -> dict[str, str]:
    return {"content": base64.b64encode(text.encode()).decode()}


def _keys(**given: t.Any) -> list[str]:
    return t.cast("str", _render("__pull_server_files", **given)[0]["content"]).splitlines()


def test_a_contacted_node_is_registered_with_its_host_key() -> None:
    assert _keys(
        __pull_registered={"failed": True, "msg": "file not found"},
        gpu1={"__pull_key": _slurped("ssh-ed25519 AAAAone root@gpu1\n")},
    ) == ["restrict ssh-ed25519 AAAAone gpu1"]


def test_a_node_is_registered_before_it_exists() -> None:
    found = _keys(__pull_registered={}, gpu2={"pull_host_key": "ssh-ed25519 AAAAtwo image"})

    assert found == ["restrict ssh-ed25519 AAAAtwo gpu2"]


def test_other_nodes_keep_their_keys_and_a_node_that_left_loses_its_own() -> None:
    before = "".join(f"restrict ssh-ed25519 AAAAold {name}\n" for name in ("gpu1", "gpu2", "gpu9"))

    found = _keys(__pull_registered=_slurped(before), gpu1={"__pull_key": _slurped("ssh-ed25519 AAAAnew x")})

    assert found == ["restrict ssh-ed25519 AAAAnew gpu1", "restrict ssh-ed25519 AAAAold gpu2"]


def test_nodes_read_only_one_directory_of_the_controller() -> None:
    _keys, sshd = _render("__pull_server_files", __pull_registered={})

    text = sshd["content"]
    for line in ("ChrootDirectory /srv/gpucluster/pull", "ForceCommand internal-sftp -R", "DisableForwarding yes"):
        assert line in text
    # What follows applies to all users again.
    assert text.endswith("Match all\n")


def test_nodes_accept_the_key_of_the_cluster_for_releases_only(tmp_path: Path) -> None:
    key = tmp_path / "signing_key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True, timeout=PATIENCE)
    (signers,) = [
        file["content"]
        for file in _render("__pull_files", pull_directory=str(tmp_path), __pull_settings={"seconds": 1})
        if file["path"] == "/etc/gpucluster/pull_signers"
    ]
    (tmp_path / "signers").write_text(signers)

    def accepted(namespace: str) -> bool:
        sign = ["ssh-keygen", "-q", "-Y", "sign", "-f", str(key), "-n", namespace]
        made = subprocess.run(sign, input=b"release", capture_output=True, check=True, timeout=PATIENCE)
        (tmp_path / "signature").write_bytes(made.stdout)
        verify = ["ssh-keygen", "-Y", "verify", "-f", str(tmp_path / "signers"), "-I", "gpucluster", "-n", namespace]
        argv = [*verify, "-s", str(tmp_path / "signature")]
        return not subprocess.run(argv, input=b"release", capture_output=True, check=False, timeout=PATIENCE).returncode

    assert accepted("gpucluster-pull")
    assert not accepted("file")


def test_equal_releases_are_equal_strings() -> None:
    found = [
        _render(
            "__pull_release",
            __pull_inventory={"stdout": "{}"},
            __pull_bundle_found={"stat": {"checksum": "1"}},
            __pull_issue={"serial": 4, "expires": 5, "sha256": "x"},
            pull_variables=given,
        )
        for given in ({"a": 1, "b": 2}, {"b": 2, "a": 1})
    ]

    assert found[0] == found[1]
    release = json.loads(found[0])
    assert release["variables"]["munge_key"] == "bXVuZ2U="
    assert (release["serial"], release["expires"], release["inventory"]) == (4, 5, "{}")


def test_a_pulled_node_does_nothing_on_another_machine() -> None:
    variables = _render("__pull_variables")
    loader = DataLoader()
    for path in ("munge/tasks/key.yml", "users/tasks/ssh.yml", "users/tasks/homes.yml"):
        tasks = loader.load_from_file(str(ROOT / "roles" / path), trusted_as_template=True)
        hosts = [task["delegate_to"] for task in tasks if "delegate_to" in task]
        templar = Templar(loader=loader, variables={**variables, "inventory_hostname": "gpu1"})

        assert hosts
        assert {templar.template(host) for host in hosts} == {"gpu1"}


def test_a_pulled_node_does_not_write_the_configuration_of_the_controllers() -> None:
    plays = yaml_load((ROOT / "playbooks/parts/slurm.yml").read_text(encoding="utf-8"))
    (register,) = [play["hosts"] for play in plays if play["name"] == "Register the nodes of a limited run"]

    def hosts(**variables: t.Any) -> str:
        found = Templar(loader=DataLoader(), variables=variables).template(trust_as_template(register))
        return t.cast("str", found)

    assert hosts(ansible_limit="gpu1") == "slurm_compute"
    assert hosts(ansible_limit="gpu1", gpucluster_pull=True) == "!all"
    assert hosts() == "!all"
