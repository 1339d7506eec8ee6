# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the role base makes of the lines of /etc/hosts that give a machine's own name a loopback address."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible.module_utils.common.yaml import yaml_load
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import file_set

ROLE = Path(__file__).parents[3] / "roles/base"


def rewritten(text: str, host: str, names: dict[str, str]) -> str:
    """Return the text after the role's replacements, as the module file_set does them."""
    given = yaml_load((ROLE / "vars/main.yml").read_text(encoding="utf-8"))
    values = {key: value for key, value in given.items() if key.startswith(("__base_own", "__base_loopback"))}
    variables = {key: _trusted(value) for key, value in values.items()}
    templar = Templar(DataLoader(), variables={**variables, "base_hosts": names, "inventory_hostname": host})
    if not templar.template(trust_as_template("{{ __base_own_address }}")):
        return text
    return file_set.replaced(text, templar.template(trust_as_template("{{ __base_loopback_lines }}")))


def _trusted(value: object) -> object:
    """Return a value whose strings are templates, as in a file of variables."""
    if isinstance(value, list):
        return [_trusted(one) for one in value]
    if isinstance(value, dict):
        return {key: _trusted(one) for key, one in value.items()}
    return trust_as_template(value) if isinstance(value, str) else value


NAMES = {"gpu1": "10.0.0.21", "gpu1-ib": "10.1.0.21", "node.1": "10.0.0.21", "gpu2": "10.0.0.22"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("127.0.1.1\tgpu1.example.com gpu1\n", "10.0.0.21\tgpu1.example.com gpu1\n"),
        ("127.0.1.1 gpu1", "10.0.0.21 gpu1"),
        ("127.0.0.1 gpu1 # by hand\n::1 gpu1\n", "10.0.0.21 gpu1 # by hand\n10.0.0.21 gpu1\n"),
        ("127.0.0.1 localhost gpu1\n", "127.0.0.1 localhost\n"),
        ("127.0.0.1 gpu1 localhost\n", "127.0.0.1 localhost\n"),
        ("::1 ip6-localhost gpu1\tnode.1 ip6-loopback\n", "::1 ip6-localhost ip6-loopback\n"),
        ("127.0.0.1 localhost gpu1 vm node.1\n", "127.0.0.1 localhost vm\n"),
        ("127.0.0.1 localhost\n10.0.0.21 gpu1\n", "127.0.0.1 localhost\n10.0.0.21 gpu1\n"),
        ("127.0.1.1 gpu1-ib gpu1.example.com gpu10 nodex1\n", "127.0.1.1 gpu1-ib gpu1.example.com gpu10 nodex1\n"),
        ("127.0.1.1 gpu2\n#127.0.1.1 gpu1\n127.0.1.1 old # gpu1\n",) * 2,
    ],
)
def test_only_a_loopback_line_with_a_name_of_the_machine_changes(before: str, after: str) -> None:
    assert rewritten(before, "gpu1", NAMES) == after
    assert rewritten(after, "gpu1", NAMES) == after


def test_the_machine_is_known_by_the_first_part_of_its_name_in_the_inventory() -> None:
    assert rewritten("127.0.1.1 gpu1\n", "gpu1.example.com", NAMES) == "10.0.0.21 gpu1\n"
    assert rewritten("127.0.1.1 gpu9\n", "gpu9", NAMES) == "127.0.1.1 gpu9\n"
    assert rewritten("127.0.1.1 gpu1\n", "gpu1", {}) == "127.0.1.1 gpu1\n"


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.1.1", "::1"])
def test_a_machine_that_the_input_puts_at_a_loopback_address_keeps_its_lines(address: str) -> None:
    text = f"{address} localhost gpu1\n"
    assert rewritten(text, "gpu1", {"localhost": address, "gpu1": address}) == text
