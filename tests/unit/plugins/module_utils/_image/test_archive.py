# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the archive of a node's root contains, and above all what it does not."""

from __future__ import annotations

import contextlib
import json
import os
import stat
import subprocess
import tarfile
import typing as t
from pathlib import Path

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._image import archive
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.bounded_run import feeding_runner
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.trusted_directory import UntrustedDirectoryError
from ansible_collections.hpcai.gpucluster.tests.patience import PATIENCE

THIEF = 4321
SECRET = "must-not-leave"
RUN = feeding_runner(PATIENCE)
# Files with a secret, or with what identifies the machine. Each is tried with its mode, and readable for all.
SECRETS = {
    # Identity.
    "etc/ssh/ssh_host_ed25519_key": 0o600,
    "etc/ssh/ssh_host_ed25519_key.pub": 0o644,
    "etc/ssh/ssh_host_rsa_key.bak": 0o644,
    "etc/machine-id": 0o444,
    "etc/hostname": 0o644,
    "etc/nvme/hostnqn": 0o644,
    "etc/iscsi/initiatorname.iscsi": 0o600,
    "var/lib/dbus/machine-id": 0o644,
    "var/lib/systemd/random-seed": 0o600,
    "var/lib/systemd/credential.secret": 0o600,
    "var/lib/cloud/instance/user-data.txt": 0o600,
    "var/lib/cloud/seed/nocloud/user-data": 0o644,
    "var/lib/dhcp/dhclient.leases": 0o644,
    "var/lib/NetworkManager/secret_key": 0o600,
    # Passwords and keys of the machine.
    "etc/shadow-": 0o640,
    "etc/shadow.bak": 0o640,
    "etc/shadow.org": 0o644,
    "etc/gshadow-": 0o640,
    "etc/passwd-": 0o644,
    "etc/group-": 0o644,
    "etc/security/opasswd": 0o600,
    "etc/.pwd.lock": 0o600,
    "etc/munge/munge.key": 0o400,
    "etc/munge/munge.key.old": 0o644,
    "etc/krb5.keytab": 0o600,
    "etc/sssd/sssd.conf": 0o600,
    "var/lib/sss/db/cache_default.ldb": 0o600,
    "var/lib/sss/secrets/secrets.ldb": 0o600,
    "var/cache/krb5rcache/krb5_0.rcache2": 0o600,
    "etc/ldap.secret": 0o640,
    "etc/ssl/private/site.key": 0o640,
    "etc/apt/auth.conf": 0o640,
    "etc/apt/auth.conf.d/site.conf": 0o644,
    "etc/apt/apt.conf.d/98-gpucluster-proxy": 0o600,
    "etc/slurm/jwt_hs256.key": 0o600,
    "etc/slurm/slurmdbd.conf": 0o640,
    "etc/netplan/50-cloud-init.yaml": 0o600,
    "etc/wireguard/wg0.conf": 0o600,
    "etc/credstore/token": 0o600,
    "etc/pip.conf": 0o644,
    "etc/gpucluster/repair.json": 0o640,
    "opt/site/etc/password": 0o640,
    "usr/local/etc/site.key": 0o640,
    "usr/local/etc/[a-z]*?.key": 0o640,
    "boot/initrd.img-6.1.0-with-key": 0o600,
    "var/cache/debconf/passwords.dat": 0o600,
    # What the collection keeps.
    "var/lib/gpucluster/user-keys/alice/id_ed25519": 0o600,
    "var/lib/gpucluster/enroot-credentials.json": 0o600,
    "var/lib/gpucluster/validation.json": 0o644,
    "var/lib/gpucluster/pull/release.json": 0o640,
    "var/lib/gpucluster/pull/release.json.partial": 0o640,
    "var/lib/gpucluster/pull/variables.json": 0o600,
    "var/lib/gpucluster/pull/.variables.json.gpucluster": 0o600,
    "var/lib/gpucluster/pull/inventory.json": 0o600,
    "var/lib/gpucluster/pull/inventory": 0o700,
    "var/lib/gpucluster/pull/applied": 0o600,
    "var/lib/gpucluster/pull/joined": 0o600,
    "var/lib/gpucluster/pull/log": 0o600,
    "var/lib/gpucluster/pull/[log]*.old": 0o644,
    "var/lib/gpucluster/pull/.ansible/tmp/ansible-tmp-1/AnsiballZ_munge_key.py": 0o600,
    "var/lib/gpucluster/pull/.ssh/id_ed25519": 0o600,
    "var/lib/gpucluster/pull/cache/gpucluster/other": 0o644,
    "srv/gpucluster/join/munge.key": 0o600,
    "srv/data/file": 0o644,
    # Root and users.
    "root/.config/enroot/.credentials": 0o600,
    "root/.docker/config.json": 0o600,
    "root/.ssh/id_ed25519": 0o600,
    "root/.ssh/known_hosts": 0o644,
    "root/.ssh/authorized_keys.bak": 0o600,
    "root/.bash_history": 0o600,
    "root/.python_history": 0o600,
    "root/.bashrc": 0o644,
    "root/.netrc": 0o644,
    "root/.aws/credentials": 0o600,
    "root/.azure/msal_token_cache.json": 0o600,
    "root/.ansible/tmp/ansible-tmp-2/AnsiballZ_file_set.py": 0o600,
    "root/.cache/pip/http/a": 0o644,
    "root/-exclude": 0o644,
    "root/line\nbreak": 0o644,
    "home/alice/.ssh/id_ed25519": 0o600,
    "home/alice/.netrc": 0o644,
    "var/spool/cron/crontabs/root": 0o600,
    "var/spool/slurmd/job00007/slurm_script": 0o700,
    "var/mail/root": 0o644,
    "var/lib/enroot/data/user-1000/image/etc/token": 0o644,
    "var/lib/docker/volumes/db/_data/file": 0o644,
    "var/lib/private/service/state": 0o644,
    "var/lib/AccountsService/users/alice": 0o644,
    # Logs, and what runs or is temporary.
    "var/log/munge/munged.log": 0o640,
    "var/log/journal/0123/system.journal": 0o640,
    "var/log/auth.log": 0o644,
    "var/crash/core": 0o644,
    "var/lib/systemd/coredump/core.1": 0o644,
    "run/secret": 0o644,
    "tmp/krb5cc_0": 0o600,
    "var/tmp/krb5cc_0": 0o644,
    "mnt/file": 0o644,
    "media/file": 0o644,
    "shared/file": 0o644,
    "swapfile": 0o644,
    ".autorelabel": 0o644,
}
# Files that stay out whatever their mode is. In directories of programs and of configuration, the mode decides.
LISTED = ("usr/", "opt/", "boot/", "etc/slurm/", "etc/gpucluster/", "etc/netplan/", "etc/apt/apt.conf.d/")
OPEN = [path for path in SECRETS if not path.startswith(LISTED)]
KEPT = {
    "usr/sbin/slurmd": 0o755,
    "usr/local/sbin/gpucluster-pull": 0o755,
    "usr/lib/private-but-packaged": 0o640,
    "usr/share/[a]*?{b}": 0o644,
    "usr/share/-option": 0o644,
    "usr/share/line\nbreak": 0o644,
    "boot/vmlinuz-6.1.0": 0o600,
    "opt/gpucluster/nccl/topo.xml": 0o644,
    "etc/packaged.conf": 0o644,
    "etc/slurm/slurm.conf": 0o644,
    "etc/ssh/sshd_config.d/site.conf": 0o644,
    "etc/sudoers": 0o440,
    "etc/sudoers.d/gpucluster-users": 0o440,
    "root/.ssh/authorized_keys": 0o600,
    # A copy has users before its first run.
    "etc/gpucluster/azure_metadata.nft": 0o600,
    "etc/gpucluster/firewall.nft": 0o600,
    "var/lib/dpkg/status": 0o644,
    "var/cache/gpucluster/slurm/Packages": 0o644,
    "var/lib/gpucluster/pull/0123.tar": 0o600,
    "var/lib/gpucluster/pull/accepted.json": 0o600,
    "var/lib/gpucluster/pull/ansible-1/plugins/ssh_host_keys.py": 0o644,
    "var/lib/gpucluster/pull/cache/gpucluster/bundle/1/manifest.json": 0o644,
}
PACKAGED = ["/.", "/boot/vmlinuz-6.1.0", "/etc/packaged.conf", "/lib/private-but-packaged", "/var/spool/cron/crontabs"]
# All that may be in the archive beside files of KEPT: the files that an image has in another form.
OTHERS = {
    *("etc/passwd", "etc/group", "etc/shadow", "etc/gshadow", "etc/machine-id"),
    *(
        "etc/gpucluster/pull.json",
        "etc/gpucluster/image.json",
        "etc/systemd/system/ssh.service.d/gpucluster-image.conf",
    ),
}
ACCOUNTS = {
    "etc/passwd": f"root:x:0:0::/root:/bin/bash\nold:{SECRET}:7:7::/:/bin/sh\nbin:*:2:2::/bin:/bin/sh\n",
    "etc/group": f"root:x:0:\nold:{SECRET}:7:alice\n",
    "etc/shadow": (
        f"root:$y${SECRET}:1::::::\nslurm:!:1::::::\nalice:!$6${SECRET}:1::::::\nbob:!!{SECRET}:1::::::\n"
        f"carol:*LK*{SECRET}:1::::::\nopen::1::::::\nbin:*:1::::::\n"
    ),
    "etc/gshadow": f"root:*::\nold:!{SECRET}::alice\nshadow:{SECRET}::\n",
}


