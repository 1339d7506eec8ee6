# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
Compare versions of Slurm, and determine which upgrade steps Slurm supports.

Source: SchedMD's slurm repository, doc/html/upgrades.shtml (Compatibility Window). Daemons of a major release up to
24.05 read the state of the two previous major releases. Those from 24.11 on read that of the three previous ones. Slurm
does not support a downgrade to an older major release. A downgrade within a major release often works, but Slurm does
not guarantee it, so this code refuses it too.
"""

from __future__ import annotations

import re
import typing as t

# Every major release since 20.02, in order.
SERIES = (
    (20, 2),
    (20, 11),
    (21, 8),
    (22, 5),
    (23, 2),
    (23, 11),
    (24, 5),
    (24, 11),
    (25, 5),
    (25, 11),
    (26, 5),
    (26, 11),
)
# From this release on, Slurm reads the state of three previous major releases. Older releases read that of two.
THREE_BACK_SINCE = (24, 11)

_VERSION = re.compile(r"(?:slurm(?:-wlm)?[ -])?(\d\d)[.-](\d\d)(?:[.-](\d+))?(?:[-~+.a-z0-9]*)\Z", re.IGNORECASE)


class Version(t.NamedTuple):
    """One version of Slurm, such as 24.11.5."""

    year: int
    month: int
    micro: int

    @property
    def series(self) -> tuple[int, int]:
        """Return the major release."""
        return self.year, self.month

    def __str__(self) -> str:
        """Return the version as Slurm prints it."""
        return f"{self.year}.{self.month:02}.{self.micro}"


class VersionError(ValueError):
    """A value is not a version of Slurm."""


def parse(text: t.Any) -> Version:
    """Return the version from a string such as '24.11.5', '24.11' or the output of slurmd -V."""
    match = _VERSION.match(str(text).strip())
    if not match:
        raise VersionError(f"{text!r} is no version of Slurm; expected one such as '26.05.4'")
    return Version(int(match[1]), int(match[2]), int(match[3] or 0))


def readable(series: tuple[int, int]) -> list[tuple[int, int]]:
    """Return the older major releases whose state a major release can read, the newest first."""
    back = 3 if series >= THREE_BACK_SINCE else 2
    return [other for other in _known(series) if other < series][: -back - 1 : -1]


def upgrade_problems(present: t.Any, wanted: t.Any) -> list[str]:
    """Return why Slurm cannot change from one version to another in one step. Return an empty list if it can."""
    have, want = parse(present), parse(wanted)
    if want.series < have.series or (want.series == have.series and want.micro < have.micro):
        return [
            f"Slurm {have} is present and {want} is older: Slurm does not support a step back once its daemons "
            f"have run; ask for {have} or newer"
        ]
    if want.series == have.series or have.series in readable(want.series):
        return []
    return [
        f"Slurm {want} cannot read the state of {have}: it reads that of "
        f"{', '.join(_name(series) for series in readable(want.series))} only; upgrade by way of {_way(have, want)}"
    ]


def refusal(present: t.Any, wanted: t.Any, upgrade: bool) -> str:
    """Return why this run cannot change a cluster to another release. Return an empty string if it can."""
    problems = upgrade_problems(present, wanted)
    if problems:
        return f"slurm_version: {'; '.join(problems)}. Nothing of Slurm was changed."
    have, want = parse(present), parse(wanted)
    if upgrade or have.series == want.series:
        return ""
    return (
        f"slurm_version is {want}, and the cluster has {have}: another release comes with the playbook upgrade, which"
        " saves the database and goes node by node. Run that, or set slurm_version back. Nothing of Slurm was changed."
    )


def _way(have: Version, want: Version) -> str:
    """Return the shortest path of major releases from one version to another."""
    steps: list[str] = []
    at = have.series
    while at < want.series:
        at = max(series for series in _known(want.series) if at in readable(series) and series <= want.series)
        steps.append(_name(at))
    return " and then ".join(steps)


def _known(series: tuple[int, int]) -> list[tuple[int, int]]:
    """Return the known major releases and the expected ones up to the given one: two a year, in May and November."""
    years = range(SERIES[-1][0] + 1, series[0] + 1)
    return [*SERIES, *((year, month) for year in years for month in (5, 11))]


def _name(series: tuple[int, int]) -> str:
    """Return a major release as Slurm writes it."""
    return f"{series[0]}.{series[1]:02}"
