# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import re
import typing as t
from pathlib import Path

import jinja2
import pytest
import yaml

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs import equal

FILE = Path(__file__).parents[5] / "playbooks/vars/cluster.yml"
# Ansible's own, equal on all nodes, or only read if an input says "auto"; then nothing is stored.
IGNORED = {"group_names", "hostvars", "inventory_hostname", "lookup"}


def names(*machines: dict[str, t.Any]) -> list[str]:
    found = equal.Equal({"jump": frozenset({"gpucluster_bastion"}), "size": frozenset({"gpucluster_vm_size"})})
    for machine in machines:
        found.add(machine)
    return found.names()


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ({}, {}, ["jump", "size"]),
        ({"gpucluster_vm_size": "lab", "x": 1}, {"gpucluster_vm_size": "lab", "x": 2}, ["jump", "size"]),
        ({"gpucluster_vm_size": "lab"}, {"gpucluster_vm_size": "DGX_H100"}, ["jump"]),
        ({"gpucluster_vm_size": "lab"}, {}, ["jump"]),
        ({"gpucluster_bastion": "a"}, {"gpucluster_bastion": None}, ["size"]),
        ({"gpucluster_bastion": "{{ x }}"}, {"gpucluster_bastion": "{{ x }}"}, ["size"]),
        ({"gpucluster_bastion": {"a": ["{% if x %}"]}}, {"gpucluster_bastion": {"a": ["{% if x %}"]}}, ["size"]),
        ({"gpucluster_bastion": "1"}, {"gpucluster_bastion": 1}, ["size"]),
        ({"gpucluster_bastion": ""}, {}, ["size"]),
    ],
)
def test_a_variable_is_equal_if_its_inputs_are(
    first: dict[str, t.Any], second: dict[str, t.Any], expected: list[str]
) -> None:
    assert names(first, second) == expected


def test_nothing_is_equal_without_machines() -> None:
    assert names() == []


def read(name: str, variables: dict[str, t.Any]) -> set[str]:
    """Return the inputs that a variable reads, through the variables of the file that it names."""
    text = variables[name]
    named = {node.name for node in jinja2.Environment(autoescape=True).parse(text).find_all(jinja2.nodes.Name)}
    # A variable that the playbooks replace reads the value of the inventory by this expression.
    named |= set(re.findall(r"hostvars\[inventory_hostname\] \| default\(\{\}\)\)\.(\w+)", text))
    inner = [read(other, variables) if other in variables and other != name else {other} for other in named]
    return (
        {other for found in inner for other in found} - IGNORED - {"hostvars"} - {n for n in variables if n[0] == "_"}
    )


@pytest.mark.parametrize(("name", "inputs"), [*equal.OF_ALL.items(), *equal.OF_NODES.items()])
def test_each_variable_is_listed_with_all_inputs_that_it_reads(name: str, inputs: frozenset[str]) -> None:
    variables = {key: str(value) for key, value in yaml.safe_load(FILE.read_text()).items()}

    assert read(name, variables) == inputs
