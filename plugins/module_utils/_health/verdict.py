# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Results of checks: statuses, exceptions, findings and verdicts."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import words

HEALTHY = "healthy"
UNHEALTHY = "unhealthy"
SUSPECT = "suspect"  # a bad sample, not yet confirmed by others
UNKNOWN = "unknown"  # the check could not determine the state
NOT_RUN = "not run"  # expected here, but the tool is missing or the node is busy
NOT_APPLICABLE = "not applicable"  # nothing is expected here, or the check is disabled

# The worst status decides the exit status of the program. A run in which no check applies is not a success.
EXIT_STATUS = {NOT_APPLICABLE: 4, HEALTHY: 0, NOT_RUN: 4, SUSPECT: 3, UNKNOWN: 3, UNHEALTHY: 1}
_SEVERITY = [NOT_APPLICABLE, HEALTHY, NOT_RUN, SUSPECT, UNKNOWN, UNHEALTHY]
_LONGEST = 300


class UnknownError(Exception):
    """The check could not determine the state; the message states the reason."""


class ExplainedError(UnknownError):
    """The check could not determine the state for a reason that another check reports; it never becomes a fault."""


class NotRunError(Exception):
    """The check applies but cannot run: a tool is missing, or the GPUs are in use."""


class NotApplicableError(Exception):
    """Nothing is expected here; the message states the reason."""


class UnhealthyError(Exception):
    """A reader found the node unhealthy; the message names expected and found values."""


class Finding(t.NamedTuple):
    """Result of one sample of one check."""

    status: str
    reason: str
    expected: t.Any = None
    found: t.Any = None
    keep: t.Any = None  # state for the next run of the check
    explained: bool = False  # unknown for a reason that another check reports


class Verdict(t.NamedTuple):
    """Result of one check, with its earlier samples taken into account."""

    check: str
    status: str
    reason: str
    expected: t.Any = None
    found: t.Any = None
    seconds: float = 0.0

    def line(self) -> str:
        """Return the verdict as one readable line."""
        return f"{self.check}: {self.status}: {self.reason}"


def healthy(reason: str, found: t.Any = None, keep: t.Any = None) -> Finding:
    """Return a good sample."""
    return Finding(HEALTHY, tidy(reason), found=found, keep=keep)


def unhealthy(expected: t.Any, found: t.Any, keep: t.Any = None) -> Finding:
    """Return a bad sample; its reason names expected and found values."""
    return Finding(UNHEALTHY, tidy(f"expected {expected}, found {found}"), expected, found, keep)


def unknown(reason: str, keep: t.Any = None) -> Finding:
    """Return an unknown sample."""
    return Finding(UNKNOWN, tidy(reason), keep=keep)


def worst(statuses: t.Iterable[str]) -> str:
    """Return the most severe status."""
    return max(statuses, key=_SEVERITY.index, default=HEALTHY)


def tidy(text: str, longest: int = _LONGEST) -> str:
    """Return one printable line of bounded length."""
    if not text.isprintable():
        text = "".join(char if char.isprintable() else " " for char in text)
    line = " ".join(text.split())
    return line if len(line) <= longest else f"{line[: longest - 3]}..."


def listing(items: t.Sequence[str], most: int = 4) -> str:
    """Return the first items and the number of the others."""
    return words.listed(items, most)
