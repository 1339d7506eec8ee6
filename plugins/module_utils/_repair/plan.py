# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""The loop: which step comes next for a node in repair. Pure functions; steps.py does what they decide."""

from __future__ import annotations

import typing as t

from . import journal, ladder

if t.TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from . import states

# Each mode does what the ones before it do.
MODES = ("observe", "capture", "propose", "act")
CLAIM, CAPTURE, HEALTH, PAIR, RETURN, OUT, PARK = "claim", "capture", "health", "pair", "return", "out", "park"
_CAPTURES = 3  # failed captures after which the node stays drained
NOT_RUN = "not run:"
_LONGEST = 240


class Settings(t.NamedTuple):
    """The configuration of the program."""

    mode: str
    max_nodes: str  # a number, or a share such as 5%
    directory: str
    rules: Sequence[Mapping[str, t.Any]]
    check_set: str = "fast"
    pair: bool = True
    pair_command: Sequence[str] = ()
    pair_wait_minutes: float = 60
    reboot_minutes: float = 30
    returns_max: int = 3
    returns_days: float = 7
    webhook: str = ""
    elastic: Sequence[str] = ()  # elastic nodes


class SettingsError(Exception):
    """The configuration is not usable."""


def limit(text: str, nodes: int) -> int:
    """Return how many nodes may be in repair at a time: a number or a share of all nodes, and at least 1."""
    share = text.strip()
    try:
        value = float(share.rstrip("%"))
    except ValueError:
        raise SettingsError(f"max_nodes is {text!r}, not a number or a share such as 5%") from None
    if value < 0 or (share.endswith("%") and value > 100):
        raise SettingsError(f"max_nodes is {text!r}")
    return max(1, int(nodes * value / 100) if share.endswith("%") else int(value))


def known(node: states.Node, settings: Settings) -> bool:
    """Return whether the program may use a node: of those with power saving, only the elastic ones."""
    return not node.cloud or node.name in settings.elastic


def mode(case: journal.Case, settings: Settings) -> str:
    """Return what may be done with a node: a mode that was set back counts at once."""
    return min(case.mode, settings.mode, key=MODES.index)


def next_step(case: journal.Case, settings: Settings, person: bool) -> str:
    """Return the next step of a case. I(person) means that the node needs a person, whatever the ladder says."""
    if case.begun:
        return case.begun
    first = _first_steps(case, settings)
    if first:
        return first
    last = case.tried[-1]
    if last.step in (HEALTH, PAIR, RETURN):
        return _after_validation(case, last, settings)
    if last.ok and last.step != CAPTURE:
        return HEALTH
    return OUT if person else _next_rung(case, settings)


def _first_steps(case: journal.Case, settings: Settings) -> str:
    """Return the steps before the ladder: nothing is repaired before it was captured."""
    if case.ended(CLAIM) is None:
        return CLAIM
    allowed = mode(case, settings)
    if allowed == "observe":
        return PARK
    captured = case.ended(CAPTURE)
    if captured is None or not captured.ok:
        tries = sum(one.step == CAPTURE for one in case.tried)
        return CAPTURE if tries < _CAPTURES else OUT
    return "" if allowed == "act" else PARK


def _after_validation(case: journal.Case, last: journal.Tried, settings: Settings) -> str:
    if last.step == RETURN:
        return RETURN if last.ok else HEALTH
    if last.ok:
        return PAIR if last.step == HEALTH and settings.pair else RETURN
    # Without a partner nothing was proved, and a further repair would not change that.
    return OUT if last.text.startswith(NOT_RUN) else _next_rung(case, settings)


def _next_rung(case: journal.Case, settings: Settings) -> str:
    tried = {one.step for one in case.tried}
    steps = ladder.plan(case.reason, settings.rules).steps
    return next((step for step in steps if step not in tried), OUT)


def tried(case: journal.Case) -> str:
    """Return what was tried, in words."""
    done = [
        one
        for one in case.tried
        if one.step in (ladder.GPU_RESET, ladder.REBOOT, HEALTH, PAIR) or one.step.startswith(ladder.SERVICE)
    ]
    return ", ".join(f"{one.step}{'' if one.ok else ' failed'}" for one in done) or "nothing"


def reason(text: str, original: str, leader: str) -> str:
    """Return the reason of the drain of a node in repair: what happens, and the fault."""
    line = f"{leader} {text}: {original}".replace('"', "'")
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}..."
