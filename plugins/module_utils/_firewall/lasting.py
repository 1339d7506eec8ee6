# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""A table of nft that is in the kernel, on disk, and in a unit of systemd that loads it at boot."""

from __future__ import annotations

import os
import typing as t

if t.TYPE_CHECKING:
    from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host

NFT = "/usr/sbin/nft"
# Exists if a role of the collection installed the package nftables.
INSTALLED = "/var/lib/gpucluster/nftables.installed"


class FirewallError(Exception):
    """The rules could not be loaded, or did not survive their trial. The message states the effect."""


class State(t.NamedTuple):
    """What the machine has: the rules on disk, and whether kernel and systemd agree with them."""

    rules: str
    loaded: bool
    lasting: bool


class Table(t.NamedTuple):
    """A table such as C(inet gpucluster), the files that it lasts in, and the role that owns them."""

    name: str
    rules: str
    listing: str
    unit: str
    role: str
    about: str

    @property
    def files(self) -> tuple[str, ...]:
        """Return the paths of all files."""
        return (self.rules, self.listing, self.unit_file, self.dropin_file)

    @property
    def delete(self) -> str:
        """Return rules that remove the table. Adding it first lets the deletion succeed if the table is missing."""
        return f"table {self.name}\ndelete table {self.name}\n"

    @property
    def unit_file(self) -> str:
        """Return the path of the unit."""
        return f"/etc/systemd/system/{self.unit}"

    @property
    def unit_text(self) -> str:
        """Return the unit."""
        return f"""\
# Ansible managed, role hpcai.gpucluster.{self.role}
[Unit]
Description={self.about}
Wants=network-pre.target
Before=network-pre.target shutdown.target
After=nftables.service
Conflicts=shutdown.target
DefaultDependencies=no

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart={NFT} --file {self.rules}

[Install]
WantedBy=sysinit.target
"""

    @property
    def dropin_file(self) -> str:
        """Return the path of the addition to the unit of the distribution."""
        return f"/etc/systemd/system/nftables.service.d/{self.unit.removesuffix('.service')}.conf"

    @property
    def dropin_text(self) -> str:
        """Return the addition to nftables.service, whose configuration may begin with "flush ruleset"."""
        return f"""\
# Ansible managed, role hpcai.gpucluster.{self.role}
[Service]
ExecStartPost={NFT} --file {self.rules}
ExecReload={NFT} --file {self.rules}
"""

    def listed(self, host: Host) -> str:
        """Return the table as the kernel has it, without counters; an empty string without a table or nft."""
        code, out, __ = host.run([NFT, "--stateless", "list", "table", *self.name.split()])
        return "" if code else out

    def state(self, host: Host) -> State:
        """Return the present state. A machine without nft has no rules."""
        listing, rules = self.listed(host), host.read(self.rules)
        enabled = host.run(["systemctl", "is-enabled", "--quiet", self.unit])[0] == 0
        unit = host.read(self.unit_file) == self.unit_text and host.read(self.dropin_file) == self.dropin_text
        return State(rules, bool(listing) and listing == host.read(self.listing), unit and enabled)

    def keep(self, content: str, listing: str, host: Host) -> None:
        """Make rules permanent that the kernel has as I(listing)."""
        host.write(self.rules, content, 0o600)
        host.write(self.listing, listing, 0o600)
        host.write(self.unit_file, self.unit_text)
        host.write(self.dropin_file, self.dropin_text)
        require(host, ["systemctl", "daemon-reload"], "the rules are loaded, but not permanent")
        require(host, ["systemctl", "enable", "--quiet", self.unit], "the rules are loaded, but not permanent")

    def present(self, host: Host) -> bool:
        """Return whether anything of the table is on the machine."""
        return bool(self.listed(host) or any(host.read(path) for path in self.files))

    def remove(self, host: Host) -> None:
        """Remove the table from the kernel, the unit and the files."""
        if self.listed(host):
            require(host, [NFT, "delete", "table", *self.name.split()], "the table cannot be removed")
        if host.read(self.unit_file):
            host.run(["systemctl", "disable", "--now", "--quiet", self.unit])
        for path in self.files:
            host.remove(path)
        host.remove_empty(os.path.dirname(self.dropin_file))  # noqa: PTH120
        host.run(["systemctl", "daemon-reload"])


def unused(table: Table, host: Host) -> bool:
    """Return whether the collection installed nftables, and nothing needs the package without a table."""
    if not host.read(INSTALLED):
        return False
    code, out, __ = host.run([NFT, "list", "tables"])
    changed, settings, __ = host.run(["dpkg", "--verify", "nftables"])
    # Fails if another package depends on this one.
    needed = host.run(["dpkg", "--no-act", "--remove", "nftables"])[0]
    others = {line.strip() for line in out.splitlines()} - {f"table {table.name}", ""}
    return not (code or others or needed or changed or settings.strip())


def differs(content: str, found: State) -> bool:
    """Return whether the wanted rules have to be loaded or made permanent."""
    return found != State(content, True, True)


def require(host: Host, args: list[str], effect: str) -> None:
    """Run a command; raise FirewallError with its effect if it fails."""
    code, out, err = host.run(args)
    if code:
        raise FirewallError(f"{effect}: {' '.join(args)}: {err.strip() or out.strip() or f'status {code}'}")
