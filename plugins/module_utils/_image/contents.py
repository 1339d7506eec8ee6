# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
What an image of a node may contain.

Everything else stays out: a file that nobody thought of is not in an image. A file is in it if every user of the node
can read it, and if it belongs to a package, to the programs of the node, or to the configuration named here. Only the
files named in PRIVATE need no reader: they have no secrets, and a copy needs them before its first run.
"""

from __future__ import annotations

import fnmatch
import os
import stat
import typing as t
from pathlib import Path

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.trusted_directory import fault

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# Directories of programs.
PROGRAMS = frozenset(("bin", "boot", "lib", "lib32", "lib64", "libx32", "opt", "sbin", "usr"))
# Files and directories that no package brings. No place for keys, logins, names of the machine, or data of users.
CONFIGURATION = frozenset(
    f"etc/{name}"
    for name in (
        ".updated",
        *("adduser.conf", "alternatives", "apparmor.d", "bash.bashrc", "bindresvport.blacklist", "binfmt.d"),
        *("apt/apt.conf.d", "apt/keyrings", "apt/preferences.d", "apt/sources.list", "apt/sources.list.d"),
        *("apt/trusted.gpg", "apt/trusted.gpg.d", "ca-certificates", "ca-certificates.conf"),
        *("chrony/chrony.conf", "chrony/conf.d", "chrony/sources.d", "console-setup", "dbus-1", "debian_version"),
        *("default", "deluser.conf", "depmod.d", "dkms", "docker/daemon.json", "dpkg", "enroot", "environment"),
        *("environment.d", "fonts", "fstab", "gai.conf", "gpucluster", "host.conf", "hosts", "hosts.allow"),
        *("hosts.deny", "idmapd.conf", "init.d", "initramfs-tools", "inputrc", "iproute2", "issue", "issue.net"),
        *("kernel", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "libaudit.conf", "libibverbs.d", "lmod"),
        *("locale.conf", "locale.gen", "localtime", "login.defs", "logrotate.d", "lsb-release", "magic", "mailcap"),
        *("mime.types", "modprobe.d", "modules", "modules-load.d", "motd", "mtab", "nccl.conf", "netplan", "network"),
        *("networkd-dispatcher", "networks", "nfs.conf", "nfs.conf.d", "nftables.conf", "nhc", "nsswitch.conf"),
        *("nvidia", "nvidia-container-runtime", "nvidia-container-toolkit", "nvidia-simulation.json", "OpenCL"),
        *("os-release", "pam.conf", "pam.d", "polkit-1", "profile", "profile.d", "protocols", "python3", "rc.local"),
        *("rc0.d", "rc1.d", "rc2.d", "rc3.d", "rc4.d", "rc5.d", "rc6.d", "rcS.d", "rdma", "resolv.conf", "rpc"),
        *("rsyslog.conf", "rsyslog.d", "security/access.conf", "security/limits.conf", "security/limits.d"),
        *("security/namespace.conf", "security/pam_env.conf", "services", "shells", "skel", "slurm"),
        *("ssh/gpucluster_known_hosts", "ssh/moduli", "ssh/ssh_config", "ssh/ssh_config.d", "ssh/ssh_known_hosts"),
        *("ssh/sshd_config", "ssh/sshd_config.d", "ssl/certs", "ssl/openssl.cnf", "subgid", "subuid", "sudo.conf"),
        *("sysctl.conf", "sysctl.d", "systemd/journald.conf", "systemd/journald.conf.d", "systemd/logind.conf.d"),
        *("systemd/journal-upload.conf.d", "systemd/network", "systemd/resolved.conf.d", "systemd/system"),
        *(
            "systemd/system.conf.d",
            "systemd/timesyncd.conf.d",
            "systemd/user",
            "terminfo",
            "timezone",
            "tmpfiles.d",
            "ucf.conf",
            "udev",
        ),
        *("update-motd.d", "vconsole.conf", "vim", "vulkan", "X11", "xattr.conf", "xdg"),
    )
)
# What the package manager and the collection remember.
STATE = frozenset(
    (
        *("var/.updated", "var/cache/debconf/config.dat", "var/cache/debconf/templates.dat", "var/cache/gpucluster"),
        *("var/lib/apt/extended_states", "var/lib/apt/lists", "var/lib/binfmts", "var/lib/dkms", "var/lib/dpkg"),
        *("var/lib/emacsen-common", "var/lib/gpucluster/bundle", "var/lib/initramfs-tools", "var/lib/locales"),
        *("var/lib/pam", "var/lib/polkit-1", "var/lib/python", "var/lib/shim-signed", "var/lib/ucf"),
        *("var/lib/systemd/deb-systemd-helper-enabled", "var/lib/systemd/deb-systemd-helper-masked"),
        *("var/lib/systemd/deb-systemd-user-helper-enabled", "var/lib/systemd/deb-systemd-user-helper-masked"),
        *(
            "var/lib/shells.state",
            "var/lib/systemd/catalog",
            "var/lib/xml-core",
            "var/lock",
            "var/run",
            "var/spool/mail",
        ),
    )
)
# Files that root alone can read, and that have no secrets: rules, public keys, the parts of a bundle, and the serial of
# the release that the node accepted, so that a copy refuses older ones. Users may come before the first run of a copy,
# so the rules of its firewall are there.
PRIVATE = (
    *("etc/gpucluster/azure_metadata.nft", "etc/gpucluster/firewall.nft"),
    *("etc/sudoers", "etc/sudoers.d", "root/.ssh/authorized_keys"),
    *("var/lib/gpucluster/pull/*.tar", "var/lib/gpucluster/pull/ansible-*"),
    *("var/lib/gpucluster/pull/cache/gpucluster/bundle", "var/lib/gpucluster/pull/accepted.json"),
)
# Files that an image has in another form.
ACCOUNTS = ("etc/passwd", "etc/group", "etc/shadow", "etc/gshadow")
PULL, IMAGE, MACHINE_ID = "etc/gpucluster/pull.json", "etc/gpucluster/image.json", "etc/machine-id"
# Names below a listed directory that an image never has: a copy starts these units when it joins.
_NEVER = (
    *("etc/systemd/system/*.wants/munge.service", "etc/systemd/system/*.wants/slurmd.service", "*.partial"),
    *(*ACCOUNTS, PULL, IMAGE, MACHINE_ID),
)
# Directories that a copy needs although they are empty: up to three names, and all that packages bring.
_LEVELS = 3
_TREES = PROGRAMS | {"etc", "var"}
_EMPTY = ("var/tmp", "var/lib/private")


class Contents(t.NamedTuple):
    """What an image has of a root, and directories of programs that stay out because others can change them."""

    names: list[str]
    foreign: list[str]


def contents(root: Path) -> Contents:
    """Return what an image has of a root, without what it has in another form."""
    walk = _Walk(root)
    names = {*walk.below("", True), *walk.private()}
    return Contents(sorted(names), walk.foreign)


class _Walk:
    """A walk over the root file system, without others that are mounted below it."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._packaged = _packaged(root)
        self._device = root.stat().st_dev
        self.foreign: list[str] = []

    def below(self, directory: str, public: bool) -> Iterator[str]:
        """Yield what an image has of a directory. O(public) says whether every user can enter it."""
        with os.scandir(self._root / directory) as entries:
            for entry in sorted(entries, key=lambda one: one.name):
                name = f"{directory}/{entry.name}".lstrip("/")
                found = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(found.st_mode):
                    yield from self._directory(name, found, public)
                elif self._is_wanted(name, found, public):
                    yield name

    def private(self) -> Iterator[str]:
        """Yield the files of PRIVATE, with the directories that lead to them."""
        for pattern in PRIVATE:
            for path in self._root.glob(pattern):
                for one in [path, *(path.rglob("*") if path.is_dir() else ())]:
                    name = one.relative_to(self._root).as_posix()
                    parents = _parents(name)
                    # A link could lead to what is no part of an image.
                    linked = any((self._root / parent).is_symlink() for parent in parents)
                    if _is_file(one.lstat()) and not linked and not _matches(name, _NEVER):
                        yield name
                        yield from parents

    def _directory(self, name: str, found: os.stat_result, public: bool) -> Iterator[str]:
        """Yield a directory with what an image has of it."""
        top = name.partition("/")[0]
        inside: list[str] = []
        if top in _TREES and found.st_dev == self._device and name not in _EMPTY:
            # Who can replace an entry could put a link to a secret there, before the archive is written.
            if fault(found):
                self.foreign += [name] if top in PROGRAMS else []
            else:
                inside = list(self.below(name, public and bool(found.st_mode & 0o001)))
        if inside or name in self._packaged or name.count("/") < (_LEVELS if top in _TREES else 1):
            yield name
        yield from inside

    def _is_wanted(self, name: str, found: os.stat_result, public: bool) -> bool:
        if not _is_file(found) or _matches(name, _NEVER):
            return False
        link = stat.S_ISLNK(found.st_mode)
        top = name.partition("/")[0]
        if name == top:
            return link
        if found.st_dev != self._device:
            return False
        readable = public and (link or bool(found.st_mode & 0o004))
        if top in PROGRAMS:
            return readable or name in self._packaged
        listed = CONFIGURATION if top == "etc" else STATE
        return readable and (name in self._packaged or any(one in listed for one in (name, *_parents(name))))


def _packaged(root: Path) -> set[str]:
    """Return the names of all files and directories that the packages of the distribution brought."""
    merged = {top for top in PROGRAMS if (root / top).is_symlink()}  # /bin is /usr/bin, but packages may say /bin
    found = set()
    for path in (root / "var/lib/dpkg/info").glob("*.list"):
        for line in path.read_text(encoding="utf-8", errors="surrogateescape").splitlines():
            name = line.lstrip("/")
            found.add(f"usr/{name}" if name.partition("/")[0] in merged else name)
    return found


def _is_file(found: os.stat_result) -> bool:
    return stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode)


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _parents(name: str) -> list[str]:
    return [parent.as_posix() for parent in Path(name).parents][:-1]
