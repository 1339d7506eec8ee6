# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""The ladder: which check leads to which steps. The rules are data (roles/repair/files/ladder.yml)."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._health import leftovers, marker

if t.TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Rule = Mapping[str, t.Any]

# From the smallest step to the largest.
ORDER = SERVICE, GPU_RESET, REBOOT = "service", "gpu_reset", "reboot"
_ALLOWED = "service NAME, gpu_reset and reboot; no step at all means that the node needs a person"
PREFIX = "Resource.Hpc.Unhealthy."
_FOUND = re.compile(r"\bfound (.*?)(?=; |$)")
_XID = re.compile(r"\bXid (\d+)")
# Users name their processes, and a name must not look like an Xid.
_PROCESSES = re.compile(rf"expected {leftovers.EXPECTED}, found [^;]*")


class LadderError(Exception):
    """The rules are not usable; the message names the rule."""


class Plan(t.NamedTuple):
    """What follows from a reason: the steps in their order, and Azure's categories of the fault."""

    steps: tuple[str, ...]
    categories: tuple[str, ...]


def plan(reason: str, rules: Sequence[Rule]) -> Plan:
    """
    Return the steps for a reason.

    Several faults share one ladder. It starts at the largest first step, because that step includes the smaller ones. A
    fault without steps needs a person, whatever the others need.
    """
    rules_found = [rule for name in marker.named(reason) or ["*"] for rule in _rules(name, reason, rules)]
    categories = tuple(dict.fromkeys(PREFIX + str(rule["category"]) for rule in rules_found))
    if not all(rule["steps"] for rule in rules_found):
        return Plan((), categories)
    start = max((rank(rule["steps"][0]) for rule in rules_found), default=0)
    steps = dict.fromkeys(step for rule in rules_found for step in rule["steps"] if rank(step) >= start)
    return Plan(tuple(sorted(steps, key=rank)), categories)


def rank(step: str) -> int:
    """Return the place of a step between the smallest and the largest one."""
    return ORDER.index(step.partition(" ")[0])


def check_rules(rules: Sequence[Rule]) -> None:
    """Raise LadderError if a rule is not usable."""
    for number, rule in enumerate(rules, 1):
        try:
            names = {"check": str, "steps": list, "category": str, "source": str}
            wrong = [name for name, kind in names.items() if not isinstance(rule.get(name), kind)]
            if wrong:
                raise LadderError(f"rule {number} has no usable {', '.join(wrong)}")
            strange = [step for step in rule["steps"] if step.partition(" ")[0] not in ORDER]
            if strange:
                raise LadderError(f"rule {number}: found the step {strange[0]!r}; allowed: {_ALLOWED}")
            ranks = [rank(step) for step in rule["steps"]]
            re.compile(rule.get("match", ""))
        except (ValueError, AttributeError, re.error) as exc:
            raise LadderError(f"rule {number}: {exc}") from None
        if ranks != sorted(ranks):
            raise LadderError(f"rule {number}: a smaller step follows a larger one")


def found(reason: str) -> str:
    """Return the values that the checks found; the expected values of a reason contain the same words."""
    return "; ".join(_FOUND.findall(reason)) or reason


def _rules(name: str, reason: str, rules: Sequence[Rule]) -> list[Rule]:
    """Return one rule of a check, or one for each Xid of the reason."""
    if name != "leftovers":
        reason = _PROCESSES.sub("", reason)
    if name == "gpu_xid":
        numbers = dict.fromkeys(int(number) for number in _XID.findall(reason))
        by_number = [_first(name, reason, rules, number) for number in numbers]
        if by_number:
            return by_number
    return [_first(name, reason, rules, None)]


def _first(name: str, reason: str, rules: Sequence[Rule], xid: int | None) -> Rule:
    for wanted in (name, "*"):
        for rule in rules:
            if rule["check"] == wanted and _applies(rule, reason, xid):
                return rule
    return {"check": "*", "steps": [], "category": "ManualInvestigation"}


def _applies(rule: Rule, reason: str, xid: int | None) -> bool:
    if "xid" in rule:
        return xid in rule["xid"] and re.search(rule.get("match", ""), found(reason), re.IGNORECASE) is not None
    # The events of switches are named SXid; a rule for them is no rule for the Xid of a GPU.
    return re.search(rule.get("match", ""), found(reason), re.IGNORECASE) is not None and (
        xid is None or "match" not in rule or "sxid" not in str(rule["match"]).lower()
    )
