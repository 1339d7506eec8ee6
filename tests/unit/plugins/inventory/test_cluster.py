# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plugin with Ansible's own loader and inventory."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
import yaml
from ansible.errors import AnsibleParserError
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.parsing.vault import VaultLib, VaultSecret
from ansible.vars.manager import VariableManager

from ansible_collections.hpcai.gpucluster.plugins.inventory import cluster
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_cluster import inputs
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._cluster_file import schema
from ansible_collections.hpcai.gpucluster.tests.patience import cheap

EXAMPLES = Path(__file__).parents[4] / "inventories/examples"
SMALL: dict[str, t.Any] = {
    "plugin": "hpcai.gpucluster.cluster",
    "name": "c",
    "vm_size": "auto",
    "machines": {
        "head": {"roles": "controller"},
        "gpu[1-2]": {"roles": "compute", "rack": "r1", "groups": ["big"], "vars": {"own": "{{ inventory_hostname }}"}},
    },
}


class Cluster:
    """An inventory that Ansible has read."""

    def __init__(self, *sources: Path, loader: DataLoader | None = None) -> None:
        loader = loader or DataLoader()
        self.inventory = InventoryManager(loader=loader, sources=[str(source) for source in sources])
        self._variables = VariableManager(loader=loader, inventory=self.inventory)

    def groups(self) -> dict[str, list[str]]:
        return {name: [str(host) for host in group.get_hosts()] for name, group in self.inventory.groups.items()}

    def variables(self, host: str) -> dict[str, t.Any]:
        found: dict[str, t.Any] = self._variables.get_vars(host=self.inventory.get_host(host))
        return found


def _written(folder: Path, **keys: t.Any) -> Path:
    path = folder / "cluster.yml"
    path.write_text(yaml.safe_dump({**SMALL, **keys}), encoding="utf-8")
    return path


def test_hosts_groups_and_variables(tmp_path: Path) -> None:
    found = Cluster(_written(tmp_path, vars={"base_nofile": 5}))

    groups = found.groups()
    assert groups["slurm_controller"] == groups["slurm_database"] == groups["slurm_build"] == ["head"]
    assert groups["slurm_compute"] == groups["big"] == ["gpu1", "gpu2"]
    assert groups["nfs_server"] == groups["nfs_client"] == groups["slurm_login"] == []
    node, head = found.variables("gpu2"), found.variables("head")
    assert (node["gpucluster_vm_size"], node["gpucluster_rack"], node["base_nofile"]) == ("auto", "r1", 5)
    assert head["base_nofile"] == 5
    assert "gpucluster_vm_size" not in head


def test_templates_stay_templates(tmp_path: Path) -> None:
    from ansible.template import Templar

    machines = {**SMALL["machines"], "gpu3": {"roles": "compute", "address": "{{ net }}.[3-3]"}}
    found = Cluster(_written(tmp_path, machines=machines, vars={"net": "10.0.0", "whole": "{{ net }}.0/24"}))

    for host, name, value in (
        ("gpu1", "own", "gpu1"),
        ("gpu3", "ansible_host", "10.0.0.3"),
        ("gpu3", "whole", "10.0.0.0/24"),
    ):
        variables = found.variables(host)
        assert Templar(loader=DataLoader(), variables=variables).template(variables[name]) == value


def test_files_beside_have_precedence(tmp_path: Path) -> None:
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "host_vars").mkdir()
    (tmp_path / "group_vars/all.yml").write_text("slurm_cluster_name: other\n", encoding="utf-8")
    (tmp_path / "group_vars/big.yml").write_text("gpucluster_vm_size: DGX_H100\n", encoding="utf-8")
    (tmp_path / "host_vars/gpu2.yml").write_text("gpucluster_rack: r2\n", encoding="utf-8")

    found = Cluster(_written(tmp_path))

    assert found.variables("head")["slurm_cluster_name"] == "other"
    assert found.variables("gpu1")["gpucluster_vm_size"] == "DGX_H100"
    assert [found.variables(host)["gpucluster_rack"] for host in ("gpu1", "gpu2")] == ["r1", "r2"]


def test_another_file_adds_machines(tmp_path: Path) -> None:
    (tmp_path / "more.yml").write_text("slurm_compute: {hosts: {gpu9: {}}}\n", encoding="utf-8")

    found = Cluster(_written(tmp_path).parent)

    assert found.groups()["slurm_compute"] == ["gpu1", "gpu2", "gpu9"]
    assert found.variables("gpu9")["slurm_cluster_name"] == "c"


