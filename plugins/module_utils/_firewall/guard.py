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

from ansible_collections.hpcai.gpucluster.plugins.module_utils._firewall import lasting, ruleset
from ansible_collections.hpcai.gpucluster.plugins.module_utils._firewall.lasting import NFT, FirewallError, require

if t.TYPE_CHECKING:
    from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host

FIREWALL = lasting.Table(
    name=ruleset.TABLE,
    rules="/etc/gpucluster/firewall.nft",
    listing="/var/lib/gpucluster/firewall.listing",
    unit="gpucluster-firewall.service",
    role="firewall",
    about="Rules of the firewall of the cluster",
)
TRIAL = "/run/gpucluster-firewall-trial.nft"
TRIAL_LISTING = "/run/gpucluster-firewall-trial.listing"
PREVIOUS = "/run/gpucluster-firewall-previous.nft"
ROLLBACK = "gpucluster-firewall-rollback"


def load(content: str, seconds: int, host: Host) -> None:
    """Load rules on trial. After a number of seconds without confirmation, the previous rules come back."""
    previous = host.read(FIREWALL.rules) if FIREWALL.listed(host) else ""
    host.write(TRIAL, content, 0o600)
    host.write(PREVIOUS, previous or ruleset.DELETE, 0o600)
    require(host, [NFT, "--check", "--file", TRIAL], "nft refuses the rules, and nothing was changed")
    _stop_timer(host)
    timer = ["systemd-run", f"--unit={ROLLBACK}", f"--on-active={seconds}", "--timer-property=AccuracySec=1s"]
    require(host, [*timer, NFT, "--file", PREVIOUS], "the rollback cannot be prepared, and nothing was changed")
    try:
        require(host, [NFT, "--file", TRIAL], "nft cannot load the rules, and nothing was changed")
    except FirewallError:
        _stop_timer(host)
        raise
    host.write(TRIAL_LISTING, FIREWALL.listed(host), 0o600)


def confirm(host: Host) -> None:
    """Make the rules on trial permanent, through a connection that was made after they were loaded."""
    waiting = host.run(["systemctl", "is-active", "--quiet", f"{ROLLBACK}.timer"])[0] == 0
    _stop_timer(host)
    listing = host.read(TRIAL_LISTING)
    if not waiting or not listing or listing != FIREWALL.listed(host):
        host.run([NFT, "--file", PREVIOUS])
        _remove_trial(host)
        raise FirewallError("no connection confirmed the rules in time, so the machine restored its previous rules")
    FIREWALL.keep(host.read_required(TRIAL), listing, host)
    _remove_trial(host)


def remove(host: Host) -> None:
    """Remove the table from the kernel, the unit and the files."""
    _stop_timer(host)
    FIREWALL.remove(host)
    _remove_trial(host)


def _remove_trial(host: Host) -> None:
    for path in (TRIAL, TRIAL_LISTING, PREVIOUS):
        host.remove(path)


def _stop_timer(host: Host) -> None:
    # nft loads a file in one step or not at all, so it may be killed.
    host.run(["systemctl", "stop", f"{ROLLBACK}.timer", f"{ROLLBACK}.service"])
    host.run(["systemctl", "reset-failed", f"{ROLLBACK}.timer", f"{ROLLBACK}.service"])
