# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
Let a new machine join the cluster without Ansible, from a directory that the controller serves.

The directory has C(join.json), the munge key and the built packages of Slurm. Only root can read it. Each step asks the
machine first, so that an interrupted run goes on, and site.yml later finds what it would have made itself.
"""

from __future__ import annotations

import json
import re
import shlex
import typing as t
from pathlib import Path

from ansible_collections.hpcai.gpucluster.plugins.module_utils._accounts import apply as accounts_apply
from ansible_collections.hpcai.gpucluster.plugins.module_utils._accounts.lists import Defaults, parse
from ansible_collections.hpcai.gpucluster.plugins.module_utils._accounts.sudo import SudoDropIn
from ansible_collections.hpcai.gpucluster.plugins.module_utils._firewall import lasting, metadata
from ansible_collections.hpcai.gpucluster.plugins.module_utils._storage.errors import StorageError
from ansible_collections.hpcai.gpucluster.plugins.module_utils._storage.nfs_mounts import Mounts, Wanted

if t.TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host

    Settings = Mapping[str, t.Any]

SUDOERS = "/etc/sudoers.d/gpucluster-users"
_SLURMD = "/etc/default/slurmd"
MUNGE_KEY = "/etc/munge/munge.key"
PAM_SSHD, PAM_SESSION = "/etc/pam.d/sshd", "/etc/pam.d/common-session"
_BEGIN, _END = "# BEGIN hpcai.gpucluster.slurm", "# END hpcai.gpucluster.slurm"
# While it begins with these lines, a package starts no daemon. The policy of the machine stays below them.
POLICY = "/usr/sbin/policy-rc.d"
NO_START = "#!/bin/sh\nexit 101 # gpucluster-join\n"
# As the module apt of Ansible does: the files that this program wrote before stay without a question.
_KEEP = ("-o", "Dpkg::Options::=--force-confdef", "-o", "Dpkg::Options::=--force-confold")
_APT = ("apt-get", "-q", "-y", "-o", "DPkg::Lock::Timeout=300", *_KEEP)


class JoinError(Exception):
    """The machine cannot join now; the message says why. The next attempt goes on."""


def read(directory: Path) -> Settings:
    """Return the settings of the cluster."""
    try:
        return t.cast("Settings", json.loads((directory / "join.json").read_text(encoding="utf-8")))
    except (OSError, ValueError) as exc:
        raise JoinError(f"{directory}/join.json cannot be read: {exc}") from exc


def join(host: Host, directory: Path, settings: Settings, key: bytes) -> list[str]:
    """Bring the machine into the cluster and return the steps that changed it."""
    _restore_policy(host)  # of an attempt that was killed
    _refuse_another_release(host, settings["release"])
    if _is_active(host, "slurmd"):
        return []
    _refuse_missing_programs(host, settings["programs"])
    node = _elastic_node(host, directory, settings.get("elastic") or [])
    # Before the users exist, who must not get tokens of the machine.
    done = _metadata(host) if settings.get("azure_metadata") else []
    done += _accounts(host, settings["accounts"])
    done += _packages(host, ["munge", "nfs-common"] if settings["mounts"] else ["munge"])
    done += install_key(host, key)
    done += _user(host, settings["slurm"])
    done += _slurm(host, directory, settings, node)
    done += _plugins(host, directory, settings["plugins"])
    done += _pam(host, settings["pam"])
    done += _mounts(host, settings["mounts"])
    return done + start_daemons(host)


def _refuse_another_release(host: Host, release: Mapping[str, str]) -> None:
    """Refuse a machine whose distribution is not that for which Slurm was built."""
    pairs = (line.partition("=") for line in host.read("/etc/os-release").splitlines())
    found = {name: "".join(shlex.split(value)) for name, _is, value in pairs}
    for name, wanted in release.items():
        if found.get(name) != wanted:
            raise JoinError(f"this machine has {name} {found.get(name)}; the cluster's packages are for {wanted}")


def _refuse_missing_programs(host: Host, programs: Sequence[str]) -> None:
    """Refuse a machine on which jobs of this cluster would fail, such as one without enroot."""
    missing = [program for program in programs if not host.executable(program)]
    if missing:
        raise JoinError(
            f"this machine has no {', '.join(missing)}; use an image with it, or run site.yml on the machine"
        )


def _is_active(host: Host, unit: str) -> bool:
    return host.run(["systemctl", "is-active", "--quiet", unit])[0] == 0


def _metadata(host: Host) -> list[str]:
    """Let only root reach the metadata service of a machine in Azure, as the role azure_metadata does."""
    done, content = _packages(host, ["nftables"]), metadata.render([])
    if not lasting.differs(content, metadata.TABLE.state(host)):
        return done
    try:
        metadata.load(content, host)
    except lasting.FirewallError as exc:
        raise JoinError(str(exc)) from exc
    return [*done, "let only root reach the metadata service"]


def _accounts(host: Host, lists: Settings) -> list[str]:
    """Create the users and groups. Their homes and keys are on shared storage."""
    defaults = Defaults(lists["create_per_user_group"], lists["primary_group"], lists["shell"], lists["home_base"])
    accounts, problems = parse(lists["users"], lists["groups"], lists["removed"], defaults)
    if problems:
        raise JoinError("; ".join(problems))
    visudo = "/usr/sbin/visudo" if host.executable("/usr/sbin/visudo") else None
    sudo = SudoDropIn(Path(SUDOERS), host.run, visudo)
    try:
        result = accounts_apply.reconcile(accounts, defaults, host, sudo, None, {}, False)
    except accounts_apply.AccountsError as exc:
        raise JoinError(str(exc)) from exc
    return result.actions


def _packages(host: Host, names: Sequence[str], versions: Sequence[str] = ()) -> list[str]:
    """Install packages that are missing, without starting a daemon."""
    missing = [name for name in names if not _installed(host, name)]
    if not missing:
        return []
    host.write(POLICY, NO_START + host.read(POLICY), 0o755)
    try:
        environment = {"DEBIAN_FRONTEND": "noninteractive"}
        _call(host, [*_APT, "update"], None, environment)
        _call(host, [*_APT, "--no-install-recommends", "install", *(versions or missing)], None, environment)
    finally:
        _restore_policy(host)
    return [f"install {' '.join(missing)}"]


def _restore_policy(host: Host) -> None:
    present = host.read(POLICY)
    former = present.replace(NO_START, "")
    if former != present:
        host.write(POLICY, former, 0o755) if former else host.remove(POLICY)


def _installed(host: Host, name: str) -> bool:
    code, out, _err = host.run(["dpkg-query", "--show", "--showformat=${db:Status-Status}", name])
    return code == 0 and out.strip() == "installed"


def install_key(host: Host, key: bytes) -> list[str]:
    """Install the munge key. Nobody but munge can read it at any moment."""
    same = _has(host, MUNGE_KEY) and host.head(MUNGE_KEY, len(key) + 1) == key
    # The runner restores these bytes. The program install makes a file that only root can read, then changes its owner.
    # So an attempt that was killed may have left the right bytes to root.
    text = key.decode("utf-8", "surrogateescape")
    _call(host, ["install", "--owner=munge", "--group=munge", "--mode=0400", "/dev/stdin", MUNGE_KEY], text)
    return [] if same else ["install the munge key"]


def _user(host: Host, slurm: Settings) -> list[str]:
    """Create the user of Slurm's daemons, as the role slurm does."""
    if any(line.startswith("slurm:") for line in host.read("/etc/passwd").splitlines()):
        return []
    command = ["useradd", "--system", "--uid", str(slurm["uid"]), "--no-create-home"]
    details = ["--home-dir", slurm["home"], "--shell", "/usr/sbin/nologin", "--comment", "Slurm workload manager"]
    _call(host, [*command, *details, "slurm"])
    return ["create the user slurm"]


