# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import base64
import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_cluster import inputs, names, sizes, spec, subnets
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue import records
from ansible_collections.hpcai.gpucluster.tests.unit.support import azure_clusters
from ansible_collections.hpcai.gpucluster.tests.unit.support.azure_clusters import cluster, gpu_set
from ansible_collections.hpcai.gpucluster.tests.unit.support.places import expect_none, place

# A modulus of 1,024 bits, all of them set.
RSA_1024 = (
    "ssh-rsa "
    + base64.b64encode(
        b"".join(len(part).to_bytes(4, "big") + part for part in (b"ssh-rsa", b"\1\0\1", b"\0" + b"\xff" * 128))
    ).decode()
)
EXISTING = azure_clusters.EVERYTHING["existing network"]["network"]


@pytest.mark.parametrize("name", azure_clusters.EVERYTHING)
def test_right_input_has_no_fault(name: str) -> None:
    assert inputs.problems(azure_clusters.EVERYTHING[name]) == []


@pytest.mark.parametrize(
    ("given", "path", "words"),
    [
        ([], "azure_cluster", "a mapping"),
        (cluster(netwrk={}), "azure_cluster", "did you mean network?"),
        (cluster(name=None), "azure_cluster.name", "a text"),
        (cluster(name="Hpc"), "azure_cluster.name", "3 to 20 lower-case"),
        (cluster(name="hp"), "azure_cluster.name", "3 to 20"),
        (cluster(name="hpc-"), "azure_cluster.name", "3 to 20"),
        (cluster(name="h" * 21), "azure_cluster.name", "3 to 20"),
        (cluster(subscription_id="production"), "azure_cluster.subscription_id", "az account show"),
        (cluster(location="East US"), "azure_cluster.location", "such as eastus"),
        (cluster(resource_group="a/b"), "azure_cluster.resource_group", "without a dot"),
        (cluster(resource_group="hpc."), "azure_cluster.resource_group", "without a dot"),
        (cluster(tags={"slurm_role": "login"}), "azure_cluster.tags", "which the template sets"),
        (cluster(tags={"a<b": "c"}), "azure_cluster.tags", "without <>"),
        (cluster(tags={"a": "x" * 257}), "azure_cluster.tags.a", "256"),
        (cluster(tags={f"t{number}": "x" for number in range(45)}), "azure_cluster.tags", "at most 44"),
        (cluster(delete_after="a week"), "azure_cluster.delete_after", "7d or 12h"),
        (cluster(delete_after=7), "azure_cluster.delete_after", "7d or 12h"),
        (cluster(image="microsoft-dsvm:ubuntu-hpc:2404:latest"), "azure_cluster.image", "must not differ"),
        # Users have a shell on the controller.
        (
            cluster(identity={"controller_role": "contributor"}),
            "azure_cluster.identity.controller_role",
            "reader, custom, none",
        ),
        (cluster(image="ubuntu"), "azure_cluster.image", "publisher:offer:sku:version"),
        (cluster(admin={"ssh_keys": []}), "azure_cluster.admin.ssh_keys", "passwords are disabled"),
        (cluster(admin={"ssh_keys": "x"}), "azure_cluster.admin.ssh_keys", "a list"),
        (cluster(admin={"ssh_keys": ["ssh-ed25519 AAAA"]}), "azure_cluster.admin.ssh_keys[0]", "damaged"),
        (cluster(admin={"ssh_keys": ["ssh-dss AAAA"]}), "azure_cluster.admin.ssh_keys[0]", "ssh-rsa or ssh-ed25519"),
        (
            cluster(admin={"ssh_keys": ["-----BEGIN OPENSSH PRIVATE KEY-----"]}),
            "azure_cluster.admin.ssh_keys[0]",
            "a public",
        ),
        (cluster(admin={"ssh_keys": [RSA_1024]}), "azure_cluster.admin.ssh_keys[0]", "2048 bits"),
        (cluster(admin={"name": "root", "ssh_keys": [azure_clusters.KEY]}), "azure_cluster.admin.name", "reserve"),
        (cluster(network={"type": "exists"}), "azure_cluster.network.type", "did you mean existing?"),
        (cluster(network={"type": "existing", "name": "hub"}), "azure_cluster.network.resource_group", "a text"),
        (cluster(network={"address_space": "10.0.0.0/24"}), "azure_cluster.network.address_space", "/8 to /23"),
        (cluster(network={"address_space": "10.0.0.1/16"}), "azure_cluster.network.address_space", "private"),
        (cluster(network={"address_space": "8.0.0.0/16"}), "azure_cluster.network.address_space", "private"),
        (cluster(network={"subnets": {"head": "10.10.0.0/30"}}), "azure_cluster.network.subnets.head", "/28 or larger"),
        (cluster(network={"subnets": {"nodes": "10.11.0.0/24"}}), "azure_cluster.network.subnets.nodes", "inside"),
        (cluster(network={"subnets": {"head": "10.10.0.64/26"}}), "azure_cluster.network.subnets.bastion", "outside"),
        (
            cluster(network={**EXISTING, "node_addresses": "compute"}),
            "azure_cluster.network.node_addresses",
            "10.1.0.0/24",
        ),
        (
            cluster(network={**EXISTING, "anf_subnet": None}, storage={"type": "anf"}),
            "azure_cluster.network.anf_subnet",
            "the subnet for",
        ),
        (cluster(access={"type": "bastion", "sku": "Basic"}), "azure_cluster.access.sku", "Standard, Premium"),
        (cluster(access={"type": "public"}), "azure_cluster.access.allowed_from", "a list"),
        (
            cluster(access={"type": "public", "allowed_from": ["0.0.0.0/0"]}),
            "azure_cluster.access.allowed_from[0]",
            "whole Internet",
        ),
        (
            cluster(access={"type": "public", "allowed_from": ["203.0.113.7"]}),
            "azure_cluster.access.allowed_from[0]",
            "203.0.113.0/24",
        ),
        (cluster(access={"type": "public", "allowed_from": []}), "azure_cluster.access.allowed_from", "one network"),
        (cluster(access={"type": "bastion", "allowed_from": []}), "azure_cluster.access", "type, sku"),
        (cluster(controller={"vm_size": "D8as"}), "azure_cluster.controller.vm_size", "Standard_D8as_v5"),
        (cluster(controller={"os_disk": {"size_gib": 32}}), "azure_cluster.controller.os_disk.size_gib", "64"),
        (
            cluster(controller={"data_disks": [{"size_gib": 0}]}),
            "azure_cluster.controller.data_disks[0].size_gib",
            "32767",
        ),
        (cluster(controller={"zone": "4"}), "azure_cluster.controller.zone", "1, 2 or 3"),
        (cluster(login={"count": "17"}), "azure_cluster.login.count", "0 to 16"),
        (cluster(login={"count": "many"}), "azure_cluster.login.count", "whole number"),
        (cluster(gpu_sets=[]), "azure_cluster.gpu_sets", "one set"),
        (cluster(gpu_sets={}), "azure_cluster.gpu_sets", "a list"),
        (cluster(gpu_sets=[{"name": "a"}]), "azure_cluster.gpu_sets[0].vm_size", "a text"),
        (gpu_set(name="H100"), "azure_cluster.gpu_sets[0].name", "lower-case"),
        (gpu_set(vm_size="Standard_ND96isr_H100"), "azure_cluster.gpu_sets[0].vm_size", "did you mean"),
        (gpu_set(vm_size="lab"), "azure_cluster.gpu_sets[0].vm_size", "Standard_ND40rs_v2"),
        (gpu_set(count=-1), "azure_cluster.gpu_sets[0].count", "0 to"),
        (gpu_set(max_count=1), "azure_cluster.gpu_sets[0].max_count", "2 (count)"),
        (gpu_set(priority="spots"), "azure_cluster.gpu_sets[0].priority", "did you mean spot?"),
        (gpu_set(max_price=3), "azure_cluster.gpu_sets[0].max_price", "without priority: spot"),
        (gpu_set(priority="spot", max_price=0), "azure_cluster.gpu_sets[0].max_price", "-1 for no limit"),
        (gpu_set(priority="spot", eviction_policy="Deallocate"), "azure_cluster.gpu_sets[0].eviction_policy", "Delete"),
        (gpu_set(instances_per_group=301), "azure_cluster.gpu_sets[0].instances_per_group", "1 to 300"),
        (
            gpu_set(vm_size="Standard_NC40ads_H100_v5", instances_per_group=101),
            "azure_cluster.gpu_sets[0].instances_per_group",
            "1 to 100",
        ),
        (gpu_set(zone="east"), "azure_cluster.gpu_sets[0].zone", "1, 2 or 3"),
        (
            gpu_set(os_disk={"type": "ephemeral", "size_gib": 2000}),
            "azure_cluster.gpu_sets[0].os_disk.size_gib",
            "1024",
        ),
        (
            gpu_set(vm_size="Standard_NC24ads_A100_v4", os_disk={"type": "ephemeral"}),
            "azure_cluster.gpu_sets[0].os_disk.size_gib",
            "64 (the image) to 64",
        ),
        (
            gpu_set(
                vm_size="Standard_ND128isr_GB300_v6",
                gpu_imex="none",
                image=azure_clusters.ARM_IMAGE,
                os_disk={"type": "ephemeral"},
            ),
            "azure_cluster.gpu_sets[0].os_disk.type",
            "managed",
        ),
        (gpu_set(vm_size="Standard_ND40rs_v2"), "azure_cluster.gpu_sets[0].image", "2204-v100"),
        (gpu_set(vm_size="Standard_ND128isr_GB300_v6", gpu_imex="none"), "azure_cluster.gpu_sets[0].image", "for Arm"),
        (
            gpu_set(vm_size="Standard_ND128isr_GB300_v6"),
            "azure_cluster.gpu_sets[0].gpu_imex",
            "NVLink joins 18 machines",
        ),
        (
            gpu_set(vm_size="Standard_ND128isr_NDR_GB200_v6", gpu_imex="none"),
            "azure_cluster.gpu_sets[0].instances_per_group",
            "1 to 18",
        ),
        (
            gpu_set(vm_size="standard_nc24rs_v3"),
            "azure_cluster.gpu_sets[0].vm_size",
            "since 2025-09-30, Azure makes no",
        ),
        (
            cluster(controller={"vm_size": "Standard_B4ms"}),
            "azure_cluster.controller.vm_size",
            "accelerated networking",
        ),
        (cluster(login={"vm_size": "Standard_A2_v2"}), "azure_cluster.login.vm_size", "accelerated networking"),
        (cluster(controller={"vm_size": "Standard_D8ps_v5"}), "azure_cluster.controller.image", "an image for Arm"),
        (cluster(controller={"data_disks": [{"size_gib": 64}] * 40}), "azure_cluster.controller.data_disks", "most 16"),
        (cluster(image="almalinux:almalinux-hpc:8:8.10.1"), "azure_cluster.image", "a purchase plan"),
        (cluster(storage={"type": "anf", "size_gib": 103424}), "azure_cluster.storage[0].size_gib", "1024 to 102400"),
        (
            gpu_set(capacity_reservation={"type": "new"}),
            "azure_cluster.gpu_sets[0].capacity_reservation",
            "reserves only",
        ),
        (
            gpu_set(
                vm_size="Standard_NC96ads_A100_v4",
                capacity_reservation={"type": "existing", "id": azure_clusters.RESERVATION},
                priority="spot",
            ),
            "azure_cluster.gpu_sets[0].capacity_reservation",
            "none for spot",
        ),
        (
            gpu_set(vm_size="Standard_NC96ads_A100_v4", capacity_reservation={"type": "new"}, proximity="yes"),
            "azure_cluster.gpu_sets[0].proximity",
            "false with",
        ),
        (
            gpu_set(vm_size="Standard_NC96ads_A100_v4", capacity_reservation={"type": "existing", "id": "a100"}),
            "azure_cluster.gpu_sets[0].capacity_reservation.id",
            "capacityReservationGroups",
        ),
        (
            gpu_set(vm_size="Standard_NC96ads_A100_v4", capacity_reservation={"type": "new"}, count=0),
            "azure_cluster.gpu_sets[0].capacity_reservation.count",
            "1 or more",
        ),
        (cluster(storage={"type": "nfs"}), "azure_cluster.storage[0].type", "did you mean"),
        (cluster(storage={"type": "azure_files", "size_gib": 10}), "azure_cluster.storage[0].size_gib", "100 to"),
        (
            cluster(storage={"type": "amlfs", "size_tib": 208}, network={"address_space": "10.0.0.0/23"}),
            "azure_cluster.network.subnets.amlfs",
            "/23 or larger inside",
        ),
        (cluster(storage={"type": "amlfs", "size_tib": 20}), "azure_cluster.storage[0].size_tib", "steps of 16"),
        (
            cluster(storage={"type": "amlfs", "sku": "AMLFS-Durable-Premium-40"}),
            "azure_cluster.storage[0].size_tib",
            "48 to 1536 in steps of 48",
        ),
        (cluster(storage={"type": "anf", "size_gib": 1500}), "azure_cluster.storage[0].size_gib", "steps of 1024"),
        (
            cluster(storage={"type": "existing", "source": "filer", "path": "/data"}),
            "azure_cluster.storage[0].source",
            "server:/path",
        ),
        (cluster(storage=[{"type": "head"}, {"type": "anf"}]), "azure_cluster.storage[1].path", "another path"),
        (cluster(storage=[{"type": "azure_files"}, {"type": "anf"}]), "azure_cluster.storage[1].path", "another path"),
        (
            cluster(storage=[{"type": "azure_files"}, {"type": "azure_files", "path": "/b"}]),
            "azure_cluster.storage",
            "one of each type",
        ),
        (
            cluster(prices={"hourly": {"Standard_D8as_v5": "cheap"}}),
            "azure_cluster.prices.hourly.Standard_D8as_v5",
            "98.32",
        ),
    ],
)
def test_wrong_input_is_refused_with_its_path(given: t.Any, path: str, words: str) -> None:
    found = inputs.problems(given)

    assert any(sentence.startswith(f"{path}:") and words in sentence for sentence in found), found
    assert all("; allowed: " in sentence for sentence in found)


