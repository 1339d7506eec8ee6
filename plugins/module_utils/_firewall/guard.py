# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
Load rules of nft so that a wrong rule cannot lock out the control node.

New rules are on trial: a timer of systemd restores the previous rules unless a new connection confirms them. Only
confirmed rules are written to disk, so a reboot during the trial ends it, too.
"""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._firewall import ruleset

if t.TYPE_CHECKING:
    from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host

NFT = "/usr/sbin/nft"
RULES = "/etc/gpucluster/firewall.nft"
LISTING = "/var/lib/gpucluster/firewall.listing"
TRIAL = "/run/gpucluster-firewall-trial.nft"
TRIAL_LISTING = "/run/gpucluster-firewall-trial.listing"
PREVIOUS = "/run/gpucluster-firewall-previous.nft"
ROLLBACK = "gpucluster-firewall-rollback"
UNIT = "gpucluster-firewall.service"
UNIT_FILE = f"/etc/systemd/system/{UNIT}"
UNIT_TEXT = f"""\
# Ansible managed, role hpcai.gpucluster.firewall
[Unit]
Description=Rules of the firewall of the cluster
Wants=network-pre.target
Before=network-pre.target shutdown.target
# The configuration of the distribution may begin with "flush ruleset".
After=nftables.service
Conflicts=shutdown.target
DefaultDependencies=no

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart={NFT} --file {RULES}

[Install]
WantedBy=sysinit.target
"""


class FirewallError(Exception):
    """The rules could not be loaded, or did not survive their trial. The message states the effect."""


class State(t.NamedTuple):
    """What the machine has: the rules on disk, and whether kernel and systemd agree with them."""

    rules: str
    loaded: bool
    lasting: bool


def state(host: Host) -> State:
    """Return the present state. A machine without nft has no rules."""
    listing, rules = _listing(host), host.read(RULES)
    unit = host.read(UNIT_FILE) == UNIT_TEXT and host.run(["systemctl", "is-enabled", "--quiet", UNIT])[0] == 0
    return State(rules, bool(listing) and listing == host.read(LISTING), unit)


def differs(content: str, found: State) -> bool:
    """Return whether the wanted rules have to be loaded or made permanent."""
    return found != State(content, True, True)


def load(content: str, seconds: int, host: Host) -> None:
    """Load rules on trial. After a number of seconds without confirmation, the previous rules come back."""
    previous = host.read(RULES) if _listing(host) else ""
    host.write(TRIAL, content, 0o600)
    host.write(PREVIOUS, previous or ruleset.DELETE, 0o600)
    _require(host, [NFT, "--check", "--file", TRIAL], "nft refuses the rules, and nothing was changed")
    _stop_timer(host)
    timer = ["systemd-run", f"--unit={ROLLBACK}", f"--on-active={seconds}", "--timer-property=AccuracySec=1s"]
    _require(host, [*timer, NFT, "--file", PREVIOUS], "the rollback cannot be prepared, and nothing was changed")
    try:
        _require(host, [NFT, "--file", TRIAL], "nft cannot load the rules, and nothing was changed")
    except FirewallError:
        _stop_timer(host)
        raise
    host.write(TRIAL_LISTING, _listing(host), 0o600)


def confirm(host: Host) -> None:
    """Make the rules on trial permanent, through a connection that was made after they were loaded."""
    waiting = host.run(["systemctl", "is-active", "--quiet", f"{ROLLBACK}.timer"])[0] == 0
    _stop_timer(host)
    listing = host.read(TRIAL_LISTING)
    if not waiting or not listing or listing != _listing(host):
        host.run([NFT, "--file", PREVIOUS])
        _remove_trial(host)
        raise FirewallError("no connection confirmed the rules in time, so the machine restored its previous rules")
    host.write(RULES, host.read_required(TRIAL), 0o600)
    host.write(LISTING, listing, 0o600)
    host.write(UNIT_FILE, UNIT_TEXT)
    _require(host, ["systemctl", "daemon-reload"], "the rules are loaded, but not permanent")
    _require(host, ["systemctl", "enable", "--quiet", UNIT], "the rules are loaded, but not permanent")
    _remove_trial(host)


def present(host: Host) -> bool:
    """Return whether anything of the firewall is on the machine."""
    return bool(_listing(host) or any(host.read(path) for path in (RULES, LISTING, UNIT_FILE)))


def remove(host: Host) -> None:
    """Remove the table from the kernel, the unit and the files."""
    _stop_timer(host)
    if _listing(host):
        host.write(TRIAL, ruleset.DELETE, 0o600)
        _require(host, [NFT, "--file", TRIAL], "the table cannot be removed")
    if host.read(UNIT_FILE):
        host.run(["systemctl", "disable", "--now", "--quiet", UNIT])
    for path in (RULES, LISTING, UNIT_FILE):
        host.remove(path)
    host.run(["systemctl", "daemon-reload"])
    _remove_trial(host)


def _remove_trial(host: Host) -> None:
    for path in (TRIAL, TRIAL_LISTING, PREVIOUS):
        host.remove(path)


def _stop_timer(host: Host) -> None:
    # nft loads a file in one step or not at all, so it may be killed.
    host.run(["systemctl", "stop", f"{ROLLBACK}.timer", f"{ROLLBACK}.service"])
    host.run(["systemctl", "reset-failed", f"{ROLLBACK}.timer", f"{ROLLBACK}.service"])


def _listing(host: Host) -> str:
    """Return the table as the kernel has it, without counters; an empty string without a table or nft."""
    code, out, __ = host.run([NFT, "--stateless", "list", "table", *ruleset.TABLE.split()])
    return "" if code else out


def _require(host: Host, args: list[str], effect: str) -> None:
    code, out, err = host.run(args)
    if code:
        raise FirewallError(f"{effect}: {' '.join(args)}: {err.strip() or out.strip() or f'status {code}'}")
