# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module azure_metadata by its options, on a machine in memory."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible.module_utils.common.yaml import yaml_load

from ansible_collections.hpcai.gpucluster.plugins.module_utils._firewall import lasting
from ansible_collections.hpcai.gpucluster.plugins.module_utils._firewall.metadata import TABLE
from ansible_collections.hpcai.gpucluster.plugins.modules import azure_metadata
from ansible_collections.hpcai.gpucluster.tests.unit.plugins.module_utils._firewall.test_guard import Machine
from ansible_collections.hpcai.gpucluster.tests.unit.support.run_module import RunModule

ROLES = Path(__file__).parents[4] / "roles"


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    found = Machine()
    monkeypatch.setattr(azure_metadata, "Host", lambda _run: found)
    return found


def test_the_rules_are_loaded_once(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    run = RunModule(capsys)
    foreseen = run(azure_metadata.main, True, uids=["22078"])
    assert machine.files == {}

    changed = [run(azure_metadata.main, uids=["22078"])["changed"] for _time in range(2)]

    assert (foreseen["changed"], changed) == (True, [True, False])
    assert "{ 0, 22078 }" in machine.files[TABLE.rules]
    assert "{ 0, 22078 }" in foreseen["diff"]["after"]


def test_the_rules_are_removed_once(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    run = RunModule(capsys)
    run(azure_metadata.main)
    assert run(azure_metadata.main, True, state="absent")["changed"]

    assert [run(azure_metadata.main, state="absent")["changed"] for _time in range(2)] == [True, False]
    assert (machine.table, machine.files) == ("", {})


def test_a_wrong_uid_is_refused_and_changes_nothing(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    found = RunModule(capsys)(azure_metadata.main, uids=[-1])

    assert found["msg"] == "uids: found -1; allowed: UIDs from 0 to 4294967294"
    assert (machine.table, machine.files) == ("", {})


def test_a_kernel_without_nftables_is_named(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    machine.refuses = ["--file"]

    found = RunModule(capsys)(azure_metadata.main)

    assert found["failed"]
    assert "nft refuses the rules, so every user still reaches the metadata service" in found["msg"]


@pytest.mark.parametrize(
    ("installed", "others", "settings", "unused"),
    [
        (True, "", "", True),
        (False, "", "", False),  # the machine had nftables before
        (True, "table ip nat\n", "", False),
        (True, "", "??5?????? c /etc/nftables.conf\n", False),  # somebody wrote rules
    ],
)
def test_nftables_goes_only_if_nobody_else_uses_it(
    machine: Machine,
    capsys: pytest.CaptureFixture[str],
    installed: bool,
    others: str,
    settings: str,
    unused: bool,
) -> None:
    run = RunModule(capsys)
    run(azure_metadata.main)
    if installed:
        machine.files[lasting.INSTALLED] = "ours"
    machine.others, machine.settings = others, settings

    assert [run(azure_metadata.main, check, state="absent")["unused"] for check in (True, False)] == [unused, unused]


def test_slurms_user_is_the_one_of_the_role_slurm() -> None:
    """A role does not read the defaults of another one, so the number stands in both."""
    number = yaml_load((ROLES / "slurm/defaults/main.yml").read_text(encoding="utf-8"))["slurm_user_uid"]

    assert f"slurm_user_uid | default({number})" in (ROLES / "azure_metadata/defaults/main.yml").read_text("utf-8")
