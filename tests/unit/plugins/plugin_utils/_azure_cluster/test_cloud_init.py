# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import base64
import json
import shutil
import subprocess
import typing as t
from pathlib import Path

import pytest
from ansible.module_utils.common.yaml import yaml_load

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_cluster import cloud_init, template
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._programs import zipapp
from ansible_collections.hpcai.gpucluster.tests.patience import PATIENCE
from ansible_collections.hpcai.gpucluster.tests.unit.support import azure_clusters

SCRIPT = Path(cloud_init.__file__).with_name("join.sh")


def _config() -> dict[str, t.Any]:
    data = base64.b64decode(cloud_init.custom_data("hpc-controller", "/srv/gpucluster/join")).decode()
    assert data.startswith("#cloud-config\n")
    return t.cast("dict[str, t.Any]", yaml_load(data))


def test_cloud_init_gets_the_script_its_settings_and_a_unit() -> None:
    config = _config()
    files = {file["path"]: file for file in config["write_files"]}

    assert files["/usr/local/sbin/gpucluster-join"]["content"] == SCRIPT.read_text("utf-8")
    assert files["/usr/local/sbin/gpucluster-join"]["permissions"] == "0755"
    assert files["/etc/default/gpucluster-join"]["content"] == (
        "JOIN_SERVER=hpc-controller\nJOIN_DIRECTORY=/srv/gpucluster/join\n"
    )
    assert config["runcmd"][-1][-1] == "gpucluster-join.service"


def test_custom_data_that_is_too_large_is_refused() -> None:
    with pytest.raises(ValueError, match="Azure allows 65535"):
        cloud_init.custom_data("c", "/" + "d" * 50_000)


def test_custom_data_has_no_secret() -> None:
    rendered = json.dumps(_config()).lower()

    for word in ("password", "private key", "begin ", "token", "secret"):
        assert word not in rendered


def test_only_nodes_have_custom_data_and_only_if_they_join() -> None:
    with_join = json.dumps(template.rendered(azure_clusters.cluster())["template"])
    without = json.dumps(template.rendered(azure_clusters.cluster(join={"enabled": "false"}))["template"])

    assert with_join.count('"customData"') == 1
    assert "customData" not in without


def test_the_script_is_a_posix_shell_script() -> None:
    subprocess.run([shutil.which("dash") or "sh", "-n", str(SCRIPT)], check=True, timeout=PATIENCE)


@pytest.mark.parametrize("missing", ["join.json", "munge.key", "slurm.tar", "gpucluster-join"])
def test_the_script_waits_until_the_controller_has_published(missing: str, tmp_path: Path) -> None:
    for name in {"join.json", "munge.key", "slurm.tar", "gpucluster-join"} - {missing}:
        (tmp_path / name).write_text("x", encoding="utf-8")

    found = subprocess.run(
        ["sh", str(SCRIPT)],
        env={"PATH": "/usr/bin:/bin", "JOIN_LOCAL": str(tmp_path), "JOIN_SERVER": "c", "JOIN_DIRECTORY": "/d"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )

    assert found.returncode != 0
    assert f"c:/d has no {missing} yet" in found.stderr


def test_the_program_is_complete(tmp_path: Path) -> None:
    program = tmp_path / "gpucluster-join"
    program.write_bytes(zipapp.build("_join.cli", "/usr/bin/python3"))

    found = subprocess.run(
        ["python3", "-IS", str(program), str(tmp_path)], capture_output=True, text=True, timeout=PATIENCE, check=False
    )

    assert found.returncode == 1
    assert found.stderr.startswith(f"gpucluster-join: {tmp_path}/join.json cannot be read")
