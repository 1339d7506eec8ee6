# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What runs as root around a job in folders of users: it follows nothing, never fails, and removes what it should."""

from __future__ import annotations

import os
import subprocess
import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.tests.patience import HANGS, PATIENCE
from ansible_collections.hpcai.gpucluster.tests.unit.support.role_values import ROOT, role_values

if t.TYPE_CHECKING:
    from pathlib import Path

UID = os.getuid()
# What needs rights that the tests may not have.
STANDS_IN = {
    "chown": "exit 0",
    "mountpoint": "exit 0",
    "setpriv": 'while [ "${1#--}" != "$1" ]; do shift; done; exec "$@"',
}


class Scripts:
    """The scripts of a role, as they land on a machine whose folders are below one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.scratch = folder / "scratch"
        self._programs = folder / "programs"
        self._texts = self._render(folder / "rendered")
        for name, text in STANDS_IN.items():
            self.stand_in(name, text)
        for name in ("run", "cache", "data", "scratch"):
            (folder / name).mkdir()

    def _render(self, folder: Path) -> dict[str, str]:
        folder.mkdir()
        self._programs.mkdir()
        variables = {
            "enroot_runtime_directory": str(self.folder / "run"),
            "enroot_cache_directory": str(self.folder / "cache"),
            "enroot_data_directory": str(self.data),
            "enroot_prolog_enabled": True,
            "__enroot_booted": str(self.folder / "booted"),
            "scratch_path": str(self.scratch),
        }
        texts: dict[str, str] = {}
        for role in ("enroot", "scratch"):
            files = sorted((ROOT / "roles" / role / "templates").glob("*.sh.j2"))
            lookups = ", ".join(
                f"'{role}/{file.name[:-6]}': lookup('ansible.builtin.template', '{file}')" for file in files
            )
            work = folder / role
            work.mkdir()
            texts |= role_values(work, role, f"{{{lookups}}}", {"machine": variables})["machine"]
        proof = ROOT / "roles/enroot/files/proof.sh"
        return {**texts, "enroot/proof": proof.read_text(encoding="utf-8")}

    def stand_in(self, name: str, text: str) -> None:
        path = self._programs / name
        path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        path.chmod(0o755)

    def run(self, script: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        path = self.folder / script.replace("/", "-")
        path.write_text(self._texts[script], encoding="utf-8")
        path.chmod(0o755)
        return subprocess.run(
            [path, *arguments],
            env={
                "PATH": f"{self._programs}:/usr/sbin:/usr/bin:/sbin:/bin",
                "SLURM_JOB_ID": "5",
                "SLURM_JOB_UID": str(UID),
                **environment,
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )


@pytest.fixture
def scripts(tmp_path: Path) -> Scripts:
    return Scripts(tmp_path)


def _mode(path: Path) -> int:
    return path.lstat().st_mode & 0o7777


def test_a_users_folders_lie_where_only_root_makes_folders(scripts: Scripts) -> None:
    assert scripts.run("enroot/prolog").returncode == 0

    for name in ("run", "cache", "data"):
        assert _mode(scripts.folder / name) == 0o711
        assert _mode(scripts.folder / name / f"user-{UID}") == 0o700
    assert (scripts.data / ".jobs/5").read_text() == f"{UID}\n"
    assert _mode(scripts.data / ".jobs") == 0o700


def test_a_link_under_a_users_name_is_not_followed(scripts: Scripts) -> None:
    target = scripts.folder / "target"
    target.mkdir(mode=0o755)
    (scripts.data / f"user-{UID}").symlink_to(target)
    (scripts.scratch / "job-5").symlink_to(target)

    assert [scripts.run(f"{role}/prolog").returncode for role in ("enroot", "scratch")] == [0, 0]

    assert _mode(target) == 0o755
    assert _mode(scripts.data / f"user-{UID}") == _mode(scripts.scratch / "job-5") == 0o700


@pytest.mark.parametrize("script", ["enroot/prolog", "scratch/prolog", "scratch/epilog", "enroot/epilog"])
def test_what_cannot_be_done_does_not_drain_the_node(scripts: Scripts, script: str) -> None:
    (scripts.scratch / "job-5").mkdir()
    (scripts.scratch / "job-5.gone").write_text("in the way")
    for name in ("mkdir", "install", "mv", "mktemp", "rm"):
        scripts.stand_in(name, "exit 1")

    assert scripts.run(script).returncode == 0


def test_only_a_folder_of_the_jobs_user_is_named_to_the_job(scripts: Scripts) -> None:
    (scripts.scratch / "job-5").mkdir()
    (scripts.scratch / "job-6").symlink_to(scripts.folder)

    assert scripts.run("scratch/task_prolog").stdout == f"export SCRATCH={scripts.scratch}/job-5\n"
    assert scripts.run("scratch/task_prolog", SLURM_JOB_ID="6").stdout == ""


def _containers(scripts: Scripts, *names: str) -> None:
    for name in names:
        (scripts.data / f"user-{UID}" / name / "etc").mkdir(parents=True)


def _left(scripts: Scripts) -> list[str]:
    return sorted(path.name for path in (scripts.data / f"user-{UID}").iterdir())


def test_only_what_steps_of_the_job_left_is_removed(scripts: Scripts) -> None:
    kept = ["pyxis_5", "pyxis_5.x", "pyxis_50.0", "pyxis_5_name", "pyxis_name", "pyxis_name.5", "pyxis_x5.0"]
    scripts.run("enroot/prolog")
    _containers(scripts, "pyxis_5.0", "pyxis_5.4294967291", "pyxis_5_5.1", *kept)

    assert scripts.run("enroot/epilog").returncode == 0

    assert _left(scripts) == kept
    assert not list((scripts.data / ".jobs").iterdir())


def test_a_boot_removes_what_jobs_left_that_it_ended_and_a_restart_of_the_unit_nothing(scripts: Scripts) -> None:
    scripts.run("enroot/prolog")
    _containers(scripts, "pyxis_5.0", "pyxis_25.10")  # a name such as --container-name=25.10

    assert scripts.run("enroot/epilog", "boot").returncode == 0
    assert _left(scripts) == ["pyxis_25.10"]

    scripts.run("enroot/prolog")
    _containers(scripts, "pyxis_5.1")
    assert scripts.run("enroot/epilog", "boot").returncode == 0
    assert _left(scripts) == ["pyxis_25.10", "pyxis_5.1"]


@pytest.mark.parametrize(("virtual", "value", "fails"), [(1, 0, True), (1, 1, False), (0, 0, False)])
def test_a_machine_that_follows_links_of_others_is_refused_and_a_container_is_not(
    scripts: Scripts, virtual: int, value: int, fails: bool
) -> None:
    scripts.stand_in("systemd-detect-virt", f"exit {virtual}")
    scripts.stand_in("cat", f"echo {value}")
    scripts.stand_in("enroot-nsenter", "exit 0")

    done = scripts.run("enroot/proof", str(scripts.data))

    assert done.returncode == int(fails)
    assert ("protected_symlinks is 0; set fs.protected_symlinks in enroot_sysctl" in done.stderr) == fails


@pytest.fixture
def pyxis_config(tmp_path: Path) -> t.Iterator[str]:
    """Stand for the process that starts a container, which has the name of pyxis's file among its arguments."""
    config = tmp_path / ".enroot_config_x1Y2"
    config.write_text(
        f'mounts() {{\n\techo "{tmp_path} /data/set x-create=auto,rbind"\n\techo "{config} /file x-create=auto,rbind"\n'
        f'\techo "{tmp_path} /out/of x-create=auto,rbind"\n'
        f'\techo "{tmp_path} /with\\\\040blank x-create=auto,rbind"\n}}\n'
    )
    with subprocess.Popen(["sh", "-c", f"sleep {HANGS}; :", str(config)]) as process:
        yield str(process.pid)
        process.kill()