def _write(root: Path, path: str, text: str, mode: int) -> None:
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)
    target.chmod(mode)


@pytest.fixture
def root(tmp_path: Path) -> t.Iterator[Path]:
    former = os.umask(0o022)  # nobody else writes the directories of programs
    made = tmp_path / "root"
    (made / "usr/lib").mkdir(parents=True)
    (made / "lib").symlink_to("usr/lib")
    for path, mode in SECRETS.items():
        _write(made, path, SECRET, mode)
    for path, mode in KEPT.items():
        _write(made, path, "kept", mode)
    for path, text in ACCOUNTS.items():
        _write(made, path, text, 0o640 if "shadow" in path else 0o644)
    _write(made, "var/lib/dpkg/info/all.list", "".join(f"{path}\n" for path in PACKAGED), 0o644)
    _write(made, "etc/gpucluster/pull.json", json.dumps({"name": "gpu1", "user": "gpucluster-pull"}, indent=4), 0o644)
    wants = made / "etc/systemd/system/multi-user.target.wants"
    wants.mkdir(parents=True)
    for unit in ("munge", "slurmd", "ssh"):
        (wants / f"{unit}.service").symlink_to(f"/usr/lib/systemd/system/{unit}.service")
    (made / "var/lib/gpucluster/pull").chmod(0o700)
    yield made
    os.umask(former)


