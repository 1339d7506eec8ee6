# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who reaches the metadata service of Azure, by the file of the role; molecule/options tries it with real users."""

from __future__ import annotations

import shutil
import subprocess
import typing as t

import pytest
import yaml

from ansible_collections.hpcai.gpucluster.tests.unit.support.role_values import ROOT, role_values

if t.TYPE_CHECKING:
    from pathlib import Path

ROLE = ROOT / "roles/azure_metadata"
NFT = shutil.which("nft") or shutil.which("nft", path="/usr/sbin")


def rendered(folder: Path, *uids: t.Any) -> str:
    path = ROLE / "templates/azure_metadata.nft.j2"
    case = {"azure_metadata_uids": list(uids), "ansible_managed": "Ansible managed"}
    return str(role_values(folder, "azure_metadata", f"lookup('ansible.builtin.template', '{path}')", {"x": case})["x"])


def chains(folder: Path, *uids: t.Any) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in map(str.strip, rendered(folder, *uids).splitlines()):
        if line.startswith("chain "):
            found[line.split()[1]] = []
        elif line.startswith(("type ", "ip ")):
            found[list(found)[-1]].append(line)
    return found


@pytest.mark.parametrize(
    ("uids", "allowed"), [((), "{ 0 }"), ((22078,), "{ 0, 22078 }"), (("22078", 1000, 0), "{ 0, 1000, 22078 }")]
)
def test_only_root_and_named_users_reach_the_service_and_only_root_the_wire_server(
    tmp_path: Path, uids: tuple[t.Any, ...], allowed: str
) -> None:
    wire = "ip daddr 168.63.129.16 tcp dport { 80, 32526 }"  # not its DNS
    assert chains(tmp_path, *uids) == {
        "output": [
            "type filter hook output priority filter; policy accept;",
            f"ip daddr 169.254.169.254 meta skuid {allowed} accept",
            "ip daddr 169.254.169.254 reject",
            f"{wire} meta skuid 0 accept",
            f"{wire} reject",
        ],
        "forward": [
            "type filter hook forward priority filter; policy accept;",
            "ip daddr 169.254.169.254 reject",
            f"{wire} reject",
        ],
    }


def test_no_moment_is_without_the_rules_and_no_other_table_changes(tmp_path: Path) -> None:
    """nft loads a file as one transaction; the first line lets the deletion succeed on a bare machine."""
    lines = [line for line in rendered(tmp_path).splitlines() if line and line[0] not in "#\t}"]

    assert lines == ["table ip gpucluster_azure", "delete table ip gpucluster_azure", "table ip gpucluster_azure {"]


def test_the_rules_are_checked_first_load_at_boot_and_come_back_with_nftables(tmp_path: Path) -> None:
    tasks = yaml.safe_load((ROLE / "tasks/main.yml").read_text(encoding="utf-8"))
    (written,) = [one["ansible.builtin.template"] for one in tasks if "ansible.builtin.template" in one]
    assert written["validate"] == "/usr/sbin/nft --check --file %s"

    boot, dropin = units(tmp_path)
    load = "/usr/sbin/nft --file /etc/gpucluster-azure-metadata.nft"
    assert f"ExecStart={load}" in boot
    assert "Before=network-pre.target shutdown.target" in boot
    assert [line for line in dropin if line.startswith("Exec")] == [f"ExecStartPost={load}", f"ExecReload={load}"]


def units(folder: Path) -> list[list[str]]:
    path = ROLE / "templates/azure_metadata.service.j2"
    given = {"x": {"ansible_managed": "x"}}
    boot = role_values(folder, "azure_metadata", f"lookup('ansible.builtin.template', '{path}')", given)["x"]
    dropin = role_values(folder, "azure_metadata", "(__azure_metadata_units | last).content", given)["x"]
    return [str(boot).splitlines(), str(dropin).splitlines()]


@pytest.mark.skipif(not NFT, reason="nft is not installed")
def test_nft_accepts_the_rules_twice_and_six_of_them_are_counted(tmp_path: Path) -> None:
    """The role counts them to see whether somebody removed one."""
    file = tmp_path / "rules.nft"
    file.write_text(rendered(tmp_path, 22078), encoding="utf-8")
    script = f"{NFT} --check -f {file} && {NFT} -f {file} && {NFT} -f {file} && {NFT} list table ip gpucluster_azure"
    apart = ["unshare", "--map-root-user", "--net", "sh", "-c", script]
    done = subprocess.run(apart, capture_output=True, text=True, check=False)
    if done.returncode and "Operation not permitted" in done.stderr:
        pytest.skip("no network namespace of its own")

    assert done.stdout.count(" daddr ") == 6, done.stderr
