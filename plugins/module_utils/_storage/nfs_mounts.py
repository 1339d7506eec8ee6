# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Configure the network mounts of a machine: fstab, systemd units and mounted file systems."""

from __future__ import annotations

import json
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._storage import fstab, nfs_support
from ansible_collections.hpcai.gpucluster.plugins.module_utils._storage.errors import StorageError

if t.TYPE_CHECKING:
    from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host

FSTAB = "/etc/fstab"
MOUNTINFO = "/proc/self/mountinfo"
# Mount points whose line in fstab is newer than the mount. A boot removes the file and applies the lines.
PENDING = "/run/gpucluster-nfs-pending.json"
PORTS = {"nfs": 2049, "nfs4": 2049, "lustre": 988}
# Options that the kernel can change on a mount in use. All others need a new mount.
REMOUNTABLE = {"ro", "rw", "atime", "noatime", "relatime", "suid", "nosuid", "dev", "nodev", "exec", "noexec"}
UMOUNT_SECONDS = 30
DRAIN = "drain the machine and run again, or boot it"


class Wanted(t.NamedTuple):
    """The wanted state of one mount."""

    path: str
    source: str
    type: str
    options: tuple[str, ...]
    hide: bool = False

    @property
    def line(self) -> fstab.Line:
        """Return the line of fstab."""
        return fstab.Line(self.source, self.path, self.type, ",".join(self.options))

    @property
    def server(self) -> str:
        """Return the name or address of the server; the first one if there are several."""
        return self._address[0]

    @property
    def probed(self) -> bool:
        """Return whether the server listens on a TCP port. Lustre over InfiniBand does not."""
        return self._address[1].startswith("tcp")

    @property
    def _address(self) -> tuple[str, str]:
        name = self.source.rpartition(":/")[0]
        if self.type != "lustre":
            return name.strip("[]"), "tcp"
        address, _at, network = name.split(":")[0].split(",")[0].partition("@")
        return address, network or "tcp"


class Plan(t.NamedTuple):
    """The planned changes."""

    fstab_before: str
    fstab_after: str
    directories: list[str]  # mount points to create
    leave: list[str]  # mount points to unmount permanently
    renew: list[str]  # existing mounts whose options changed
    mount: list[Wanted]  # mounts to add, parents first

    @property
    def needed(self) -> bool:
        """Return whether the plan contains changes."""
        differs = self.fstab_before != self.fstab_after
        return bool(differs or self.directories or self.leave or self.renew or self.mount)