def test_all_faults_come_at_once() -> None:
    given = {**gpu_set(count=-1, zone="x"), "location": "West US", "delete_after": "soon"}

    found = inputs.problems(given)

    assert {sentence.partition(":")[0] for sentence in found} == {
        "azure_cluster.location",
        "azure_cluster.delete_after",
        "azure_cluster.gpu_sets[0].count",
        "azure_cluster.gpu_sets[0].zone",
    }


def test_a_refusal_raises_every_fault() -> None:
    with pytest.raises(inputs.InputError, match=r"(?s)azure_cluster\.location.*azure_cluster\.delete_after") as caught:
        inputs.read(cluster(location="West US", delete_after="soon"))

    assert len(str(caught.value).splitlines()) >= 2


def test_a_private_key_is_not_shown() -> None:
    key = "-----BEGIN OPENSSH PRIVATE KEY----- b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9u"

    assert "b3BlbnNz" not in "".join(inputs.problems(cluster(admin={"ssh_keys": [key]})))


def test_two_sets_cannot_have_the_same_host_names() -> None:
    one = {"vm_size": "Standard_ND96isr_H100_v5", "count": 1}
    given = cluster(gpu_sets=[{"name": "h100", **one, "max_count": 150}, {"name": "h100-2", **one}])

    assert inputs.problems(given) == [
        "azure_cluster.gpu_sets[1].name: found 'h100-2'; allowed: another name:"
        " gpu_sets[0] has the hosts hpc-h100-2-..."
    ]


