"""The plugin from records to an inventory; no Azure and no file."""

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleParserError
from ansible.inventory.data import InventoryData
from ansible.module_utils.common.yaml import yaml_load
from ansible.parsing.dataloader import DataLoader
from ansible.template import trust_as_template

from ansible_collections.hpcai.gpucluster.plugins.doc_fragments import _azure_sign_in
from ansible_collections.hpcai.gpucluster.plugins.inventory import azure_vms
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure import model, settings
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.settings import ConfigError

if t.TYPE_CHECKING:
    from pathlib import Path

DOCUMENTED = yaml_load(azure_vms.DOCUMENTATION)["options"]
SIGN_IN = yaml_load(_azure_sign_in.ModuleDocFragment.DOCUMENTATION)["options"]
CONSTRUCTED = {"strict": False, "use_extra_vars": False, "leading_separator": True, "cache": False}
RUNNING = {"statuses": [{"code": "PowerState/running"}]}


class Display:
    """Remember what is said."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def warning(self, text: str) -> None:
        self.warnings.append(text)

    def __getattr__(self, name: str) -> t.Any:
        return lambda *args, **kwargs: None


class Plugin(azure_vms.InventoryModule):
    """The plugin with options from a mapping and records from a list."""

    def __init__(self, options: dict[str, t.Any], records: list[dict[str, t.Any]]) -> None:
        super().__init__()
        documented = {name: option.get("default") for name, option in {**DOCUMENTED, **SIGN_IN}.items()}
        self._given = {**documented, **CONSTRUCTED, "compose": {}, "groups": {}, "keyed_groups": [], **options}
        self._prepared = records
        self.display = t.cast("t.Any", Display())

    def get_option(self, option: str, hostvars: t.Any = None) -> t.Any:
        return _trusted(self._given[option])

    @property
    def option_definitions(self) -> dict[str, t.Any]:
        return {**DOCUMENTED, **SIGN_IN}

    def _read_config_data(self, path: str) -> dict[str, t.Any]:
        """The options are there already."""
        return {}

    def _records(self, path: str, cache: bool) -> list[dict[str, t.Any]]:
        return self._prepared


def _trusted(value: t.Any) -> t.Any:
    if isinstance(value, dict):
        return {name: _trusted(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_trusted(item) for item in value]
    return trust_as_template(value) if isinstance(value, str) else value


def machine(name: str, tags: dict[str, str] | None = None, **properties: t.Any) -> dict[str, t.Any]:
    ip = {"properties": {"privateIPAddress": f"10.0.0.{len(name)}"}}
    nic = model.flat_nic({"id": "/nic", "name": "nic", "properties": {"ipConfigurations": [ip]}})
    shown = {
        "hardwareProfile": {"vmSize": "Standard_D4s_v5"},
        "provisioningState": "Succeeded",
        "instanceView": RUNNING,
        "networkProfile": {"networkInterfaces": [{"id": "/nic"}]},
        **properties,
    }
    item = {"id": f"/subscriptions/s/resourceGroups/RG/x/{name}", "name": name.split("/")[-1], "location": "eastus"}
    return model.record(
        model.flat_machine({**item, "tags": tags or {}, "properties": shown}), model.networks([nic], []), None
    )


def run(records: list[dict[str, t.Any]], **options: t.Any) -> tuple[InventoryData, list[str]]:
    plugin = Plugin({"hostnames": ["name"], **options}, records)
    inventory = InventoryData()
    plugin.parse(inventory, DataLoader(), "cluster.azure_vms.yml")
    return inventory, t.cast("list[str]", t.cast("t.Any", plugin.display).warnings)


def members(inventory: InventoryData, group: str) -> list[str]:
    return [host.name for host in inventory.groups[group].hosts] if group in inventory.groups else []


def test_a_host_has_its_variables_and_its_groups() -> None:
    inventory, warnings = run(
        [machine("a", {"slurm_role": "controller,database"}), machine("bb", {"slurm_role": "compute", "owner": "x"})],
        keyed_groups=[{"key": "azure_vm_size", "prefix": "size"}, {"key": "tags", "prefix": "tag"}],
        groups={"east": "location == 'eastus'", "b": "name is match('b')", "everybody": True},
        compose={"size": "azure_vm_size", "fqdn": "name ~ '.test'"},
    )

    assert members(inventory, "slurm_controller") == members(inventory, "slurm_database") == ["a"]
    assert members(inventory, "slurm_compute") == members(inventory, "b") == ["bb"]
    assert (
        members(inventory, "size_Standard_D4s_v5")
        == members(inventory, "east")
        == members(inventory, "everybody")
        == ["a", "bb"]
    )
    assert members(inventory, "tag_owner_x") == ["bb"]
    host = inventory.hosts["bb"].vars
    assert host["azure_vm_size"] == host["size"] == "Standard_D4s_v5"
    assert host["fqdn"] == "bb.test"
    assert host["ansible_host"] == "10.0.0.2"
    assert warnings == []


def test_the_empty_groups_of_the_playbooks_are_there() -> None:
    inventory, _warnings = run([])

    assert {"slurm_controller", "slurm_compute", "nfs_client"} <= set(inventory.groups)
    assert "slurm_controller" not in run([], slurm_groups=False)[0].groups


def test_the_first_controller_takes_what_no_machine_is_tagged_for() -> None:
    off = {"instanceView": {"statuses": [{"code": "PowerState/deallocated"}]}}
    controllers = [machine("a", {"slurm_role": "controller"}), machine("b", {"slurm_role": "controller"})]
    roles = {"slurm_controller_roles": ["database", "nfs_server"]}

    alone, _warnings = run(controllers, **roles)
    tagged, _warnings = run([*controllers, machine("c", {"slurm_role": "database"})], **roles)
    database_off, _warnings = run([*controllers, machine("c", {"slurm_role": "database"}, **off)], **roles)
    controller_off, _warnings = run([machine("a", {"slurm_role": "controller"}, **off), controllers[1]], **roles)
    foreign, _warnings = run(
        [*controllers, machine("c", {"slurm_role": "database"})], exclude_host_filters=["name == 'c'"], **roles
    )

    assert members(alone, "slurm_database") == members(alone, "nfs_server") == ["a"]
    assert members(tagged, "slurm_database") == ["c"]
    assert members(tagged, "nfs_server") == ["a"]
    assert members(database_off, "slurm_database") == members(controller_off, "slurm_database") == []
    assert members(foreign, "slurm_database") == ["a"]
    assert members(run(controllers)[0], "slurm_database") == []


def test_keyed_groups_keep_their_meaning_when_a_value_comes_again() -> None:
    keyed = [
        {"key": "tags.a", "prefix": "p", "separator": "-"},
        {"key": "tags.a", "parent_group": "family"},
        {"key": "tags.gone | default('none')", "prefix": "gone"},
        {"key": "tags.b", "default_value": "empty", "prefix": "b"},
    ]
    inventory, _warnings = run(
        [machine(name, {"a": "x y", "b": ""}) for name in ("a", "bb", "ccc")], keyed_groups=keyed
    )

    for group in ("p_x_y", "_x_y", "gone_none", "b_empty"):
        assert members(inventory, group) == ["a", "bb", "ccc"], group
    assert [child.name for child in inventory.groups["family"].child_groups] == ["_x_y"]


def test_templates_in_tags_stay_text() -> None:
    evil = "{{ lookup('pipe', 'echo pwned') }}"
    inventory, _warnings = run(
        [machine("a", {"evil": evil})],
        compose={"simple": "tags.evil", "by_jinja": "tags.evil ~ ''"},
        keyed_groups=[{"key": "tags.evil", "prefix": "g"}],
    )

    host = inventory.hosts["a"].vars
    assert host["simple"] == host["by_jinja"] == host["azure_tags"]["evil"] == evil
    assert not [group for group in inventory.groups if "pwned" in group and "echo" not in group]


@pytest.mark.parametrize("name", ["a b", "x,y", "!no", "{{ 1 + 1 }}"])
def test_a_tag_that_cannot_be_a_name_is_passed_over(name: str) -> None:
    inventory, warnings = run([machine("a", {"dns": name})], hostnames=["tags.dns", "name"])

    assert list(inventory.hosts) == ["a"]
    assert "cannot be a host name" in warnings[0]


@pytest.mark.parametrize("name", ["localhost", "LOCALHOST", "127.0.0.1", "all", "ungrouped", "slurm_compute", "east"])
def test_a_machine_is_not_named_like_the_control_node_or_a_group(name: str) -> None:
    inventory, warnings = run([machine(name)], hostnames=["computer_name", "name"], groups={"east": "true"})

    host = next(iter(inventory.hosts))
    assert len(inventory.hosts) == 1
    assert host.startswith(f"{name}_")
    assert host not in inventory.groups
    assert f"{name!r} cannot be a host name" in warnings[0]


def test_a_machine_with_the_name_of_a_keyed_group_brings_no_other_machine_into_its_groups() -> None:
    """Whoever names a machine would make a controller of each machine of the group."""
    records = [
        machine("a", {"kind": "gpu"}),
        machine("bb", {"kind": "gpu"}),
        machine("gpu", {"slurm_role": "controller"}),
    ]

    inventory, warnings = run(records, keyed_groups=[{"key": "tags.kind", "prefix": "", "separator": ""}])

    (controller,) = inventory.groups["slurm_controller"].get_hosts()
    assert controller.name.startswith("gpu_")
    assert members(inventory, "gpu") == ["a", "bb"]
    assert "'gpu' cannot be a host name" in warnings[0]


def test_two_machines_of_one_name_are_two_hosts() -> None:
    inventory, warnings = run([machine("rg1/vm", timeCreated="2026-02"), machine("rg2/vm", timeCreated="2026-01")])

    assert len(inventory.hosts) == 2
    assert inventory.hosts["vm"].vars["azure_id"].endswith("rg2/vm")
    assert len(warnings) == 1


def test_machines_that_are_off_are_left_out_and_the_odd_ones_are_named() -> None:
    off = {"statuses": [{"code": "PowerState/deallocated"}]}
    records = [
        machine("off", instanceView=off),
        machine("new", instanceView={}),
        machine("bad", provisioningState="Failed"),
    ]

    inventory, warnings = run(records)
    assert list(inventory.hosts) == []
    assert [text.partition("(")[2] for text in warnings] == [
        "power state unknown) by default_host_filters: new",
        "provisioning state failed) by default_host_filters: bad",
    ]
    assert len(run(records, default_host_filters=[])[0].hosts) == 3
    assert list(run(records, default_host_filters=["powerstate == 'unknown'"])[0].hosts) == ["off", "bad"]


def test_filters_of_azure_rm() -> None:
    records = [machine("a", {"x": "1"}), machine("bb", {"x": "2"}), machine("ccc")]

    assert list(run(records, exclude_host_filters=["tags['x'] is defined and tags['x'] == '1'"])[0].hosts) == [
        "bb",
        "ccc",
    ]
    there = ["azure_tags.x | default('') == '2'", "name in ['ccc']"]
    assert list(run(records, include_host_filters=there)[0].hosts) == ["bb", "ccc"]
    assert list(run(records, include_host_filters=[False])[0].hosts) == []
    assert list(run(records, include_host_filters=["tags.x is defined"])[0].hosts) == ["a", "bb"]
    assert list(run(records, filters={"tags": {"x": "2"}})[0].hosts) == ["bb"]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"concurrency": 0}, "concurrency is 0; allowed: 1 to 10"),
        ({"retries": -1}, "retries is -1; allowed: 0 to 100"),
        ({"filters": {"x": 1}}, "unknown key 'x'"),
        ({"host_variables": ["x"]}, "unknown name 'x'"),
        ({"ansible_host_from": ["x"]}, "ansible_host_from is 'x'"),
        ({"keyed_groups": [{"key": "tags.gone"}], "strict": True}, "Could not generate group for host a"),
        ({"exclude_host_filters": ["tags.gone == 'x'"], "strict": True}, "the filter \"?'?tags.gone"),
        ({"include_host_filters": ["tagz.env == 'prod'"]}, "the filter \"tagz.env == 'prod'\" failed for a"),
        ({"include_host_filters": ["tagz.env is match('p')"]}, "failed for a: 'tagz' is undefined"),
        ({"default_host_filters": ["tagz"]}, "the filter 'tagz' failed for a"),
        ({"deadline": 0}, "deadline is 0; allowed: 1 to 86400"),
    ],
)
def test_wrong_options_are_named(options: dict[str, t.Any], text: str) -> None:
    with pytest.raises(AnsibleParserError, match=text):
        run([machine("a")], **options)


def test_an_unknown_role_is_a_warning_and_with_strict_an_error() -> None:
    records = [machine("a", {"slurm_role": "chief"})]

    inventory, warnings = run(records)
    assert list(inventory.hosts) == ["a"]
    assert "tag slurm_role of a: 'chief'" in warnings[0]
    with pytest.raises(AnsibleParserError, match="'chief'"):
        run(records, strict=True)


def test_expressions_that_fail_are_passed_over_unless_strict() -> None:
    inventory, _warnings = run(
        [machine("a")],
        compose={"gone": "tags.gone", "deep": "tags.gone.deeper | default('x')", "kept": "name"},
        groups={"never": "tags.gone == 'x'"},
        keyed_groups=[{"key": "tags.gone"}],
    )

    host = inventory.hosts["a"].vars
    assert "gone" not in host
    assert host["kept"] == "a"
    assert "never" not in inventory.groups


def test_a_power_state_that_could_not_be_read_rules_nobody_out() -> None:
    unread = model.record(
        {**model.flat_machine({"id": "/x/a", "name": "a"}), "stateMissing": True}, model.networks([], []), None
    )

    inventory, _warnings = run([unread, machine("bb")], filters={"powerstates": ["running"]})

    assert list(inventory.hosts) == ["a", "bb"]
    assert list(run([machine("a")], filters={"powerstates": "deallocated"}, default_host_filters=[])[0].hosts) == []


def test_a_key_that_is_no_option_is_refused() -> None:
    plugin = Plugin({}, [])

    with pytest.raises(ConfigError, match="'include_vmss_resource_group'; did you mean 'include_vmss_resource_groups'"):
        plugin._check_options({"plugin": "x", "include_vmss_resource_group": ["*"]})


def cyclecloud(cluster: str, name: str, **tags: str) -> dict[str, t.Any]:
    return machine(f"{cluster}-{name}", {"ClusterName": cluster, "Name": name, **tags})


TWO_CLUSTERS = [
    cyclecloud("training", "scheduler"),
    cyclecloud("debug", "scheduler"),
    cyclecloud("training", "gpu-1", CycleCloudNodeArray="gpu"),
    cyclecloud("debug", "gpu-1", CycleCloudNodeArray="gpu"),
    machine("plain", {"SLURM_ROLE": "login"}),
    machine("own", {"slurm_role": "compute", "slurm_cluster": "Training"}),
    machine("foreign", {"owner": "x"}),
]


def test_machines_of_different_clusters_are_refused() -> None:
    off = {"instanceView": {"statuses": [{"code": "PowerState/deallocated"}]}}
    hidden = machine("debug-scheduler", {"ClusterName": "debug", "Name": "scheduler"}, **off)

    node = machine("debug-1", {"slurm_cluster": "debug", "slurm_role": "compute"})

    for name, records in (
        ("debug-scheduler", TWO_CLUSTERS),
        ("debug-scheduler", [TWO_CLUSTERS[0], hidden]),
        ("debug-1", [TWO_CLUSTERS[0], node]),
    ):
        with pytest.raises(AnsibleParserError, match=rf"debug: {name}.*; training: training-sche.*; set slurm_cluster"):
            run(records)
    assert len(run(TWO_CLUSTERS, slurm_groups=False)[0].hosts) == 7
    assert members(run([TWO_CLUSTERS[0], cyclecloud("TRAINING", "scheduler-ha")])[0], "slurm_controller") == [
        "training-scheduler",
        "TRAINING-scheduler-ha",
    ]


def test_a_cluster_has_its_own_machines_and_those_with_a_role_of_no_other() -> None:
    inventory, _warnings = run(TWO_CLUSTERS, slurm_cluster="TRAINING")

    assert members(inventory, "slurm_controller") == ["training-scheduler"]
    assert members(inventory, "slurm_compute") == ["training-gpu-1", "own"]
    assert members(inventory, "slurm_login") == ["plain"]
    assert "foreign" not in inventory.hosts


def test_a_cluster_that_nobody_is_of_is_refused_with_those_there_are() -> None:
    with pytest.raises(AnsibleParserError, match="no machine is of 'trainng'; there are: debug, training"):
        run(TWO_CLUSTERS, slurm_cluster="trainng")
    with pytest.raises(AnsibleParserError, match="there are: none"):
        run([TWO_CLUSTERS[-1]], slurm_cluster="training")
    assert list(run([TWO_CLUSTERS[4]], slurm_cluster="training")[0].hosts) == ["plain"]


def test_no_secret_is_in_any_text() -> None:
    plugin = Plugin({}, [])
    plugin._redact.add("abcd-token")

    plugin._warn("an answer with abcd-token")

    assert t.cast("t.Any", plugin.display).warnings == ["hpcai.gpucluster.azure_vms: an answer with (hidden)"]


def test_every_option_of_the_settings_is_read_from_the_file() -> None:
    plugin = Plugin({"subscription_id": "s", "include_vmss_resource_groups": ["g"], "filters": {"names": ["A"]}}, [])

    found = plugin._settings(plugin._caller())

    assert found.subscriptions == ("s",)
    assert found.vmss_groups == ("g",)
    assert found.filters == {"names": ("a",)}
    assert isinstance(found, settings.Settings)


@pytest.mark.parametrize("name", ["x.azure_vms.yml", "azure_vms.yaml", "my.azure_rm.yml", "azure_rm.yaml"])
def test_files_are_known_by_their_names(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.write_text("plugin: hpcai.gpucluster.azure_vms\n")

    assert Plugin({}, []).verify_file(str(file))
    assert not Plugin({}, []).verify_file(str(file) + "l")
    assert not Plugin({}, []).verify_file(str(tmp_path / "other.yml"))


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("azure_vm_size", "Standard_D4s_v5"),
        ("tags.owner", "x"),
        ("tags.gone | default('none')", "none"),
        ("tags.empty | default('none')", ""),
        ("tags.empty | default('none', true)", "none"),
        ("tags.gone.deeper | default('none')", "none"),
        ("tags.items | default('none')", "not the tag"),
        ("gone | default('none')", "none"),
        ("true", True),
    ],
)
def test_a_short_expression_has_the_value_that_jinja_gives(expression: str, expected: t.Any) -> None:
    records = [machine("a", {"owner": "x", "empty": "", "items": "y"})]

    found = [
        run([dict(one) for one in records], compose={"found": expression}, use_extra_vars=jinja)[0].hosts["a"].vars
        for jinja in (False, True)
    ]

    if expected != "not the tag":
        assert [one.get("found") for one in found] == [expected, expected]
    else:
        assert found[0].get("found") != "y"