class Mounts:
    """The network mounts of one host."""

    def __init__(self, host: Host, seconds: float = 10) -> None:
        self._host = host
        self._seconds = seconds
        self._table = fstab.Table(host.read(FSTAB), "nfs")
        self._live = fstab.mounted(host.read(MOUNTINFO))
        self._waiting = fstab.waiting(host.read(MOUNTINFO))
        self._pending: list[str] = json.loads(host.read(PENDING) or "[]")

    # ---- checks before any change

    def refuse(self, wanted: list[Wanted]) -> None:
        """Raise StorageError for the first mount that would hide or replace something that Ansible does not manage."""
        for mount in wanted:
            other = self._table.others().get(mount.path)
            if other and other.type not in PORTS:
                raise StorageError(
                    f"{mount.path}: {FSTAB} mounts {other.source} ({other.type}) there already; "
                    "remove that line or choose another path"
                )
            live = self._live.get(mount.path)
            if live and live.type not in PORTS:
                raise StorageError(
                    f"{mount.path}: {live.source} ({live.type}) is mounted there; unmount it or choose another path"
                )
            if not live and not mount.hide:
                self._refuse_full(mount, wanted)

    def _refuse_full(self, mount: Wanted, wanted: list[Wanted]) -> None:
        # Never read a directory on a mount that may hang. The content below another mount belongs to the server.
        if mount.path in self._table.own() or any(mount.path.startswith(f"{other.path}/") for other in wanted):
            return
        names = [name for name in self._host.entries(mount.path) or [] if name != "lost+found"]
        if names:
            shown = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
            raise StorageError(
                f"{mount.path}: the mount point is not empty, it holds {shown}; move that away, choose another path, "
                "or set hide: true for this mount if the server has the same directories"
            )

    def unreachable(self, wanted: list[Wanted]) -> str:
        """Return the servers that do not answer and the mounts that need them. Return an empty string if all answer."""
        faults = []
        for server, kind in dict.fromkeys((mount.server, mount.type) for mount in wanted if mount.probed):
            why = self._host.connect(server, PORTS[kind], self._seconds)
            if why:
                paths = ", ".join(mount.path for mount in wanted if mount.server == server)
                faults.append(f"the server {server} of {paths} cannot be reached within {self._seconds:g} s ({why})")
        return "; ".join(faults)

    def support(self, wanted: list[Wanted], load: bool = True) -> str:
        """Return why this machine does not support a wanted mount. Return an empty string if it supports all."""
        for kind in dict.fromkeys(mount.type for mount in wanted):
            why = nfs_support.missing(self._host, kind, load)
            if why:
                return why
        return ""

    def refuse_loss(self, plan: Plan) -> None:
        """Raise StorageError if a mount would hide files that the server lacks, such as the home of the login user."""
        for mount in plan.mount:
            if mount.hide and mount.path not in self._waiting:
                self._refuse_loss(mount)

    def _refuse_loss(self, mount: Wanted) -> None:
        names = set(self._host.entries(mount.path) or []) - {"lost+found"}
        if not names:
            return
        aside = f"/run/gpucluster-mount-{fstab.unit_name(mount.path, 'look')}"
        self._host.make_directory(aside)
        options = ",".join(word for word in mount.options if not word.startswith(("x-", "_netdev", "nofail")))
        self._call("mount", "-t", mount.type, "-o", f"{options},ro", mount.source, aside)
        try:
            missing = sorted(names - set(self._host.entries(aside) or []))
        finally:
            self._call("umount", aside)
        if missing:
            raise StorageError(
                f"{mount.path}: {mount.source} would hide {', '.join(missing[:5])}, which it does not hold itself; "
                "copy that to the server or choose another path"
            )

    # ---- plan

    def plan(self, wanted: list[Wanted]) -> Plan:
        """Compare fstab and the existing mounts with the wanted mounts."""
        own = self._table.own()
        ordered = sorted(wanted, key=lambda mount: mount.path.count("/"))
        paths = {mount.path for mount in wanted}
        leave = [path for path in sorted(own, reverse=True) if path not in paths]
        in_place = [mount.path for mount in ordered if mount.path in self._live]
        renew = [mount.path for mount in ordered if mount.path in in_place and self._outdated(mount, own)]
        return Plan(
            fstab_before=self._host.read(FSTAB),
            fstab_after=self._table.text([mount.line for mount in ordered], adopted=paths),
            directories=[
                mount.path
                for mount in ordered
                if mount.path not in [*own, *in_place] and self._host.entries(mount.path) is None
            ],
            leave=leave,
            renew=renew,
            mount=[mount for mount in ordered if mount.path not in in_place and not self._ready(mount, own)],
        )

    def _ready(self, mount: Wanted, own: dict[str, fstab.Line]) -> bool:
        """Return whether the first access will mount it with the wanted options, as after a boot."""
        return mount.path in self._waiting and own.get(mount.path) == mount.line and mount.path not in self._pending

    def _outdated(self, mount: Wanted, own: dict[str, fstab.Line]) -> bool:
        return (
            own.get(mount.path) != mount.line
            or mount.path in self._pending
            or self._live[mount.path].source != mount.source
        )

    # ---- apply

    def apply(self, plan: Plan, wanted: list[Wanted]) -> tuple[bool, list[str]]:
        """Apply a plan. Return whether anything changed, and what must wait until the machine is drained."""
        own = self._table.own()
        stuck = [path for path in plan.leave if not self._unmount(path)]
        lines = [*(mount.line for mount in wanted_order(wanted)), *(own[path] for path in stuck)]
        self._write(lines, {mount.path for mount in wanted})
        for path in plan.directories:
            self._host.make_directory(path)
        by_path = {mount.path: mount for mount in wanted}
        late = [path for path in reversed(plan.renew) if not self._renew(by_path[path], own.get(path))]
        renewed = [by_path[path] for path in plan.renew if path not in late]
        # If this fails, the next run tries again, although autofs is active by then.
        self._remember([*late, *(mount.path for mount in [*renewed, *plan.mount])])
        self._mount_all([*renewed, *plan.mount])
        late += self._old_connections(wanted, late)
        self._remember(late)
        changed = plan.fstab_before != self._table.text(lines, set(by_path)) or len(stuck) < len(plan.leave)
        waiting = [f"{path}: no longer wanted, but in use" for path in stuck]
        waiting += [f"{path}: in use with its former options" for path in late]
        changed = bool(changed or plan.directories or plan.mount or renewed)
        return changed, [f"{why}; {DRAIN}" for why in waiting]

    def _write(self, lines: list[fstab.Line], adopted: set[str]) -> None:
        text = self._table.text(lines, adopted)
        if text != self._host.read(FSTAB):
            self._host.write(FSTAB, text)
            self._call("systemctl", "daemon-reload")

    def _renew(self, mount: Wanted, before: fstab.Line | None) -> bool:
        """Apply new options to an existing mount. Return False if it is in use and the options need a new mount."""
        if self._unmount(mount.path, stop_automount=False):
            return True
        flags = _new_flags(before, mount) if self._live[mount.path].source == mount.source else []
        if not flags:
            return False
        rc, _out, _err = self._host.run(["mount", "-o", ",".join(["remount", *flags]), mount.source, mount.path])
        return rc == 0

    def _unmount(self, path: str, stop_automount: bool = True) -> bool:
        if path in self._live:
            rc, _out, _err = self._host.run(["timeout", str(UMOUNT_SECONDS), "umount", "--no-canonicalize", path])
            if rc != 0:
                return False
        if stop_automount:
            self._host.run(["systemctl", "stop", fstab.unit_name(path, "automount")])
        return True

    def _mount_all(self, mounts: list[Wanted]) -> None:
        now = fstab.mounted(self._host.read(MOUNTINFO))
        todo = sorted((mount for mount in mounts if mount.path not in now), key=lambda mount: mount.path.count("/"))
        for mount in todo:
            if "x-systemd.automount" in mount.options:
                self._call("systemctl", "start", fstab.unit_name(mount.path, "automount"))
            self._start(mount)

    def _start(self, mount: Wanted) -> None:
        unit = fstab.unit_name(mount.path, "mount")
        rc, _out, err = self._host.run(["systemctl", "start", unit])
        if rc != 0:
            _rc, journal, _err = self._host.run(
                ["journalctl", "--unit", unit, "--lines", "4", "--output", "cat", "--no-pager"]
            )
            reason = "; ".join(line.strip() for line in (journal or err).splitlines() if line.strip())
            raise StorageError(f"{mount.path}: {mount.source} could not be mounted: {reason}")

    def _old_connections(self, wanted: list[Wanted], late: list[str]) -> list[str]:
        """Return the mounts whose nconnect differs, because another mount of their server is in use."""
        now = fstab.mounted(self._host.read(MOUNTINFO))
        return [
            mount.path
            for mount in wanted
            for option in mount.options
            if option.startswith("nconnect=")
            and mount.path not in late
            and mount.path in now
            and _nconnect(now[mount.path]) != option
        ]

    def _remember(self, late: list[str]) -> None:
        if late:
            self._host.write(PENDING, json.dumps(sorted(late)), mode=0o600)
        else:
            self._host.remove(PENDING)

    def _call(self, *args: str) -> None:
        rc, out, err = self._host.run(list(args))
        if rc != 0:
            raise StorageError(f"{' '.join(args)} exited {rc}: {(err or out).strip()}")


