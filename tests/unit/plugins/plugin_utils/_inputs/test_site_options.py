# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inputs of the site's options: what is refused before any host is contacted."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs import rules


def faults(**values: t.Any) -> list[str]:
    return rules.judge({"gpucluster_vm_size": "lab", **values}).faults


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"backup_keep": 0}, "backup_keep: found 0"),
        ({"backup_calendar": "daily\nExecStart=/bin/sh"}, "backup_calendar"),
        ({"backup_directory": "/var"}, "backup_directory"),
        ({"azure_metadata_uids": [-1]}, "UIDs from 0 to 4294967294"),
        ({"azure_metadata_uids": [4294967295]}, "azure_metadata_uids: found"),
        ({"ldap_uri": ["ldap1.example.com"]}, "ldap_uri"),
        ({"ldap_uri": ["ldap://ldap1.example.com"]}, "clear text"),
        ({"ldap_uri": ["ldap://ldap1.example.com"], "ldap_start_tls": "no"}, "clear text"),
        ({"gpucluster_ldap": "present", "ldap_uri": ["ldaps://a"]}, "ldap_base: found nothing"),
        ({"ldap_groups": ["a, b"]}, "ldap_groups"),
        ({"ldap_settings": {"x]\n[sssd": 1}}, "ldap_settings"),
        ({"lmod_software": [{"name": "../x", "version": "1", "prefix": "/opt/x"}]}, "lmod_software"),
        ({"apptainer_package": "a; b"}, "apptainer_package"),
    ],
)
def test_a_wrong_option_is_refused_by_its_name(values: dict[str, t.Any], words: str) -> None:
    found = faults(**values)

    assert len(found) == 1, found
    assert words in found[0]


def test_a_password_is_not_shown() -> None:
    found = faults(ldap_bind_password=["secret"])

    assert len(found) == 1
    assert "secret" not in found[0]


@pytest.mark.parametrize(
    "values",
    [
        {"ldap_uri": ["ldap://ldap1.example.com:389"], "ldap_start_tls": "yes"},
        {"gpucluster_ldap": "present", "ldap_uri": ["ldaps://ldap1.example.com"], "ldap_base": "dc=example,dc=org"},
        {"backup_calendar": "Mon..Fri 02:30", "backup_keep": "30"},
        {"lmod_software": [{"name": "hpcx", "version": "2.21", "prefix": "/opt/hpcx"}]},
    ],
)
def test_a_good_option_passes(values: dict[str, t.Any]) -> None:
    assert faults(**values) == []
