# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the archive of a node's root contains, and above all what it does not."""

from __future__ import annotations

import json
import subprocess
import tarfile
import typing as t
from pathlib import Path

import pytest

from ansible_collections.hpcai.gpucluster.tests.patience import PATIENCE

SCRIPT = Path(__file__).parents[3] / "playbooks/files/image-root"
SECRET = "must-not-leave"
# By path, the mode of a file with a secret.
SECRETS = {
    "etc/ssh/ssh_host_ed25519_key": 0o600,
    "etc/ssh/ssh_host_ed25519_key.pub": 0o644,
    "etc/munge/munge.key": 0o400,
    "etc/machine-id": 0o444,
    "etc/hostname": 0o644,
    "etc/sssd/sssd.conf": 0o600,
    "etc/ssl/private/site.key": 0o640,
    "etc/apt/apt.conf.d/98-gpucluster-proxy": 0o600,
    "var/lib/gpucluster/pull/release.json": 0o640,
    "var/lib/gpucluster/pull/variables.json": 0o600,
    "var/lib/gpucluster/pull/inventory.json": 0o600,
    "var/lib/gpucluster/pull/applied": 0o600,
    "var/lib/cloud/instance/user-data.txt": 0o600,
    "var/lib/systemd/random-seed": 0o600,
    "var/log/munge/munged.log": 0o640,
    "home/alice/.ssh/id_ed25519": 0o600,
    "root/.ssh/id_ed25519": 0o600,
    "root/.bash_history": 0o600,
    "run/secret": 0o644,
}
KEPT = {
    "usr/sbin/slurmd": 0o755,
    "etc/sudoers.d/gpucluster-users": 0o440,
    "root/.ssh/authorized_keys": 0o600,
    "var/lib/gpucluster/pull/0123.tar": 0o600,
    "var/lib/gpucluster/pull/ansible-1/plugins/ssh_host_keys.py": 0o644,
}


def _write(root: Path, path: str, text: str, mode: int) -> None:
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)
    target.chmod(mode)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "root"
    for path, mode in SECRETS.items():
        _write(made, path, SECRET, mode)
    for path, mode in KEPT.items():
        _write(made, path, "kept", mode)
    _write(
        made,
        "etc/shadow",
        f"root:$y${SECRET}:1::::::\nslurm:!:1::::::\nalice:$6${SECRET}:1::::::\nbin:*:1::::::\n",
        0o640,
    )
    _write(made, "etc/gpucluster/pull.json", json.dumps({"name": "gpu1", "user": "gpucluster-pull"}, indent=4), 0o644)
    wants = made / "etc/systemd/system/multi-user.target.wants"
    wants.mkdir(parents=True)
    for unit in ("munge", "slurmd", "ssh"):
        (wants / f"{unit}.service").symlink_to(f"/usr/lib/systemd/system/{unit}.service")
    return made


def _archive(root: Path, target: Path) -> Path:
    subprocess.run([SCRIPT, target, root], check=True, capture_output=True, text=True, timeout=PATIENCE)
    copy = target.parent / "copy"
    with tarfile.open(target) as opened:
        # Python 3.11.2 of Debian 12 has no filters.
        kinds: dict[str, t.Any] = {"filter": "tar"} if hasattr(tarfile, "tar_filter") else {}
        opened.extractall(copy, **kinds)
    return copy


def test_no_secret_and_no_identity_is_in_the_archive(root: Path, tmp_path: Path) -> None:
    copy = _archive(root, tmp_path / "image.tar")

    found = [path for path in copy.rglob("*") if path.is_file() and not path.is_symlink()]
    assert [path for path in found if SECRET in path.read_text()] == []
    assert SECRET.encode() not in (tmp_path / "image.tar").read_bytes()
    assert (copy / "etc/machine-id").read_text() == ""
    assert [line.split(":")[1] for line in (copy / "etc/shadow").read_text().splitlines()] == ["!", "!", "!", "*"]


def test_what_a_copy_needs_is_in_the_archive(root: Path, tmp_path: Path) -> None:
    copy = _archive(root, tmp_path / "image.tar")

    for path, mode in KEPT.items():
        assert (copy / path).read_text() == "kept"
        assert (copy / path).stat().st_mode & 0o777 == mode
    assert json.loads((copy / "etc/gpucluster/image.json").read_text()) == {"bundle": "0123"}
    assert json.loads((copy / "etc/gpucluster/pull.json").read_text()) == {"name": "", "user": "gpucluster-pull"}
    # munged needs the directory.
    assert (copy / "var/log/munge").is_dir()


def test_a_copy_starts_munge_and_slurmd_only_when_it_joins(root: Path, tmp_path: Path) -> None:
    copy = _archive(root, tmp_path / "image.tar")

    wants = copy / "etc/systemd/system/multi-user.target.wants"
    assert [path.name for path in wants.iterdir()] == ["ssh.service"]
    assert "ssh-keygen -A" in (copy / "etc/systemd/system/ssh.service.d/gpucluster-image.conf").read_text()


def test_the_archive_does_not_contain_itself(root: Path) -> None:
    target = root / "srv/image.tar"
    target.parent.mkdir()

    subprocess.run([SCRIPT, target, root], check=True, capture_output=True, timeout=PATIENCE)

    with tarfile.open(target) as opened:
        assert not [name for name in opened.getnames() if "image.tar" in name]


def test_the_node_itself_is_not_changed(root: Path, tmp_path: Path) -> None:
    before = {path: path.read_text() for path in root.rglob("*") if path.is_file() and not path.is_symlink()}

    _archive(root, tmp_path / "image.tar")

    assert {path: path.read_text() for path in root.rglob("*") if path.is_file() and not path.is_symlink()} == before


def test_a_node_that_has_applied_no_release_is_refused(root: Path, tmp_path: Path) -> None:
    (root / "var/lib/gpucluster/pull/applied").unlink()

    ended = subprocess.run(
        [SCRIPT, tmp_path / "x.tar", root], capture_output=True, text=True, check=False, timeout=PATIENCE
    )

    assert ended.returncode == 1
    assert "has not applied a release" in ended.stderr
    assert not (tmp_path / "x.tar").exists()


def test_a_node_that_applies_another_bundle_is_refused(root: Path, tmp_path: Path) -> None:
    _write(root, "var/lib/gpucluster/pull/4567.tar", "new", 0o600)

    ended = subprocess.run(
        [SCRIPT, tmp_path / "x.tar", root], capture_output=True, text=True, check=False, timeout=PATIENCE
    )

    assert ended.returncode == 1
    assert "applies another bundle" in ended.stderr
