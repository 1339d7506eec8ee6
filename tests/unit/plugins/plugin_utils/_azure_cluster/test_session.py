# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

import pytest
from ansible.module_utils.common.yaml import yaml_load

from ansible_collections.hpcai.gpucluster.plugins.action import azure_nodes_absent, azure_stack
from ansible_collections.hpcai.gpucluster.plugins.doc_fragments._azure_sign_in import ModuleDocFragment
from ansible_collections.hpcai.gpucluster.plugins.modules import azure_nodes_absent as of_nodes
from ansible_collections.hpcai.gpucluster.plugins.modules import azure_stack as of_stack
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_cluster import session


def test_the_sign_in_is_that_of_the_inventory() -> None:
    documented = yaml_load(ModuleDocFragment.DOCUMENTATION)["options"]
    variables = {name: tuple(one["name"] for one in option.get("env", ())) for name, option in documented.items()}
    defaults = session.options({})

    assert {name: found for name, found in variables.items() if found} == session.ENVIRONMENT
    assert [
        name for name in session.ENVIRONMENT if (defaults[name] or "") != (documented[name].get("default") or "")
    ] == []


def test_the_first_variable_that_is_set_counts() -> None:
    given = {"AZURE_TENANT": "", "AZURE_TENANT_ID": "t2", "AZURE_SECRET": "s1", "AZURE_CLIENT_SECRET": "s2"}
    found = session.options({**given, "AZURE_DISABLE_INSTANCE_DISCOVERY": "yes"})

    assert (found["tenant"], found["secret"], found["disable_instance_discovery"]) == ("t2", "s1", True)


@pytest.mark.parametrize(("module", "spec"), [(of_stack, azure_stack.SPEC), (of_nodes, azure_nodes_absent.SPEC)])
def test_the_options_are_those_of_the_documentation(module: t.Any, spec: dict[str, t.Any]) -> None:
    documented = yaml_load(module.DOCUMENTATION)["options"]

    for option in documented.values():
        del option["description"]
    assert documented == spec
