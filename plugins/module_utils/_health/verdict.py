# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""What a check can say, and how it is said."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import words

HEALTHY = "healthy"
UNHEALTHY = "unhealthy"
SUSPECT = "suspect"  # a bad sample that proves nothing yet
UNKNOWN = "unknown"  # the check could not find out
NOT_RUN = "not run"  # expected here, but the tool is missing or the node is busy
NOT_APPLICABLE = "not applicable"  # nothing is expected here, or the check is switched off

# The worst one decides the exit status of the program; where nothing applied, nothing was proved.
EXIT_STATUS = {NOT_APPLICABLE: 4, HEALTHY: 0, NOT_RUN: 4, SUSPECT: 3, UNKNOWN: 3, UNHEALTHY: 1}
_SEVERITY = [NOT_APPLICABLE, HEALTHY, NOT_RUN, SUSPECT, UNKNOWN, UNHEALTHY]
_LONGEST = 300


class UnknownError(Exception):
    """The check could not find out; the text says why."""


class ExplainedError(UnknownError):
    """The check could not find out, for a reason that another check judges; it never turns into a fault of its own."""


class NotRunError(Exception):
    """The check is called for but cannot run: a tool is missing, or somebody computes."""


class NotApplicableError(Exception):
    """Nothing is expected here; the text says why."""


class UnhealthyError(Exception):
    """A reader already saw that the node is sick; the text names expected and found."""


class Finding(t.NamedTuple):
    """What one sample of one check says."""

    status: str
    reason: str
    expected: t.Any = None
    found: t.Any = None
    keep: t.Any = None  # what the check wants to know at its next run
    explained: bool = False  # unknown for a reason that another check judges


class Verdict(t.NamedTuple):
    """What the program says about one check, samples before this one included."""

    check: str
    status: str
    reason: str
    expected: t.Any = None
    found: t.Any = None
    seconds: float = 0.0

    def line(self) -> str:
        """Return the verdict for people."""
        return f"{self.check}: {self.status}: {self.reason}"


def healthy(reason: str, found: t.Any = None, keep: t.Any = None) -> Finding:
    """Return a good sample."""
    return Finding(HEALTHY, tidy(reason), found=found, keep=keep)


def unhealthy(expected: t.Any, found: t.Any, keep: t.Any = None) -> Finding:
    """Return a bad sample; its reason names expected and found."""
    return Finding(UNHEALTHY, tidy(f"expected {expected}, found {found}"), expected, found, keep)


def unknown(reason: str, keep: t.Any = None) -> Finding:
    """Return a sample that says nothing."""
    return Finding(UNKNOWN, tidy(reason), keep=keep)


def worst(statuses: t.Iterable[str]) -> str:
    """Return the status that decides."""
    return max(statuses, key=_SEVERITY.index, default=HEALTHY)


def tidy(text: str, longest: int = _LONGEST) -> str:
    """Return one printable line of bounded length."""
    if not text.isprintable():
        text = "".join(char if char.isprintable() else " " for char in text)
    line = " ".join(text.split())
    return line if len(line) <= longest else f"{line[: longest - 3]}..."


def listing(items: t.Sequence[str], most: int = 4) -> str:
    """Return the first few items and how many more there are."""
    return words.listed(items, most)