def _archive(root: Path, target: Path) -> Path:
    archive.write(target, root, RUN)
    copy = target.parent / "copy"
    with tarfile.open(target) as opened:
        # Python 3.11.2 of Debian 12 has no filters.
        kinds: dict[str, t.Any] = {"filter": "tar"} if hasattr(tarfile, "tar_filter") else {}
        opened.extractall(copy, **kinds)
    return copy


def _files(directory: Path) -> set[str]:
    return {
        one.relative_to(directory).as_posix() for one in directory.rglob("*") if one.is_file() and not one.is_symlink()
    }


@pytest.mark.parametrize("opened", [False, True], ids=["modes", "readable"])
def test_no_secret_and_no_identity_is_in_the_archive(root: Path, tmp_path: Path, opened: bool) -> None:
    for path in OPEN if opened else ():
        (root / path).chmod(0o644)
    copy = _archive(root, tmp_path / "image.tar")

    assert [path for path in _files(copy) if SECRET in (copy / path).read_text()] == []
    assert SECRET.encode() not in (tmp_path / "image.tar").read_bytes()
    assert _files(copy) == {*KEPT, *OTHERS, "var/lib/dpkg/info/all.list"}
    assert (copy / "etc/machine-id").read_text() == ""


def test_accounts_have_no_password_hash(root: Path, tmp_path: Path) -> None:
    copy = _archive(root, tmp_path / "image.tar")

    fields = {
        path: [line.split(":")[1] for line in (copy / path).read_text().splitlines()] for path in sorted(ACCOUNTS)
    }
    assert fields == {
        "etc/group": ["x", "!"],
        "etc/gshadow": ["*", "!", "!"],
        "etc/passwd": ["x", "!", "*"],
        "etc/shadow": ["!", "!", "!", "!", "!", "!", "*"],
    }
    assert (copy / "etc/shadow").stat().st_mode & 0o777 == 0o640


def test_what_a_copy_needs_is_in_the_archive(root: Path, tmp_path: Path) -> None:
    copy = _archive(root, tmp_path / "image.tar")

    for path, mode in KEPT.items():
        assert (copy / path).read_text() == "kept"
        assert (copy / path).stat().st_mode & 0o777 == mode
    assert json.loads((copy / "etc/gpucluster/image.json").read_text()) == {"bundle": "0123"}
    assert json.loads((copy / "etc/gpucluster/pull.json").read_text()) == {"name": "", "user": "gpucluster-pull"}
    assert (copy / "lib").readlink() == Path("usr/lib")
    # Daemons need their directories, and mounts need their places.
    for path in ("var/log/munge", "var/spool/cron/crontabs", "home", "shared", "tmp", "root"):
        assert (copy / path).is_dir()
        assert not _files(copy / path) - {".ssh/authorized_keys"}
    assert not list((copy / "home").iterdir())


