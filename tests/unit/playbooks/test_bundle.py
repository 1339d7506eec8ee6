# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a bundle contains, and how machines use it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
from ansible.module_utils.common.yaml import yaml_load
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar

from ansible_collections.hpcai.gpucluster.tests.patience import PATIENCE

ROOT = Path(__file__).parents[3]
PLAYBOOKS = ROOT / "playbooks"
# The roles of site.yml whose packages a bundle contains by itself; bundle_packages adds those of others.
CONTAINED = ("base", "enroot", "gpu", "lmod", "munge", "nfs", "pyxis", "scratch", "slurm")


def _variables(name: str) -> dict[str, t.Any]:
    loader = DataLoader()
    return t.cast("dict[str, t.Any]", loader.load_from_file(str(PLAYBOOKS / "vars" / name), trusted_as_template=True))


def _install(**about: t.Any) -> dict[str, t.Any]:
    """Return the variables of a machine that uses a bundle."""
    opened = {"path": "/cache/0123456789ab", "about": {"inputs": {}, "key": "sha256:0", **about}}
    groups = {"gpucluster_bundle_used": ["control"]}
    variables = {
        **_variables("bundle_install.yml"),
        "groups": groups,
        "hostvars": {"control": {"__bundle_open": opened}},
    }
    templar = Templar(loader=DataLoader(), variables=variables)
    return {name: templar.template(variables[name]) for name in ("__bundle_facts", "__bundle_files", "__bundle_links")}


def test_machines_take_all_releases_from_the_bundle() -> None:
    facts = _install(inputs={"slurm_version": "24.11.5"})["__bundle_facts"]

    assert facts["gpucluster_mirror"] == "file:///var/cache/gpucluster/bundle/current"
    # The module release_packages reads a path, and no file URL.
    assert facts["enroot_mirror"] == "/var/cache/gpucluster/bundle/current/enroot"
    assert facts["slurm_cache"] == "/cache/0123456789ab/slurm"
    assert facts["slurm_version"] == "24.11.5"
    # The repository of the bundle has the toolkit. A repository of its own would be a source of apt on the machine.
    assert facts["nvidia_container_toolkit_repository"] == ""


def test_a_cluster_has_no_containers_if_the_bundle_has_no_enroot() -> None:
    assert _install()["__bundle_facts"]["gpucluster_containers"] is False
    assert "gpucluster_containers" not in _install(inputs={"enroot_version": "4.1.2"})["__bundle_facts"]


def test_apt_reads_the_bundle_and_the_packages_of_slurm_only_and_nothing_of_the_site_changes() -> None:
    found = _install()
    paths = [entry["path"] for entry in (*found["__bundle_files"], *found["__bundle_links"])]

    assert not [path for path in paths if path.startswith(("/etc/apt", "/var/lib/apt"))]
    assert 'Dir::Etc::SourceList "/dev/null";' in found["__bundle_files"][0]["content"]
    sources = [path for path in paths if path.startswith("/var/lib/gpucluster/bundle/sources.list.d/")]
    assert [Path(path).name for path in sources] == ["bundle.list", "gpucluster-slurm.list"]
    assert "signed-by=" in found["__bundle_files"][1]["content"]


def test_programs_get_the_sources_of_the_bundle_in_such_a_run_only() -> None:
    variables = {**_variables("cluster.yml"), "hostvars": {}, "inventory_hostname": "gpu1", "groups": {}}
    expression = variables["gpucluster_environment"]

    assert Templar(loader=DataLoader(), variables=variables).template(expression) == {}
    templar = Templar(loader=DataLoader(), variables={**variables, "gpucluster_apt_config": "/etc/x.conf"})
    assert templar.template(expression) == {"APT_CONFIG": "/etc/x.conf"}


def test_packages_that_depend_on_each_other_are_installed_at_once() -> None:
    tasks: t.Any = DataLoader().load_from_file(str(PLAYBOOKS / "tasks/bundle_images.yml"), trusted_as_template=True)
    packages = ["/srv/enroot/enroot+caps_4.1.2-1_amd64.deb", "/srv/enroot/enroot_4.1.2-1_amd64.deb"]
    templar = Templar(loader=DataLoader(), variables={"__bundle_enroot": packages})
    command = templar.template(tasks[0]["ansible.builtin.command"]["argv"])

    assert "loop" not in tasks[0]
    assert command[-3:] == ["install", *packages]


def _collect(**variables: t.Any) -> tuple[dict[str, t.Any], Templar]:
    """Return the tasks that fill a bundle, by name, and what reads their templates."""
    tasks: t.Any = DataLoader().load_from_file(str(PLAYBOOKS / "tasks/bundle_collect.yml"), trusted_as_template=True)
    templar = Templar(loader=DataLoader(), variables={**_variables("bundle.yml"), **variables})
    return {task["name"]: task for task in tasks}, templar


def test_slurm_and_pyxis_are_built_from_the_archives_of_the_bundle() -> None:
    """A mirror directory may lack them; then they were downloaded into the bundle."""
    paths = {"__slurm_upstream_path": "slurm/slurm-1.tar.bz2", "__pyxis_upstream_path": "pyxis/pyxis-1.tar.gz"}
    tasks, templar = _collect(**paths)
    slurm = tasks["Build Slurm, or take the packages of the cache"]["vars"]
    pyxis = tasks["Build pyxis against this build of Slurm"]["vars"]
    node = "file:///srv/gpucluster-bundle/node"

    assert templar.template(slurm["slurm_source_url"]) == f"{node}/slurm/slurm-1.tar.bz2"
    assert templar.template(pyxis["pyxis_source_url"]) == f"{node}/pyxis/pyxis-1.tar.gz"


