# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import datetime
import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_cluster import inputs
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_cluster.spec import CLUSTER, REMOVED
from ansible_collections.hpcai.gpucluster.tests.unit.support.azure_clusters import EVERYTHING, KEY, cluster, gpu_set

NOW = datetime.datetime(2026, 11, 29, 12, 0, tzinfo=datetime.timezone.utc)


def refusal(value: t.Any) -> str:
    with pytest.raises(inputs.InputError) as caught:
        inputs.read(value)
    return str(caught.value)


@pytest.mark.parametrize("given", EVERYTHING.values(), ids=list(EVERYTHING))
def test_a_right_cluster_gets_its_defaults(given: dict[str, t.Any]) -> None:
    found = inputs.read(given)

    assert found["resource_group"] == "hpc"
    assert found["controller"]["vm_size"] == "Standard_D8as_v5"
    assert found["gpu_sets"][0]["elastic"] is given["gpu_sets"][0].get("elastic", False)
    assert inputs.read(found) == found, "the result is a right cluster itself"


def test_words_of_the_command_line_become_numbers() -> None:
    found = inputs.read(gpu_set(count="3", elastic="yes"))

    assert (found["gpu_sets"][0]["count"], found["gpu_sets"][0]["elastic"]) == (3, True)


# The variable with one fault, and the beginning of the refusal.
WRONG: tuple[tuple[dict[str, t.Any], str], ...] = (
    (cluster(name="HPC"), "azure_cluster.name: found 'HPC'"),
    (cluster(name="hpc--two"), "azure_cluster.name: found 'hpc--two'"),
    (cluster(subscription_id="production"), "azure_cluster.subscription_id: found 'production'"),
    (
        cluster(location="East US"),
        "azure_cluster.location: found 'East US'; allowed: the short name of a region, such as eastus",
    ),
    (cluster(resource_group="hpc."), "azure_cluster.resource_group: found 'hpc.'"),
    (cluster(tags={"Gpucluster_Cluster": "x"}), "azure_cluster.tags: found 'Gpucluster_Cluster'"),
    (cluster(image="microsoft-dsvm:ubuntu-hpc:2404:latest"), "azure_cluster.image: found"),
    (cluster(admin={"ssh_keys": []}), "azure_cluster.admin.ssh_keys: found []"),
    (cluster(admin={"ssh_keys": ["ssh-ed25519 AAAA"]}), "azure_cluster.admin.ssh_keys[0]: found 'ssh-ed25519 ...'"),
    (cluster(admin={"ssh_keys": [KEY], "name": "root"}), "azure_cluster.admin.name: found 'root'"),
    (cluster(network={"address_space": "10.0.0.1/16"}), "azure_cluster.network.address_space: found '10.0.0.1/16'"),
    (cluster(network={"address_space": "8.0.0.0/16"}), "azure_cluster.network.address_space: found '8.0.0.0/16'"),
    (cluster(access={"type": "public"}), "azure_cluster.access.allowed_from: found []"),
    (cluster(access={"allowed_from": ["203.0.113.0/24"]}), "azure_cluster.access.allowed_from: found"),
    (cluster(access={"type": "public", "allowed_from": ["0.0.0.0/0"]}), "azure_cluster.access.allowed_from[0]: found"),
    (cluster(login={"count": 17}), "azure_cluster.login.count: found 17; allowed: 0 to 16"),
    (cluster(controller={"os_disk_gib": 30}), "azure_cluster.controller.os_disk_gib: found 30"),
    (cluster(controller={"data_disks": [{"size_gib": 0}]}), "azure_cluster.controller.data_disks[0].size_gib: found 0"),
    (gpu_set(name="login"), "azure_cluster.gpu_sets[0].name: found 'login'"),
    (gpu_set(vm_size="Standard_ND96isr_H100"), "azure_cluster.gpu_sets[0].vm_size: found 'Standard_ND96isr_H100'"),
    (gpu_set(count=201), "azure_cluster.gpu_sets[0].count: found 201; allowed: 0 to 200; make a second set"),
    (gpu_set(image="ubuntu"), "azure_cluster.gpu_sets[0].image: found 'ubuntu'"),
    (cluster(gpu_sets=cluster()["gpu_sets"] * 2), "azure_cluster.gpu_sets[1].name: found 'h100'"),
    ({**gpu_set(count=200), "network": {"address_space": "10.0.0.0/24"}}, "azure_cluster.network.address_space"),
)


@pytest.mark.parametrize(("given", "text"), WRONG, ids=[text[:60] for _given, text in WRONG])
def test_a_wrong_value_is_refused_with_what_is_allowed(given: dict[str, t.Any], text: str) -> None:
    said = refusal(given)

    assert said.startswith(text)
    assert "; allowed: " in said
    assert "\n" not in said, "one fault, one sentence"


def test_all_faults_come_at_once() -> None:
    assert len(refusal(cluster(name="X", location="East US", login={"count": -1})).splitlines()) == 3


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        (None, ["azure_cluster: found NoneType"]),
        ({}, ["missing required arguments", "name", "gpu_sets"]),
        (cluster(nam="x"), ["azure_cluster.nam", "Supported parameters include", "subscription_id"]),
        (cluster(access={"type": "vpn"}), ["bastion, public, none", "vpn"]),
        (gpu_set(count="many"), ["count", "many"]),
    ],
    ids=["nothing", "empty", "unknown key", "choice", "type"],
)
def test_the_form_is_that_of_the_spec(given: t.Any, parts: list[str]) -> None:
    said = refusal(given)

    assert [part for part in parts if part not in said] == []


@pytest.mark.parametrize("path", REMOVED)
def test_a_key_that_went_is_refused_with_its_replacement(path: str) -> None:
    part, _dot, key = path.partition(".")
    if not key:
        given = cluster(**{part: "x"})
    elif part == "gpu_sets":
        given = gpu_set(**{key: "x"})
    else:
        given = cluster(**{part: {key: "x"}})

    assert refusal(given).startswith(f"azure_cluster.{path} is no longer a key; {REMOVED[path]}")
    options: t.Any = CLUSTER[part]["options"] if key else CLUSTER
    assert (key or part) not in options


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("2026-11-29T13:00:01+01:00", ""),
        ("2027-11-29T12:00:00Z", ""),
        (None, ""),
        ("2026-11-29T13:00:00+01:00", "a time in the future; now is 2026-11-29T12:00:00Z"),
        ("2028-01-01T00:00:00Z", "a time within a year"),
        ("2026-12-24T18:00:00", "a date, a time and a zone"),
        ("7d", "a date, a time and a zone"),
    ],
)
def test_the_end_is_a_time_to_come_with_a_zone(text: str | None, allowed: str) -> None:
    found = inputs.expiry_problems(text, NOW)

    assert bool(found) is bool(allowed)
    assert allowed in "".join(found)


def test_a_cluster_whose_end_has_passed_can_still_be_removed() -> None:
    given = cluster(expires="2020-01-01T00:00:00Z")

    assert "a time in the future" in refusal(given)
    assert inputs.read(given, judges_end=False)["expires"] == given["expires"]


def test_a_private_key_is_not_shown() -> None:
    secret = "-----BEGIN OPENSSH PRIVATE KEY-----\nc2VjcmV0\n"

    assert "c2VjcmV0" not in refusal(cluster(admin={"ssh_keys": [secret]}))