def test_no_two_clusters_share_a_name_of_a_set() -> None:
    assert names.scale_set("hpc", "a-b", 1) != names.scale_set("hpc-a", "b", 1)
    assert names.scale_set("hpc", "a", 2) != names.scale_set("hpc", "a-2", 1)
    for given in (cluster(name="hpc--a"), gpu_set(name="a--b")):
        assert ["digits and single -" in one for one in inputs.problems(given)] == [True]


def test_a_subnet_has_an_address_for_each_node() -> None:
    given = {**gpu_set(max_count=60), "network": {"subnets": {"nodes": "10.10.128.0/27"}}}

    assert inputs.problems(given) == [
        "azure_cluster.network.subnets.nodes: found '10.10.128.0/27'; allowed: a network with 60 addresses for nodes;"
        " this one has 27"
    ]


@pytest.mark.parametrize(
    ("tib", "addresses"), [(16, "10.10.0.192/26"), (48, "10.10.1.0/25"), (96, "10.10.1.0/24"), (208, "10.10.2.0/23")]
)
def test_lustre_has_a_subnet_of_the_size_that_its_capacity_needs(tib: int, addresses: str) -> None:
    given = cluster(storage={"type": "amlfs", "size_tib": tib}, network={"subnets": {"amlfs": "10.10.4.0/27"}})
    length = addresses.rpartition("/")[2]

    assert f"allowed: a network of /{length} or larger" in inputs.problems(given)[0]
    del given["network"]
    assert subnets.addresses(inputs.read(given))["amlfs"] == addresses


