# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which machines the play of the site's options has."""

from __future__ import annotations

import typing as t
from pathlib import Path

from ansible.module_utils.common.yaml import yaml_load

from ansible_collections.hpcai.gpucluster.plugins.filter.option_hosts import option_hosts
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs import rules, site_options

ROOT = Path(__file__).parents[4]
GROUPS = {"slurm_controller": ["control"], "slurm_compute": ["gpu1", "gpu2"], "lab": ["other"]}


class Variables:
    """What hostvars offers."""

    def __init__(self, **hosts: dict[str, t.Any]) -> None:
        self.hosts = hosts

    get = None

    def raw_get(self, host: str) -> dict[str, t.Any]:
        return self.hosts.get(host, {})


def test_without_a_switch_the_play_has_no_machine() -> None:
    assert option_hosts(GROUPS, Variables(gpu1={"gpucluster_lmod": ""})) == ["!all"]
    assert option_hosts({}, Variables()) == ["!all"]
    assert option_hosts(GROUPS, {}) == ["!all"]  # a syntax check


def test_machines_with_a_switch_or_a_template_are_named_once() -> None:
    found = Variables(
        control={"gpucluster_lmod": "absent"},
        gpu2={"gpucluster_lmod": "{{ 'present' if true else '' }}"},
        other={"gpucluster_lmod": "present"},
    )

    assert option_hosts({**GROUPS, "slurm_login": ["control"]}, found) == ["control", "gpu2"]


def test_playbooks_and_plugins_have_the_same_switches() -> None:
    options = yaml_load((ROOT / "playbooks/vars/options.yml").read_text(encoding="utf-8"))["gpucluster_options"]

    assert [option["role"] for option in options] == list(site_options.ROLES.values())
    for option, switch in zip(options, site_options.ROLES):
        assert switch in option["state"]
        assert (ROOT / "roles" / option["role"] / "tasks/remove.yml").exists()


def test_a_switch_is_present_absent_or_empty() -> None:
    faults = rules.judge({"gpucluster_lmod": "on"}).faults

    assert faults == ["gpucluster_lmod: found 'on'; allowed: '', present, absent"]
