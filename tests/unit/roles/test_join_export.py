# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What root of a node can read of the controller: the directory of the join, and no other file of its file system."""

from __future__ import annotations

import stat
import typing as t
from pathlib import Path

import pytest
from ansible.module_utils.common.yaml import yaml_load
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

from ansible_collections.hpcai.gpucluster.plugins.module_utils._elastic import cli as elastic_cli
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host
from ansible_collections.hpcai.gpucluster.tests.unit.support.places import expect_none, place

if t.TYPE_CHECKING:
    from ansible_collections.hpcai.gpucluster.plugins.module_utils._elastic.cloud import Set

ROLE = Path(__file__).parents[3] / "roles/slurm"
DIRECTORY, USER = "/srv/gpucluster/join", "gpucluster-join"


def value(expression: str, **given: t.Any) -> t.Any:
    """Return the value of a text with expressions in the role."""
    loader = DataLoader()
    files = (ROLE / "defaults/main.yml", ROLE / "vars/main.yml")
    found = {
        key: one for file in files for key, one in loader.load_from_file(str(file), trusted_as_template=True).items()
    }
    account = {"uid": 987, "group": 986}
    variables = {
        **found,
        "__slurm_join_account": account,
        "__slurm_plugin": "/x",
        "__slurm_plugin_directory": "/y",
        **given,
    }
    return Templar(loader=loader, variables=variables).template(trust_as_template(expression))


def tasks(name: str) -> list[dict[str, t.Any]]:
    return t.cast("list[dict[str, t.Any]]", yaml_load((ROLE / f"tasks/{name}.yml").read_text(encoding="utf-8")))


def test_root_of_a_node_is_a_user_without_rights_and_stays_below_the_directory() -> None:
    sets = [task.get("hpcai.gpucluster.file_set", {"files": []}) for task in tasks("join_export")]
    (file,) = (file for one in sets for file in one["files"])
    line = value(file["content"], slurm_join_clients=["10.0.128.0/17", "10.1.0.0/16"])

    options = "(ro,secure,root_squash,anonuid=987,anongid=986,subtree_check)"
    assert line == f"{DIRECTORY} 10.0.128.0/17{options} 10.1.0.0/16{options}\n"


def test_no_role_exports_to_root_of_a_node_unless_the_user_says_so() -> None:
    root = ROLE.parents[1]
    files = [*root.glob("roles/*/tasks/*.yml"), *root.glob("roles/*/vars/*.yml"), *root.glob("playbooks/**/*.yml")]
    expect_none(
        f"{place(path, 'no_root_squash')}: root of a client would be root in this export"
        for path in files
        if "no_root_squash" in path.read_text(encoding="utf-8")
    )


def _written() -> t.Iterator[tuple[str, str, str]]:
    """Yield path, owner and mode of all that join.yml writes into the directory."""
    for task in tasks("join"):
        for module in ("ansible.builtin.file", "ansible.builtin.copy", "hpcai.gpucluster.munge_key"):
            one = task.get(module) or {}
            path = one.get("dest") or one.get("path")
            if path:
                yield value(path), value(one["owner"]), one.get("mode", "0400")
        files = (task.get("hpcai.gpucluster.file_set") or {}).get("files", [])
        for one in files:
            yield value(one["path"]), value(task["hpcai.gpucluster.file_set"]["owner"]), one["mode"]


def test_that_user_can_read_everything_and_others_no_secret() -> None:
    found = {path: (owner, mode) for path, owner, mode in _written()}

    secrets = {path for path, (_owner, mode) in found.items() if mode == "0400"}
    assert secrets == {f"{DIRECTORY}/munge.key", f"{DIRECTORY}/join.json"}
    assert {found[path][0] for path in secrets} == {USER}
    # subtree_check refuses what is below a directory that the user cannot enter.
    assert {mode for path, (_owner, mode) in found.items() if path not in secrets} == {
        "0711",
        "0644",
        "0755",
        "u=rwX,go=rX",
    }


@pytest.mark.parametrize("before", ["", "{}\n"])
def test_that_user_can_read_which_node_a_machine_is(tmp_path: Path, before: str) -> None:
    path = tmp_path / "h100.json"
    if before:
        path.write_text(before)
        path.chmod(0o600)
    one = t.cast("Set", type("One", (), {"name": "h100", "options": {"assignments": str(tmp_path)}}))

    elastic_cli.publish(Host(lambda _argv: (0, "", "")), one, {"hpc-h100-abcdef": "n001"})

    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    (directory,) = (
        one for one in tasks("elastic")[0]["vars"]["__slurm_elastic_join"] if one["path"].endswith("/elastic")
    )
    assert directory["mode"] == "0755"