def test_groups_from_expressions(tmp_path: Path) -> None:
    keys = {
        "compose": {"place": "gpucluster_rack | default('none') ~ '!'", "alias": "gpucluster_rack"},
        "groups": {"racked": "gpucluster_rack is defined"},
        "keyed_groups": [{"key": "gpucluster_vm_size", "prefix": "size"}, {"key": "own", "prefix": "own"}],
    }
    found = Cluster(_written(tmp_path, **keys))

    groups = found.groups()
    assert groups["racked"] == groups["size_auto"] == ["gpu1", "gpu2"]
    assert [found.variables(host)["place"] for host in ("head", "gpu1")] == ["none!", "r1!"]
    assert found.variables("gpu1")["alias"] == "r1"
    # A value that is a template goes through Jinja, not into a name as it is.
    assert not any("inventory_hostname" in name for name in groups)


@pytest.mark.parametrize("text", ["plugin: hpcai.gpucluster.cluster\nname: C\n", "plugin: [\n"])
def test_a_fault_is_an_error_of_the_parser(text: str, tmp_path: Path) -> None:
    path = tmp_path / "cluster.yml"
    path.write_text(text, encoding="utf-8")
    plugin = cluster.InventoryModule()

    with pytest.raises(Exception, match=r"cluster\.yml:2: name: found 'C'|YAML") as refused:
        plugin.parse(t.cast("t.Any", None), DataLoader(), str(path))

    assert type(refused.value).__name__.startswith("Ansible")


def test_a_vaulted_value_passes_without_the_key_of_the_vault(tmp_path: Path) -> None:
    vault = VaultLib([("default", VaultSecret(b"key"))])
    lines = "\n".join(f"        {line}" for line in vault.encrypt("hash", vault.secrets[0][1]).decode().splitlines())
    (tmp_path / "cluster.yml").write_text(
        f"{yaml.safe_dump(SMALL)}users: {{alice: {{uid: 2001}}}}\nvars:\n  own_password: !vault |\n{lines}\n",
        encoding="utf-8",
    )

    variables = Cluster(tmp_path / "cluster.yml").variables("head")

    assert type(variables["own_password"]).__name__ == "EncryptedString"


@pytest.mark.parametrize(
    ("name", "fits"), [("cluster.yml", True), ("my.cluster.yaml", True), ("hosts.yml", False), ("cluster.json", False)]
)
def test_the_name_of_the_file(name: str, fits: bool, tmp_path: Path) -> None:
    (tmp_path / name).write_text("", encoding="utf-8")

    assert cluster.InventoryModule().verify_file(str(tmp_path / name)) is fits


def test_a_missing_file_is_not_ours(tmp_path: Path) -> None:
    assert not cluster.InventoryModule().verify_file(str(tmp_path / "cluster.yml"))


def test_the_options_are_the_keys_of_the_schema() -> None:
    constructed = {"compose", "groups", "keyed_groups", "strict", "use_extra_vars", "leading_separator"}

    documented = set(yaml.safe_load(cluster.DOCUMENTATION)["options"])
    assert documented == set(schema.load()["properties"]) - constructed


def test_a_thousand_nodes_load_in_a_second() -> None:
    Cluster(EXAMPLES / "dgx/cluster.yml")  # what Python imports once

    with cheap(1):
        found = Cluster(EXAMPLES / "thousand/cluster.yml")

    groups = found.groups()
    assert len(groups["slurm_compute"]) == 1000
    assert {len(hosts) for name, hosts in groups.items() if name.startswith("rack") and name != "rack32"} == {32}
    assert found.variables("gpu1000")["ansible_host"] == "10.1.3.232"
    assert len({found.inventory.get_host(host).vars["ansible_host"] for host in groups["slurm_compute"]}) == 1000


@pytest.mark.parametrize("example", sorted(path.parent.name for path in EXAMPLES.glob("*/cluster.yml")))
def test_the_examples_load(example: str) -> None:
    found = Cluster(EXAMPLES / example / "cluster.yml")

    assert bool(found.groups()["slurm_compute"]) == (example != "azure")


def test_the_example_of_azure_has_what_azure_up_needs() -> None:
    found = Cluster(EXAMPLES / "azure/cluster.yml").inventory.groups["all"].get_vars()

    assert found["azure_cluster"]["name"] == found["slurm_cluster_name"] == "hpc"
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKnw8lNDEZWwZDkyeW3yzCWvUWzPTmY7TFu8vcZiGpVR alice@laptop"
    # The key of the example is a file of the user.
    given = {**found["azure_cluster"], "admin": {"name": found["ansible_user"], "ssh_keys": [key]}}
    assert inputs.read(given)["name"] == "hpc"
    assert given["gpu_sets"][0]["vm_size"] == "Standard_ND96isr_H100_v5"


def test_an_error_names_no_secret(tmp_path: Path) -> None:
    path = _written(tmp_path, vars={"slurm_database_password": "hunter2"})

    with pytest.raises(AnsibleParserError) as refused:
        cluster.InventoryModule().parse(t.cast("t.Any", None), DataLoader(), str(path))

    assert "vars.slurm_database_password" in str(refused.value)
    assert "hunter2" not in str(refused.value)