def _elastic_node(host: Host, directory: Path, names: Sequence[str]) -> str:
    """
    Return the name in Slurm of a machine of an elastic set, or an empty string if its host name is its name.

    O(names) are patterns of host names. The controller chooses a node when it sees the machine.
    """
    name = host.read("/proc/sys/kernel/hostname").strip().lower()
    if not any(re.fullmatch(pattern, name) for pattern in names):
        return ""
    for file in host.entries(f"{directory}/elastic") or []:
        try:
            found = json.loads(host.read(f"{directory}/elastic/{file}")) if file.endswith(".json") else {}
        except ValueError:
            continue
        if isinstance(found, dict) and name in found:
            return str(found[name])
    raise JoinError(f"the controller has not given {name} a node yet")


def _slurm(host: Host, directory: Path, settings: Settings, node: str) -> list[str]:
    """Install Slurm's packages from the archive of the cluster, and write the files of the role slurm."""
    slurm = settings["slurm"]
    done = []
    # The last file that is written there. An attempt that was killed left a part of the others.
    if not _has(host, f"{slurm['directory']}/.complete"):
        host.make_directory(str(Path(slurm["directory"]).parent))
        _call(host, ["tar", "--extract", "--file", str(directory / "slurm.tar"), "-C", "/var/cache", "--no-same-owner"])
        done.append("unpack Slurm")
    for file in settings["files"]:
        content = file["content"]
        if node and file["path"] == _SLURMD:
            content = content.replace('SLURMD_OPTIONS="', f'SLURMD_OPTIONS="-N {node} ')
        if not _has(host, file["path"]) or host.read(file["path"]) != content:
            host.write(file["path"], content, int(file["mode"], 8))
            done.append(f"write {file['path']}")
    names = [version.partition("=")[0] for version in slurm["packages"]]
    return done + _packages(host, names, slurm["packages"])


