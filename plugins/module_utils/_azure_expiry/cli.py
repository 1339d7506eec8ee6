# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""The program gpucluster-expiry: its timer runs it, and an administrator extends or cancels the deletion with it."""

from __future__ import annotations

import argparse
import json
import sys
import time
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.bounded_run import ASK, feeding_runner
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.plain_shell import forget_habits

from . import plan
from .azure import Azure
from .notices import Notices

if t.TYPE_CHECKING:
    from collections.abc import Sequence

CONFIG = "/etc/gpucluster/azure_expiry.json"
STATE = "/var/lib/gpucluster/azure_expiry.json"
_DRIFT = 300.0  # seconds that the local clock may differ from that of Azure


class Expiry:
    """One run of the program."""

    def __init__(
        self, settings: plan.Settings, azure: Azure, notices: Notices, host: Host, say: t.Callable[[str], None]
    ) -> None:
        """All access to Azure, Slurm and files is injected."""
        self._settings = settings
        self._azure = azure
        self._notices = notices
        self._host = host
        self._say = say

    def run(self) -> int:
        """Warn, wait or delete; return the exit status."""
        self._azure.check_place()
        group, current, now = self._read()
        if group is None or group == "deleting":
            self._say("the resource group is gone" if group is None else "Azure is deleting the resource group")
            return 0
        state = self._state(now)
        step = plan.decide(self._settings, current, state, now, self._jobs())
        self._say(step.text)
        return self._act(step, current, state, now)

    def change(self, period: str) -> int:
        """Set the deletion to a period from now, or to never."""
        self._azure.check_place()
        group, _current, now = self._read()
        self._refuse_late(group)
        value = plan.NEVER if period == plan.NEVER else plan.printed(now + plan.seconds(period))
        self._azure.set_tag(plan.TAG, value)
        # A run may have started the deletion meanwhile.
        self._refuse_late(self._read()[0])
        self._remember(plan.State(self._settings.period, value))
        self._say(f"{self._settings.cluster}: the tag {plan.TAG} is now {value}")
        return self._told(self._notices.withdraw())

    @staticmethod
    def _refuse_late(group: str | None) -> None:
        if group is None or group == "deleting":
            what = "the resource group is gone" if group is None else "Azure is deleting the resource group"
            raise plan.ExpiryError(f"{what}; it is too late to change that")

    def status(self) -> int:
        """Print the time of the deletion, and change nothing."""
        _group, current, now = self._read()
        state = self._state(now)
        self._say(plan.decide(self._settings, current, state, now, self._jobs()).text)
        return 0

    def _read(self) -> tuple[str | None, str, float]:
        """Return the state of the group in lower case, the value of the tag, and the time of Azure."""
        answer = self._azure.group()
        if answer is None:
            return None, "", 0.0
        if answer.now is None:
            raise plan.ExpiryError(
                "the answer of Azure has no time, and the local clock may be wrong; nothing is deleted"
            )
        if abs(answer.now - time.time()) > _DRIFT:
            self._say(f"the local clock differs from Azure's by {time.time() - answer.now:.0f} s; Azure's counts")
        tags = answer.body.get("tags")
        owner = plan.tag(tags, plan.CLUSTER_TAG)
        if owner and owner != self._settings.cluster:
            raise plan.ExpiryError(
                f"the resource group has the tag {plan.CLUSTER_TAG}={owner}, but this is the cluster"
                f" {self._settings.cluster}; nothing is deleted"
            )
        properties = answer.body.get("properties") or {}
        return str(properties.get("provisioningState", "")).lower(), plan.tag(tags, plan.TAG), answer.now

    def _jobs(self) -> int | None:
        return self._notices.jobs() if self._settings.wait_hours > 0 else 0

    def _act(self, step: plan.Step, current: str, state: plan.State, now: float) -> int:
        """Do the step. The state is written before what depends on it, so that an interrupted run is repeated."""
        known = state.seen(self._settings.period, step.tag)
        if step.action == "delete":
            return self._delete(step, current)
        if step.action in ("warn", "wait"):
            hours = plan.announces(self._settings, known, step, now)
            self._remember(known._replace(first_warned=known.first_warned or now, hours_said=hours or known.hours_said))
            return self._told(self._notices.warn(step.text, max(step.at - now, 0.0), loud=hours > 0))
        if step.action == "set":
            if self._changed(current):
                return 0
            self._azure.set_tag(plan.TAG, step.tag)
        self._remember(plan.State(known.period, known.tag))
        return self._told(self._notices.withdraw())

    def _changed(self, tag: str) -> bool:
        """Return whether the tag changed since this run read it: somebody cancels or extends. The next run decides."""
        current = self._read()[1]
        if current != tag:
            self._say(f"{self._settings.cluster}: the tag {plan.TAG} is now {current or 'gone'}, so nothing is done")
        return current != tag

    def _delete(self, step: plan.Step, tag: str) -> int:
        """Delete the group, unless it contains something that is not of the cluster."""
        foreign = self._azure.foreign()
        if foreign:
            raise plan.ExpiryError(
                f"nothing is deleted, because the resource group contains {len(foreign)} resources without the tag"
                f" {plan.CLUSTER_TAG}={self._settings.cluster}: {', '.join(foreign[:5])}. Remove or move them, or"
                " delete the cluster with the playbook azure_down"
            )
        self._host.run(["wall", step.text])
        # The last request before the deletion: all before it takes time, in which somebody may cancel.
        if self._changed(tag):
            return self._told(self._notices.withdraw())
        self._azure.delete()
        self._say("Azure has accepted the deletion of the resource group")
        return 0

    def _state(self, now: float) -> plan.State:
        return plan.remembered(self._host.read(STATE), now)

    def _remember(self, state: plan.State) -> None:
        text = json.dumps(state._asdict())
        if text != self._host.read(STATE):
            self._host.write(STATE, text, 0o600)

    def _told(self, faults: list[str]) -> int:
        for fault in faults:
            self._say(fault)
        return 0


