# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of both Azure modules are those that their documentation names; waits are told now and then."""

from __future__ import annotations

import typing as t

import pytest
from ansible.module_utils.common.yaml import yaml_load

from ansible_collections.hpcai.gpucluster.plugins.action import azure_scale_set, azure_stack
from ansible_collections.hpcai.gpucluster.plugins.doc_fragments import _azure_session, _azure_sign_in
from ansible_collections.hpcai.gpucluster.plugins.modules import azure_scale_set as azure_scale_set_module
from ansible_collections.hpcai.gpucluster.plugins.modules import azure_stack as module
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.settings import ConfigError
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_stack import session


@pytest.mark.parametrize(
    ("documentation", "spec"),
    [(module.DOCUMENTATION, azure_stack._SPEC), (azure_scale_set_module.DOCUMENTATION, azure_scale_set._OPTIONS)],
    ids=["azure_stack", "azure_scale_set"],
)
def test_the_options_are_those_of_the_documentation(documentation: str, spec: dict[str, t.Any]) -> None:
    fragments = _azure_sign_in.ModuleDocFragment.MODULE, _azure_session.ModuleDocFragment.DOCUMENTATION
    documented = {
        name: option for text in (*fragments, documentation) for name, option in yaml_load(text)["options"].items()
    }
    accepted = {**spec, **session.argument_spec()}

    assert set(accepted) == set(documented)
    for name, option in accepted.items():
        for key in ("type", "default", "choices"):
            assert option.get(key) == documented[name].get(key), f"{name}.{key}"


def test_what_both_modules_share_is_documented_once() -> None:
    shared = yaml_load(_azure_session.ModuleDocFragment.DOCUMENTATION)

    assert set(session.argument_spec()) <= {*shared["options"], *session.ENVIRONMENT}
    for text in (module.DOCUMENTATION, azure_scale_set_module.DOCUMENTATION):
        own = yaml_load(text)
        assert "hpcai.gpucluster._azure_session" in own["extends_documentation_fragment"]
        assert not set(own["options"]) & set(shared["options"])


def test_the_environment_is_that_of_the_inventory() -> None:
    of_inventory = yaml_load(_azure_sign_in.ModuleDocFragment.DOCUMENTATION)["options"]
    expected = {
        name: tuple(one["name"] for one in option["env"])
        for name, option in of_inventory.items()
        if option.get("env") and name != "thumbprint"
    }

    assert expected == {key: value for key, value in session.ENVIRONMENT.items() if key != "subscription_id"}


def test_a_wait_is_told_every_half_minute() -> None:
    now: list[float] = [0.0]
    shown: list[str] = []
    news = azure_stack.News(shown.append, lambda: now[0])

    for second in range(0, 65, 5):
        now[0] = float(second)
        news(f"PUT at {second}")

    assert shown == ["azure_stack waits: PUT at 30", "azure_stack waits: PUT at 60"]


@pytest.mark.parametrize("name", ["name", "cluster", "resource_group"])
def test_an_empty_name_is_refused(name: str) -> None:
    given: dict[str, t.Any] = {key: spec.get("default", "x") for key, spec in azure_stack._SPEC.items()}

    with pytest.raises(ConfigError, match=f"{name} is empty"):
        azure_stack._wanted({**given, "state": "absent", name: " "})