def _plugins(host: Host, directory: Path, paths: Sequence[str]) -> list[str]:
    """Install the plugins of the controller, which has the same Slurm: each with its line in plugstack.conf.d."""
    done = []
    for path in paths:
        source = f"{directory}/plugins{path}"
        # An attempt that was killed may have left half of it.
        if host.run(["cmp", "--quiet", source, path])[0]:
            _call(host, ["install", "-D", "--mode=0644", source, path])
            done.append(f"install {path}")
    # Only ours: a line of another package that fails, as it may at each start, must not keep the machine out.
    made = [path for path in paths if path.startswith("/etc/tmpfiles.d/")]
    if made:
        _call(host, ["systemd-tmpfiles", "--create", *made])
    return done


def _pam(host: Host, pam: Mapping[str, str]) -> list[str]:
    """Restrict ssh to users with a job, as the tasks pam.yml of the role slurm do."""
    if not pam:
        return []
    sshd, session = host.read(PAM_SSHD), host.read(PAM_SESSION)
    if _BEGIN not in sshd:
        head, line, tail = sshd.rpartition("@include common-account\n")
        if not line:
            raise JoinError(f"{PAM_SSHD} has no line '@include common-account'; run site.yml on the machine")
        sshd = f"{head}{line}{_BEGIN}\n{pam['block']}{_END}\n{tail}"
    wanted = session.replace(pam["gate"], "")
    wanted = re.sub(r"(?m)^-?session\s.*\bpam_systemd\.so", lambda found: pam["gate"] + found[0], wanted)
    changed = {PAM_SSHD: sshd, PAM_SESSION: wanted}
    paths = [path for path, text in changed.items() if host.read(path) != text]
    for path in paths:
        host.write(path, changed[path])
    return [f"write {path}" for path in paths]


def _has(host: Host, path: str) -> bool:
    directory, _slash, name = path.rpartition("/")
    return name in (host.entries(directory) or [])


def _mounts(host: Host, entries: Sequence[Settings]) -> list[str]:
    """Mount the shared directories, as the module nfs_mounts does."""
    if not entries:
        return []
    wanted = [Wanted(**{**entry, "options": tuple(entry["options"])}) for entry in entries]
    mounts = Mounts(host, seconds=30)
    try:
        mounts.refuse(wanted)
        why = mounts.support(wanted) or mounts.unreachable(wanted)
        if why:
            raise JoinError(why)
        plan = mounts.plan(wanted)
        if not plan.needed:
            return []
        mounts.refuse_loss(plan)
        mounts.apply(plan, wanted)
    except StorageError as exc:
        raise JoinError(str(exc)) from exc
    return [f"mount {entry.path}" for entry in plan.mount]


def start_daemons(host: Host) -> list[str]:
    """Start munge and slurmd, now and at boot."""
    _call(host, ["systemctl", "daemon-reload"])
    for unit in ("munge", "slurmd"):
        _call(host, ["systemctl", "enable", "--quiet", unit])
        _call(host, ["systemctl", "restart", unit])
    return ["start munge and slurmd"]


def _call(
    host: Host, argv: Sequence[str], data: str | None = None, environment: Mapping[str, str] | None = None
) -> None:
    code, out, err = host.run(list(argv), data, environment)
    if code:
        raise JoinError(f"'{' '.join(argv)}' exited {code}: {(out + err).strip()[-2000:]}")
