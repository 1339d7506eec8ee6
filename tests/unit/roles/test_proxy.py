# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the roles write for a proxy, and that every play that installs something gives it to its programs."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest
from ansible.module_utils.common.yaml import yaml_load

from ansible_collections.hpcai.gpucluster.tests.unit.support.role_values import role_values

ROOT = Path(__file__).parents[3]
PLAYBOOKS = sorted([*ROOT.glob("playbooks/*.yml"), *ROOT.glob("playbooks/parts/*.yml")])
PROXY = {"http": "http://proxy:3128", "no_proxy": ["mirror", ".example.com"]}
LOGIN = {"https": "http://me:secret@proxy:3128"}
CASES: dict[str, dict[str, t.Any]] = {
    "none": {},
    "proxy": {"gpucluster_proxy": PROXY},
    "login": {"gpucluster_proxy": LOGIN},
}
# Roles that download or install something.
INSTALLING = "base|docker|enroot|gpu|health|monitoring|munge|nfs|nvidia_container_toolkit|pyxis|scratch|slurm|training"
# These remove, read, dump, wait or start jobs; the build of upgrade.yml is that of slurm.yml.
WITHOUT = {"azure_scale", "check_input", "node_remove", "teardown", "upgrade", "mirror", "validate"}


def test_apt_gets_a_file_that_only_root_reads_if_it_has_a_login(tmp_path: Path) -> None:
    (tmp_path / "templates").symlink_to(ROOT / "roles/base/templates")
    found = role_values(tmp_path, "base", "__base_files | selectattr('path', 'search', 'proxy') | first | dict2items", {
        name: {**case, "ansible_managed": "x"} for name, case in CASES.items()
    })  # fmt: skip
    files = {name: {item["key"]: item["value"] for item in items} for name, items in found.items()}

    assert {name: (file["state"], file["mode"]) for name, file in files.items()} == {
        "none": ("absent", "0644"),
        "proxy": ("present", "0644"),
        "login": ("present", "0600"),
    }
    # apt knows hosts, and no domains.
    direct = [f'Acquire::http::Proxy::{name} "DIRECT";' for name in ("localhost", "127.0.0.1", "mirror")]
    assert files["proxy"]["content"].splitlines()[1:] == ['Acquire::http::Proxy "http://proxy:3128";', *direct]


def test_enroot_gets_the_keys_of_its_configuration(tmp_path: Path) -> None:
    own = {"own": {"gpucluster_proxy": PROXY, "enroot_config": {"http_proxy": "http://other:1", "no_proxy": None}}}
    expression = "(enroot_proxy | hpcai.gpucluster.proxy_environment) | combine(enroot_config)"

    found = role_values(tmp_path, "enroot", expression, {**CASES, **own})

    assert expression.partition(" | combine")[0][1:-1] in (ROOT / "roles/enroot/vars/main.yml").read_text(
        encoding="utf-8"
    )
    assert found["none"] == {}
    assert found["proxy"] == {
        "http_proxy": "http://proxy:3128",
        "no_proxy": "localhost,127.0.0.1,::1,mirror,.example.com",
    }
    assert found["own"] == {"http_proxy": "http://other:1", "no_proxy": None}


def test_the_engine_reads_the_proxy_from_a_file_of_root(tmp_path: Path) -> None:
    found = role_values(tmp_path, "docker", "__docker_proxy_files", {
        name: {**case, "ansible_managed": "x"} for name, case in CASES.items()
    })  # fmt: skip

    assert [file["state"] for file in found["none"]] == ["absent", "absent"]
    unit, secret = found["login"]
    assert "secret" not in unit["content"]
    assert f"EnvironmentFile={secret['path']}\n" in unit["content"]
    assert secret["mode"] == "0600"
    assert 'HTTPS_PROXY="http://me:secret@proxy:3128"\n' in secret["content"]


@pytest.mark.parametrize("path", PLAYBOOKS, ids=lambda path: path.stem)
def test_a_play_that_installs_something_gives_its_programs_the_proxy(path: Path) -> None:
    if path.stem in WITHOUT:
        return
    for play in yaml_load(path.read_text(encoding="utf-8")):
        checks = play["name"].startswith("Check the input")
        if not checks and re.search(rf"'hpcai\.gpucluster\.(({INSTALLING})'|\{{\{{)", str(play)):
            assert play.get("environment") == "{{ gpucluster_environment }}", play["name"]
