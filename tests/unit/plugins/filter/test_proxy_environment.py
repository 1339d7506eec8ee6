# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter proxy_environment: variables for programs, or none."""

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.filter import proxy_environment as module

environment = module.FilterModule().filters()["proxy_environment"]


@pytest.mark.parametrize("proxy", [{}, {"http": ""}, {"no_proxy": ["mirror"]}])
def test_without_a_proxy_there_are_no_variables(proxy: dict[str, t.Any]) -> None:
    assert environment(proxy) == {}


def test_each_proxy_has_its_variable_and_exceptions_are_named_once() -> None:
    found = environment({"http": "http://proxy:3128", "no_proxy": ["mirror", "mirror", 7]})

    assert (set(found), found["http_proxy"]) == ({"http_proxy", "no_proxy"}, "http://proxy:3128")
    assert found["no_proxy"].endswith(",mirror,7")
    assert found["no_proxy"].count("mirror") == 1


@pytest.mark.parametrize("proxy", ["http://proxy:3128", None, ["http"]])
def test_what_is_no_mapping_is_refused(proxy: t.Any) -> None:
    with pytest.raises(AnsibleFilterError, match="expected a mapping with http, https, no_proxy"):
        environment(proxy)


def test_the_login_of_a_proxy_is_not_in_the_error() -> None:
    with pytest.raises(AnsibleFilterError, match="expected a mapping") as caught:
        environment("http://me:secret@proxy")
    assert "secret" not in str(caught.value)