def test_strings_of_the_command_line_have_their_types() -> None:
    given = gpu_set(count="3", proximity="false", max_price="-1")

    result = inputs.read(given)

    assert result["gpu_sets"][0]["count"] == 3
    assert result["gpu_sets"][0]["proximity"] is False


def test_reading_twice_gives_the_same() -> None:
    once = inputs.read(cluster(storage={"type": "head"}))

    assert inputs.read(once) == once


def test_the_input_is_unchanged() -> None:
    given = cluster()
    inputs.read(given)

    assert given == cluster()


@pytest.mark.parametrize("name", azure_clusters.EVERYTHING)
def test_default_subnets_do_not_overlap(name: str) -> None:
    result = inputs.read(azure_clusters.EVERYTHING[name])
    found = [t.cast("t.Any", subnets.parsed(text)) for text in subnets.addresses(result).values()]

    assert not any(one.overlaps(other) for index, one in enumerate(found) for other in found[:index])


def test_sizes_are_those_of_the_catalogue() -> None:
    azure = {name for name in records.names() if name.startswith("Standard_")}
    found = {size.name for size in sizes.load().values()}

    expect_none(
        [
            f"{place(sizes.FILE, 'sizes:')}: add a row `{name}: {{temp_gib: GIB}}  # the page of its source`"
            for name in sorted(azure - found)
        ]
        + [
            f"{place(sizes.FILE, f'{name}:')}: remove the row, because Azure has no size {name}"
            for name in sorted(found - azure)
        ]
    )


def test_every_default_has_a_value_of_its_type() -> None:
    assert inputs.problems(inputs.read(cluster())) == []
    assert {"name", "subscription_id", "location", "admin", "gpu_sets"} == {
        name for name, option in spec.CLUSTER.items() if option.get("required")
    }
