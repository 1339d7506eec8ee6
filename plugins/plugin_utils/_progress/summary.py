# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This package is PRIVATE to the collection. It may change or vanish at any time.
"""What a person reads after a run: what changed on which machines, the slowest tasks, and why machines failed."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import words

from .._slurm import hostlist
from . import text

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .last_run import Step

MOST_GROUPS = 20
MOST_FAILED = 40
MOST_TASKS = 8
MOST_SLOW = 5
# A run that took less has no slow tasks worth a line.
SLOW_RUN = 10.0
_WIDTH = 200
_SAYS_NOTHING = (
    *("non-zero return code", "MODULE FAILURE", "Module result deserialization failed"),
    *("One or more items failed", "All items completed"),
)


def reason(result: Mapping[str, t.Any]) -> str:
    """Return the one line that says why a task failed."""
    for item in result.get("results") or []:
        if isinstance(item, dict) and (item.get("failed") or item.get("unreachable")):
            return reason(item)
    said = [str(result[name]) for name in ("msg", "censored", "assertion", "reason") if result.get(name)]
    if not said or said[0].startswith(_SAYS_NOTHING):
        printed = [_last_line(result.get(name)) for name in ("stderr", "module_stderr", "stdout", "module_stdout")]
        said = [line for line in printed if line] + said
    return text.plain(said[0] if said else "no reason given", _WIDTH)


def _last_line(printed: t.Any) -> str:
    lines = [line for line in str(printed or "").splitlines() if line.strip()]
    return lines[-1] if lines else ""


def lines(
    steps: list[Step],
    seconds: float,
    machines: int,
    changed: Mapping[str, Iterable[int]],
    failed: Mapping[str, str],
) -> list[str]:
    """
    Return the summary.

    C(changed) has for each machine the places of its tasks in C(steps), and C(failed) the task and the reason.
    No line looks like one that Ansible prints, so programs that read Ansible's output are not confused.
    """
    head = f"Summary: {text.count(len(steps), 'task')} in {text.duration(seconds)} on {text.count(machines, 'machine')}"
    some = {host: places for host, places in changed.items() if places}
    unchanged = machines - len(some)
    if not some:
        head += "; nothing changed"
    elif unchanged > 0:
        head += f"; {unchanged} unchanged"
    return [f"{head}.", *_changes(steps, some), *(_slowest(steps) if seconds >= SLOW_RUN else []), *_failures(failed)]


def _changes(steps: list[Step], changed: Mapping[str, Iterable[int]]) -> list[str]:
    """Return a line for each group of machines on which the same tasks changed something."""
    groups: dict[tuple[int, ...], list[str]] = {}
    for host, places in changed.items():
        groups.setdefault(tuple(dict.fromkeys(places)), []).append(host)
    found = []
    for places, hosts in groups.items():
        tasks = list(dict.fromkeys(text.plain(steps[place].name, 60) for place in places))
        found.append(
            f"  changed {names(hosts)}: {text.count(len(places), 'task')}: {words.listed(tasks, most=MOST_TASKS)}"
        )
    return _most(found, MOST_GROUPS, "groups of machines that changed")


def _slowest(steps: list[Step]) -> list[str]:
    slow = sorted(steps, key=lambda step: -step.seconds)[:MOST_SLOW]
    return [f"  slow {text.duration(step.seconds)}: {text.plain(step.name, 80)}" for step in slow if step.seconds >= 1]


def _failures(failed: Mapping[str, str]) -> list[str]:
    groups: dict[str, list[str]] = {}
    for host, why in failed.items():
        groups.setdefault(why, []).append(host)
    found = [f"  failed {names(hosts)}: {why}" for why, hosts in groups.items()]
    return _most(found, MOST_FAILED, "reasons")


def _most(found: list[str], most: int, what: str) -> list[str]:
    left = words.more(found, most)
    return [*found[:most], *([f"  {left} {what}"] if left else [])]


def names(hosts: list[str]) -> str:
    """Return host names as C(gpu[1-64]) where that is possible, and never more than a line of them."""
    try:
        found = hostlist.compress(hosts)
    except hostlist.HostlistError:
        found = ", ".join(hosts)
    return text.plain(found, 100)
