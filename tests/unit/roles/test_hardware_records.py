# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each role takes the hardware record of a machine by one input, which the playbooks set from one variable."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest
from ansible.errors import AnsibleError
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue import records

ROOT = Path(__file__).parents[3]
H100 = records.find("DGX_H100")
LAB = records.find("lab")
OTHER = records.find("Standard_NC96ads_A100_v4")
# The role takes groups of equal nodes, or one record.
JUDGED_BY = (
    "(__validate_settings.hardware if validate_hardware is mapping else __validate_settings.hardware[0].record).name"
)
ROLES = sorted(
    path.name for path in (ROOT / "roles").iterdir() if "_hardware:" in (path / "defaults/main.yml").read_text("utf-8")
)


def role_value(role: str, expression: str, **variables: t.Any) -> t.Any:
    """Return what a role makes of its input, by Ansible's own templating."""
    loader = DataLoader()
    files = [ROOT / "roles" / role / name for name in ("defaults/main.yml", "vars/main.yml")]
    loaded = [loader.load_from_file(str(file), trusted_as_template=True) for file in files if file.exists()]
    own = {name: value for values in loaded for name, value in values.items()}
    templar = Templar(loader=loader, variables={**own, **variables})
    return templar.template(trust_as_template("{{ " + expression + " }}"))


@pytest.mark.parametrize(
    ("role", "expression", "of_the_playbooks", "of_the_role"),
    [
        ("gpu", "gpu_count", 8, 4),
        ("nccl", "__nccl_hardware.name", "DGX_H100", "Standard_NC96ads_A100_v4"),
        ("scratch", "scratch_drive_count", 10, 4),
        ("enroot", "[enroot_gpus, enroot_infiniband]", [True, True], [True, False]),
        ("docker", "docker_gpus", True, True),
        ("health", "__health_config.vm_size", "DGX_H100", "Standard_NC96ads_A100_v4"),
        ("validate", JUDGED_BY, "DGX_H100", "Standard_NC96ads_A100_v4"),
    ],
)
def test_a_role_takes_the_record_of_the_playbooks_or_its_own(
    role: str, expression: str, of_the_playbooks: t.Any, of_the_role: t.Any
) -> None:
    kinds = {"gpucluster_slurm_nodes": [{"hosts": "gpu[1-2]", "record": H100}]}

    assert role_value(role, expression, gpucluster_hardware=H100, **kinds) == of_the_playbooks
    own = {"gpucluster_hardware": LAB, f"{role}_hardware": OTHER}
    assert role_value(role, expression, **{**kinds, **own}) == of_the_role


@pytest.mark.parametrize("role", ROLES)
def test_the_one_default_of_a_record_is_that_of_the_playbooks(role: str) -> None:
    text = (ROOT / "roles" / role / "defaults/main.yml").read_text("utf-8")
    cluster = "gpucluster_slurm_nodes | default([])" if role == "validate" else "gpucluster_hardware | default({})"

    assert re.findall(r"\w+_hardware: .*", text) == [f'{role}_hardware: "{{{{ {cluster} }}}}"']


def test_nothing_else_names_the_hardware_of_a_machine() -> None:
    """Only the playbooks' variables read what users set; a role has one way to the record."""
    readers = {
        path.relative_to(ROOT).as_posix()
        for folder in ("roles", "playbooks")
        for path in (ROOT / folder).rglob("*.yml")
        if path.name != "argument_specs.yml"
        and re.search(r"(gpucluster|azure|[a-z]+)_vm_size\b", re.sub(r"(?m)^#.*", "", path.read_text("utf-8")))
    }

    # The lab breaks what its inventory calls simulated, groups.yml sets auto for DeepOps, and init.yml asks for a size.
    assert readers - {f"playbooks/{name}.yml" for name in ("lab_fault", "groups", "init")} == {
        "playbooks/vars/cluster.yml"
    }


@pytest.mark.parametrize(
    ("role", "expression"), [("gpu", "gpu_count"), ("health", "__health_config"), ("nccl", "__nccl_conf")]
)
@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "found nothing; allowed: a hardware record"),
        ({"gpus": {"count": 8}}, "missing required arguments: cpus, memory_mib, name, numa_nodes"),
    ],
    ids=["nothing", "broken"],
)
def test_a_role_that_needs_a_record_says_so(role: str, expression: str, given: dict[str, t.Any], words: str) -> None:
    variable = f"{role}_hardware"

    with pytest.raises(AnsibleError, match=f"{variable}: {words}"):
        role_value(role, expression, **({variable: given} if given else {}))


@pytest.mark.parametrize(
    ("role", "expression", "found"),
    [
        ("scratch", "scratch_drive_count", -1),
        ("enroot", "[enroot_gpus, enroot_infiniband]", [True, False]),
        ("docker", "docker_gpus", False),
        ("nccl", "nccl_topology", "none"),
        ("validate", "__validate_settings.hardware", []),
    ],
)
def test_a_role_that_can_do_without_a_record_does(role: str, expression: str, found: t.Any) -> None:
    assert role_value(role, expression) == found


def test_the_count_of_gpus_takes_the_place_of_a_record() -> None:
    assert role_value("gpu", "gpu_count", gpu_count=4) == 4