def test_folders_to_mount_on_are_made_so_that_an_export_can_read_them(scripts: Scripts, pyxis_config: str) -> None:
    root = scripts.folder / "root"
    (root / "old").mkdir(parents=True)
    (root / "old").chmod(0)
    (root / "out").symlink_to(scripts.folder / "elsewhere")
    mounts = scripts.folder / "fstab"
    mounts.write_text(
        "/spool/pmix.5.0/ x-create=dir,bind,rw,nofail\n/dev/x x-create=file,bind\n/old x-create=dir,bind\n"
    )
    # enroot keeps the mounts of mounts.d here while hooks run.
    mounts.with_name(mounts.name + "~").write_text("/opt/nccl /opt/nccl none x-create=dir,bind,ro,nofail\n")
    environment = {"ENROOT_ROOTFS": str(root), "ENROOT_MOUNTS": str(mounts), "ENROOT_PID": pyxis_config}

    assert scripts.run("enroot/mount-points", **environment).returncode == 0

    made = {
        str(path.relative_to(root)): _mode(path) for path in root.rglob("*") if path.is_dir() and not path.is_symlink()
    }
    assert made.pop("old") & 0o700 == 0o700
    assert made == dict.fromkeys(
        ("opt", "opt/nccl", "spool", "spool/pmix.5.0", "data", "data/set", "with blank"), 0o777 & ~_umask()
    )
    assert not (scripts.folder / "elsewhere").exists()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