def read_settings(text: str, path: str) -> plan.Settings:
    """Return the configuration; raise ExpiryError if it is not usable."""
    try:
        found = json.loads(text)
        settings = plan.Settings(
            **{name: found[name] for name in plan.Settings._fields if name not in ("warn_hours", "wait_hours")},
            warn_hours=tuple(float(hours) for hours in found["warn_hours"]),
            wait_hours=float(found["wait_hours"]),
        )
    except (ValueError, KeyError, TypeError) as exc:
        raise plan.ExpiryError(f"{path} is not a valid configuration: {exc!r}") from None
    plan.seconds(settings.period)
    if not all((settings.subscription_id, settings.resource_group, settings.cluster)):
        raise plan.ExpiryError(f"{path} names no subscription, resource group or cluster")
    return settings


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="gpucluster-expiry", description="Delete this cluster in Azure at its time.")
    parser.add_argument("--config", default=CONFIG, help="configuration (%(default)s)")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("status", help="print when the cluster is deleted")
    commands.add_parser("run", help="warn, wait or delete, as the timer does")
    extend = commands.add_parser("extend", help="delete the cluster after a period from now on")
    extend.add_argument("period", help="number of days or hours, such as 7d or 12h")
    commands.add_parser("cancel", help="do not delete the cluster")
    return parser


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program and return its exit status: 0, or 1 if nothing could be done or was refused."""
    options = _parser().parse_args(argv)
    forget_habits()
    host = Host(feeding_runner(ASK))
    try:
        settings = read_settings(host.read_required(options.config), options.config)
        expiry = Expiry(settings, Azure(settings), Notices(host), host, _say)
        if options.command == "extend":
            return expiry.change(options.period)
        if options.command == "cancel":
            return expiry.change(plan.NEVER)
        return expiry.status() if options.command == "status" else expiry.run()
    except (plan.ExpiryError, OSError) as exc:
        sys.stderr.write(f"gpucluster-expiry: {exc}\n")
        return 1
