# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The execution environment as ansible-builder reads it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from ansible.module_utils.common.yaml import yaml_load

from ansible_collections.hpcai.gpucluster.tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]


def _builder(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "ansible_builder", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_definition_makes_a_context(tmp_path: Path) -> None:
    _builder("create", "--file", "execution-environment.yml", "--context", str(tmp_path))

    text = (tmp_path / "Containerfile").read_text(encoding="utf-8")
    assert re.search(r'^ARG PYCMD="/usr/bin/python3.12"$', text, re.MULTILINE)
    assert re.search(r'^ARG PYPKG="python3.12"$', text, re.MULTILINE)
    assert "ansible-core>=2.19,<2.22" in text
    wanted = yaml_load((tmp_path / "_build/requirements.yml").read_text(encoding="utf-8"))
    assert wanted == {"collections": [{"name": "hpcai.gpucluster"}]}


def test_the_image_gets_what_the_control_node_needs_and_no_tool_of_the_lab(tmp_path: Path) -> None:
    tree = tmp_path / "ansible_collections/hpcai/gpucluster"
    tree.mkdir(parents=True)
    shutil.copytree(ROOT / "meta", tree / "meta")
    for name in ("galaxy.yml", "requirements.txt"):
        shutil.copy(ROOT / name, tree)

    found = yaml_load(_builder("introspect", str(tmp_path)).partition("\n# ")[0])

    python = " ".join(found["python"])
    assert {word for word in ("azure-core", "azure-identity", "jmespath") if word in python} == {
        *("azure-core", "azure-identity", "jmespath")
    }
    assert "molecule" not in python
    assert "ansible==" not in python
    assert "openssh-client" in str(found["system"])


def test_the_lab_has_the_same_packages() -> None:
    """What the image gets is also what requirements.txt installs, in a release that fits."""
    pinned = dict(re.findall(r"^([a-z-]+)==([0-9.]+)", (ROOT / "requirements.txt").read_text(encoding="utf-8"), re.M))
    wanted = re.findall(
        r"^([a-z-]+)>=([0-9.]+)$", (ROOT / "meta/ee-requirements.txt").read_text(encoding="utf-8"), re.M
    )

    assert len(wanted) == 5
    for name, least in wanted:
        assert [int(part) for part in pinned[name].split(".")] >= [int(part) for part in least.split(".")]


def test_navigator_uses_the_image_that_the_page_builds() -> None:
    settings = yaml_load((ROOT / "ansible-navigator.yml").read_text(encoding="utf-8"))["ansible-navigator"]
    page = (ROOT / "docs/platforms.md").read_text(encoding="utf-8")

    image = settings["execution-environment"]["image"]
    assert f"--tag {image.removeprefix('localhost/').removesuffix(':latest')}" in page