def wanted_order(wanted: list[Wanted]) -> list[Wanted]:
    """Return the mounts sorted so that parents come first."""
    return sorted(wanted, key=lambda mount: mount.path.count("/"))


def _nconnect(live: fstab.Mounted) -> str:
    # The kernel does not print nconnect=1.
    return next((option for option in live.options if option.startswith("nconnect=")), "nconnect=1")


def _new_flags(before: fstab.Line | None, mount: Wanted) -> list[str]:
    """Return the flags to set if only flags changed, otherwise an empty list."""
    if before is None or (before.source, before.type) != (mount.source, mount.type):
        return []
    old, new = set(before.options.split(",")), set(mount.options)
    if not (old ^ new) <= REMOUNTABLE:
        return []
    # The opposite flag resets a flag that is no longer listed.
    opposite = {"ro": "rw", "noatime": "relatime", "nosuid": "suid", "nodev": "dev", "noexec": "exec"}
    return sorted(
        (new - old) | {opposite[flag] for flag in old - new if flag in opposite and opposite[flag] not in new}
    )


def diff(plan: Plan) -> dict[str, str]:
    """Return fstab before and after the change, for diff mode."""
    return {"before_header": FSTAB, "after_header": FSTAB, "before": plan.fstab_before, "after": plan.fstab_after}