def test_the_container_toolkit_comes_from_a_mirror_directory_that_has_it_only(tmp_path: Path) -> None:
    tasks, templar = _collect(bundle_mirror=str(tmp_path))
    task = tasks["Use the container toolkit of the mirror"]

    assert not templar.evaluate_conditional(task["when"])
    (tmp_path / "libnvidia-container").mkdir()
    assert templar.evaluate_conditional(task["when"])


def _packages_of_roles() -> list[tuple[str, str]]:
    """Return each literal package that a task of a role installs, with its role."""
    found = []
    for path in sorted((ROOT / "roles").glob("*/tasks/*.yml")):
        text = path.read_text(encoding="utf-8")
        for task in re.findall(r"(?:ansible\.builtin\.apt|hpcai\.gpucluster\.packages):\n((?: {4,}.*\n)+)", text):
            names = re.search(r"name: (.*)", task)
            if names and "state: absent" not in task:
                found += [
                    (path.parts[-3], name)
                    for name in re.findall(r"(?<![\w.-])([a-z0-9][a-z0-9+-]{2,})(?!':)(?=[',\]]|$)", names[1])
                ]
    return found


def test_the_packages_of_roles_are_found() -> None:
    assert {("munge", "munge"), ("nfs", "nfs-common")} <= set(_packages_of_roles())


@pytest.mark.parametrize(("role", "package"), _packages_of_roles())
def test_a_package_that_a_role_installs_is_in_a_bundle(role: str, package: str) -> None:
    if role in CONTAINED:
        assert package in str(_variables("bundle.yml")["__bundle_sets"])


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize("script", ["bundle-packages", "install.sh"])
def test_scripts_are_valid_and_stop_at_the_first_error(script: str) -> None:
    path = PLAYBOOKS / "files" / script

    assert "set -euo pipefail" in path.read_text(encoding="utf-8")
    assert subprocess.run(["bash", "-n", str(path)], timeout=PATIENCE, check=False).returncode == 0


def test_the_installation_runs_no_module_of_the_current_directory(tmp_path: Path) -> None:
    """An administrator may stand in a directory of a user."""
    (tmp_path / "venv.py").write_text("print('the module of a user')", encoding="utf-8")
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@" --without-pip\n', encoding="utf-8")  # which takes seconds
    python.chmod(0o755)

    done = subprocess.run(
        ["bash", PLAYBOOKS / "files/install.sh", tmp_path / "made"],
        cwd=tmp_path,
        env={**os.environ, "PYTHON": str(python)},
        timeout=PATIENCE,
        check=False,
        capture_output=True,
        text=True,
    )

    assert "the module of a user" not in done.stdout
    assert (tmp_path / "made/pyvenv.cfg").exists()


def test_every_part_of_site_can_use_a_bundle() -> None:
    plays = yaml_load((PLAYBOOKS / "check_input.yml").read_text(encoding="utf-8"))

    assert plays[-1]["ansible.builtin.import_playbook"] == "bundle_install.yml"


@pytest.mark.parametrize("path", sorted(PLAYBOOKS.glob("tasks/*.yml")), ids=lambda path: path.stem)
def test_facts_are_set_by_name(path: Path) -> None:
    """set_fact ignores a mapping that is a template as a whole, and reports no error."""
    assert not re.search(r'set_fact: "?\{\{', path.read_text(encoding="utf-8"))


# Acts as apt: one package is in a directory, one is that of Slurm.
APT_GET = """#!/bin/sh
case "$*" in *--print-uris*)
  echo "'file:{mirror}/./toolkit_1.20.1-1%2bx_amd64.deb' toolkit_1.20.1-1+x_amd64.deb 10 SHA256:0"
  echo "'file:/var/cache/gpucluster/slurm-1/./slurm-smd_1_amd64.deb' slurm-smd_1_amd64.deb 10 SHA256:0"
  echo "'http://mirror.example.com/debian/pool/m/munge_1_amd64.deb' munge_1_amd64.deb 10 SHA256:0" ;;
esac
"""


def test_packages_of_a_mirror_directory_are_in_the_bundle(tmp_path: Path) -> None:
    programs, mirror, target = tmp_path / "bin", tmp_path / "mirror", tmp_path / "node"
    programs.mkdir()
    mirror.mkdir()
    (mirror / "toolkit_1.20.1-1+x_amd64.deb").write_text("deb")
    for name in ("apt-get", "apt-ftparchive", "dpkg-deb", "gpg", "gpgconf"):
        text = APT_GET.format(mirror=mirror) if name == "apt-get" else "#!/bin/sh\n"
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)

    subprocess.run(
        [PLAYBOOKS / "files/bundle-packages", target, "munge toolkit"],
        env={"PATH": f"{programs}:/usr/sbin:/usr/bin:/sbin:/bin"},
        check=True,
        timeout=PATIENCE,
    )

    assert [path.name for path in (target / "apt").glob("*.deb")] == ["toolkit_1.20.1-1+x_amd64.deb"]