def test_a_copy_starts_munge_and_slurmd_only_when_it_joins(root: Path, tmp_path: Path) -> None:
    copy = _archive(root, tmp_path / "image.tar")

    wants = copy / "etc/systemd/system/multi-user.target.wants"
    assert [path.name for path in wants.iterdir()] == ["ssh.service"]
    assert "ssh-keygen -A" in (copy / "etc/systemd/system/ssh.service.d/gpucluster-image.conf").read_text()


@pytest.mark.parametrize("place", ["srv", "opt", "usr/local/images"])
def test_the_archive_does_not_contain_itself(root: Path, place: str) -> None:
    for _turn in range(2):
        archive.write(root / place / "image[1].tar", root, RUN)

    with tarfile.open(root / place / "image[1].tar") as opened:
        assert not [name for name in opened.getnames() if "image[1].tar" in name]
    assert (root / place / "image[1].tar").stat().st_mode & 0o777 == 0o600


def test_the_node_itself_is_not_changed(root: Path, tmp_path: Path) -> None:
    before = {path: (root / path).read_text() for path in _files(root)}

    _archive(root, tmp_path / "image.tar")

    assert {path: (root / path).read_text() for path in _files(root)} == before


def test_a_node_that_has_applied_no_release_is_refused(root: Path, tmp_path: Path) -> None:
    (root / "var/lib/gpucluster/pull/applied").unlink()

    with pytest.raises(archive.ImageError, match="has not applied a release"):
        archive.write(tmp_path / "x.tar", root, RUN)
    assert not list(tmp_path.glob("*x.tar*"))


def test_a_node_with_var_on_its_own_mount_is_refused(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "_device", lambda path: 2 if path.name == "var" else 1)

    with pytest.raises(archive.ImageError, match="/var: found a file system of its own, which the image would lack"):
        archive.write(tmp_path / "x.tar", root, RUN)
    assert not list(tmp_path.glob("*x.tar*"))


def test_a_node_that_applies_another_bundle_is_refused(root: Path, tmp_path: Path) -> None:
    _write(root, "var/lib/gpucluster/pull/4567.tar", "new", 0o600)

    with pytest.raises(archive.ImageError, match="applies another bundle"):
        archive.write(tmp_path / "x.tar", root, RUN)


def test_a_failure_leaves_no_archive_and_the_next_run_removes_the_rest(root: Path, tmp_path: Path) -> None:
    (tmp_path / ".x.tar.killed").mkdir()

    with pytest.raises(archive.ImageError, match="tar failed: no space"):
        archive.write(tmp_path / "x.tar", root, lambda *_words: (2, "", "no space"))
    assert not list(tmp_path.glob("*x.tar*"))


@pytest.mark.parametrize("mode", [0o2775, 0o777])
def test_programs_that_others_can_replace_stay_out(root: Path, tmp_path: Path, mode: int) -> None:
    """Somebody could put a link to a secret there after the look, and tar would read through it."""
    _write(root, "opt/tool/inner/file", "kept", 0o644)
    (root / "opt/tool").chmod(mode)
    image = archive.write(tmp_path / "image.tar", root, RUN)

    assert image.foreign == ["opt/tool"]
    with tarfile.open(image.path) as opened:
        assert [name for name in opened.getnames() if "opt/tool" in name] == ["./opt/tool"]


@pytest.mark.skipif(os.geteuid() != 0, reason="plays another user")
@pytest.mark.parametrize("mode", [0o2775, 0o777])
def test_another_user_gets_no_image(root: Path, tmp_path: Path, mode: int) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    os.chown(shared, -1, THIEF)
    shared.chmod(mode)
    # The name of the partial archive is known: root would write into a file of the user.
    trap = ["sh", "-c", "for file in image.tar.partial .image.tar.partial; do : > $file; chmod 0666 $file; done"]
    subprocess.run(trap, cwd=shared, user=THIEF, group=THIEF, extra_groups=[], check=True, timeout=PATIENCE)

    with contextlib.suppress(UntrustedDirectoryError):
        archive.write(shared / "image.tar", root, RUN)
    assert [path for path in shared.iterdir() if path.stat().st_size or not path.name.endswith(".partial")] == []


def test_only_root_can_read_the_archive_while_it_is_written(root: Path, tmp_path: Path) -> None:
    modes = []

    def watched(args: list[str], data: str | None = None) -> tuple[int, str, str]:
        written = Path(next(word for word in args if word.startswith("--file=")).partition("=")[2])
        modes.append([stat.S_IMODE(path.stat().st_mode) & 0o077 for path in (written.parent, written)])
        return RUN(args, data)

    archive.write(tmp_path / "image.tar", root, watched)
    assert modes == [[0, 0], [0, 0]]
