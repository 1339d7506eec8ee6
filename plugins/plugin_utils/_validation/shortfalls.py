# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Compare measured values with thresholds and with each other."""

from __future__ import annotations

import statistics
import typing as t
from collections.abc import Mapping

LEVELS = ("expected", "warn", "fail")
# Iglewicz and Hoaglin: a modified z score beyond 3.5 is an outlier.
_OUTLIER = 3.5
# A value less than this below the median is not an outlier, even if the others are almost equal.
_SMALLEST_GAP = 0.05


class ThresholdError(ValueError):
    """A threshold contradicts itself; the message names it."""


class Shortfall(t.NamedTuple):
    """One value that is too low; O(level) is C(warn) or C(fail)."""

    metric: str
    name: str
    measured: float | None
    level: str
    limit: float | None
    message: str


def levels(metric: str, threshold: t.Any) -> dict[str, float]:
    """Return a valid threshold; a single number means C(fail)."""
    given = {"fail": threshold} if isinstance(threshold, (int, float)) else threshold
    if not isinstance(given, Mapping) or not set(given) <= set(LEVELS):
        raise ThresholdError(f"{metric}: {threshold!r} must be a number or a mapping of {', '.join(LEVELS)}")
    checked = {name: _number(metric, name, given[name]) for name in LEVELS if given.get(name) is not None}
    ordered = list(checked.items())
    for (higher, above), (lower, below) in zip(ordered, ordered[1:]):
        if above < below:
            raise ThresholdError(f"{metric}: {higher} ({above:g}) is below {lower} ({below:g}); more is better here")
    return checked


def shortfalls(
    measured: Mapping[str, t.Any],
    thresholds: Mapping[str, t.Any],
    *,
    outliers: bool = True,
    relative: Mapping[str, float] | None = None,
) -> list[Shortfall]:
    """Return every value that is too low, worst first; empty means passed."""
    found: list[Shortfall] = []
    fractions = levels("relative", relative) if relative else {}
    checked = {metric: levels(metric, threshold) for metric, threshold in thresholds.items()}
    for metric, value in measured.items():
        values = value if isinstance(value, Mapping) else {"": value}
        for name in values:
            shortfall = _below(metric, name, values[name], checked.get(metric, {})) or _beside(
                metric, name, values, fractions, outliers
            )
            if shortfall:
                found.append(shortfall)
    return sorted(found, key=lambda item: (item.level != "fail", item.metric, item.name))


def modified_z(value: float, others: t.Sequence[float]) -> float:
    """Return the distance of a value from the median of the others, in units of their median deviation."""
    median = statistics.median(others)
    spread = statistics.median(abs(other - median) for other in others)
    return 0.6745 * (value - median) / max(spread, 0.01 * abs(median), 1e-12)


def _below(metric: str, name: str, value: t.Any, limits: Mapping[str, float]) -> Shortfall | None:
    """Return a shortfall if a value is below a fixed limit."""
    if value is None:
        return Shortfall(metric, name, None, "fail", limits.get("fail"), "nothing was measured")
    number = _number(metric, name or "measured", value)
    for level in ("fail", "warn"):
        if level in limits and number < limits[level]:
            text = f"{number:.4g} is below {limits[level]:g}"
            return Shortfall(metric, name, number, level, limits[level], text)
    return None


def _beside(
    metric: str,
    name: str,
    values: Mapping[str, t.Any],
    fractions: Mapping[str, float],
    outliers: bool,
) -> Shortfall | None:
    """Return a shortfall if a value is low compared with the others."""
    others = [float(value) for other, value in values.items() if other != name and value is not None]
    if len(others) < 2:
        return None
    number, median = float(values[name]), statistics.median(others)
    for level in ("fail", "warn"):
        if level in fractions and number < fractions[level] * median:
            text = f"{number:.4g} is less than {fractions[level]:.0%} of the median of the others, {median:.4g}"
            return Shortfall(metric, name, number, level, fractions[level] * median, text)
    if outliers and len(others) >= 3 and number < (1 - _SMALLEST_GAP) * median:
        z = modified_z(number, others)
        if z < -_OUTLIER:
            text = f"{number:.4g} is an outlier: the others have {median:.4g} (modified z {z:.1f})"
            return Shortfall(metric, name, number, "warn", median, text)
    return None


def _number(metric: str, name: str, value: t.Any) -> float:
    """Return a number, or raise an error."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ThresholdError(f"{metric}: {name} is {value!r}, but must be a number")
    try:
        return float(value)
    except ValueError:
        raise ThresholdError(f"{metric}: {name} is {value!r}, but must be a number") from None
