# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
Plot the figures of a report as SVG in the page. The style of the page sets the colours for screen, dark mode and paper.

The size of a plot is limited: many good lines become a band, and many pairs become a curve.
"""

from __future__ import annotations

import math
import statistics
import typing as t
from html import escape

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import words

Line = t.Mapping[str, t.Any]
Levels = t.Mapping[str, float]

_WIDTH, _HEIGHT = 480, 290
_LEFT, _RIGHT, _TOP, _BOTTOM = 50, 14, 30, 44
_SINGLE, _BAD = 16, 12  # maximum numbers of good lines and of bad lines that are drawn separately
_NODES, _POINTS = 40, 200
_WORDS = {"expected": "expected", "warn": "warns below", "fail": "fails below"}


def curves(title: str, lines: t.Sequence[Line], levels: Levels | None = None) -> str:
    """Return a plot of bus bandwidth by message size; O(lines) have C(name), C(rows) and C(bad)."""
    lines = [line for line in lines if line["rows"]]
    sizes = sorted({row["size"] for line in lines for row in line["rows"]}) or [1]
    top = max([0.0, *(levels or {}).values(), *(row["busbw"] for line in lines for row in line["rows"])])
    axes = _Axes(title, (math.log2(max(1, sizes[0])), math.log2(max(2, sizes[-1]))), top)
    axes.ticks([(math.log2(max(1, value)), size(value)) for value in _some(sizes, 6)])
    good = [line for line in lines if not line["bad"]]
    if len(good) > _SINGLE:
        axes.band([_points(line) for line in good])
    else:
        for line in good:
            axes.line(_points(line), "good", line["name"])
    bad = sorted((line for line in lines if line["bad"]), key=lambda line: float(line["rows"][-1]["busbw"]))
    for line in bad[:_BAD]:
        axes.line(_points(line), "bad", line["name"])
    # Limits apply to the largest size, so they are drawn there.
    axes.levels(levels or {}, 0.6)
    for text, value in _labels(bad, 0.06 * axes.top):
        axes.label(text, value)
    return axes.svg("message size", "bus bandwidth, GB/s")


def ranking(title: str, values: t.Mapping[str, float | None], levels: Levels | None = None) -> str:
    """Return a plot of groups from the slowest to the fastest, for pairs whose map would be mostly empty."""
    known = sorted((value, name) for name, value in values.items() if value is not None)
    lost = len(values) - len(known)
    top = max([0.0, *(levels or {}).values(), *(value for value, _name in known)])
    axes = _Axes(title, (0.0, float(max(1, len(known) - 1))), top)
    axes.ticks([(0, "slowest"), (max(1, len(known) - 1), "fastest")])
    least = _least(levels)
    places = list(enumerate(known))
    shown = places[: 4 * _BAD] + _some(places[4 * _BAD :], _POINTS)
    for place, (value, name) in shown:
        axes.dot(place, value, "bad" if value < least else "good", name)
    axes.levels(levels or {}, 0.3)
    for text, value in _labels([{"name": n, "rows": [{"busbw": v}]} for v, n in known if v < least], 0.06 * axes.top):
        axes.label(text, value, 0.05)
    measured = f"{len(known)} measured" + (f", {lost} failed" if lost else "")
    return axes.svg(measured, "bus bandwidth, GB/s")


def pairs(title: str, values: t.Mapping[tuple[str, str], float | None], names: t.Sequence[str], levels: Levels) -> str:
    """Return a map if most pairs were measured, otherwise a ranking."""
    whole = len(names) * (len(names) - 1) / 2
    if 2 < len(names) <= _NODES and len(values) >= 0.5 * whole:
        return heat_map(title, names, values, levels)
    return ranking(title, {f"{a} - {b}": value for (a, b), value in values.items()}, levels)


def heat_map(
    title: str, nodes: t.Sequence[str], values: t.Mapping[tuple[str, str], float | None], levels: Levels
) -> str:
    """Return a map of the bus bandwidth of pairs; empty if not measured, a cross if the measurement failed."""
    longest = max(map(len, nodes))
    edge = 12 + 6.2 * longest
    cell = min(44.0, (_WIDTH - edge - 10) / len(nodes))
    place = {node: number for number, node in enumerate(nodes)}
    best = max((value for value in values.values() if value), default=1.0)
    parts, fits = [], cell >= 27
    for (a, b), value in values.items():
        for row, column in ((a, b), (b, a)):
            x, y = edge + cell * place[column], 30 + edge + cell * place[row]
            parts.append(_cell(x, y, cell, value, _shade(value, best, levels), fits, f"{a} - {b}"))
    ink = min(11.0, max(6.0, 0.8 * cell))
    for node, number in place.items():
        middle = (number + 0.5) * cell
        text = escape(node)
        parts.append(
            f'<text x="{edge - 5:.0f}" y="{30 + edge + middle + ink / 3:.1f}" text-anchor="end"'
            f' font-size="{ink:.1f}">{text}</text>'
        )
        turn = f"{edge + middle + ink / 3:.1f},{30 + edge - 5:.1f}"
        parts.append(f'<text transform="translate({turn}) rotate(-90)" font-size="{ink:.1f}">{text}</text>')
    bottom = 30 + edge + cell * len(nodes) + 20
    limits = [f"{_WORDS[level]} {levels[level]:.4g}" for level in ("warn", "fail") if level in levels]
    foot = f"GB/s, best {best:.4g}" + "".join(f"; {limit}" for limit in limits) + "; crosses failed"
    parts.append(f'<text class="dim" x="4" y="{bottom:.0f}" font-size="11">{escape(foot)}</text>')
    return _svg(title, "".join(parts), bottom + 8)


def series(title: str, points: t.Sequence[tuple[float, float]], beside: str, marks: t.Sequence[float] = ()) -> str:
    """Return a plot of one value by step, starting at zero; O(marks) are steps with a vertical line."""
    points = _some(points, 2 * _POINTS)
    axes = _Axes(title, (points[0][0], points[-1][0]), max(value for _step, value in points))
    axes.ticks([(step, f"{step:g}") for step, _value in _some(points, 6)])
    axes.line(points, "good", title)
    for step in marks:
        axes.parts.append(f'<path class="warn" d="M{axes.x(step):.1f} {_TOP}V{_HEIGHT - _BOTTOM}"/>')
    return axes.svg("step", beside)


def grid(title: str, rows: t.Mapping[str, t.Sequence[float]], columns: t.Sequence[str], unit: str) -> str:
    """Return a map of times, a row for each name: the longer than the usual time, the darker; far above it is bad."""
    usual = statistics.median(value for values in rows.values() for value in values)
    names = sorted(rows, key=lambda name: -statistics.median(rows[name]))[:_NODES]
    edge = 12 + 6.2 * max(map(len, names))
    side = min(30.0, (_WIDTH - edge - 10) / len(columns))
    parts = []
    for number, name in enumerate(names):
        y = 28 + side * number
        place = f'x="{edge - 5:.0f}" y="{y + side / 2 + 3.5:.1f}" text-anchor="end" font-size="10"'
        parts.append(f"<text {place}>{escape(name)}</text>")
        for column, value in enumerate(rows[name]):
            kind = _late(value / usual - 1)
            parts.append(_cell(edge + side * column, y, side, value, kind, side >= 27, f"{name} {columns[column]}"))
    bottom = 28 + side * len(names) + 18
    more = f"; the slowest {len(names)} of {len(rows)}" if len(names) < len(rows) else ""
    foot = f"{unit}, usual {usual:.4g}; columns are steps {columns[0]} to {columns[-1]}{more}"
    parts.append(f'<text class="dim" x="4" y="{bottom:.0f}" font-size="11">{escape(foot)}</text>')
    return _svg(title, "".join(parts), bottom + 8)


def size(value: float) -> str:
    """Return C(64M) for 67108864."""
    for unit in ("", "K", "M", "G"):
        if value < 1024:
            return f"{value:.0f}{unit}"
        value /= 1024
    return f"{value:.0f}T"


class _Axes:
    """A plot whose axes start at zero, so that lengths can be compared."""

    def __init__(self, title: str, span: tuple[float, float], top: float) -> None:
        self.title, self.top = title, 1.08 * top or 1.0
        self.low, self.high = span if span[1] > span[0] else (span[0] - 1, span[0] + 1)
        self.parts: list[str] = []
        self.words: list[tuple[float, str]] = []
        step = _step(self.top)
        for number in range(int(self.top / step) + 1):
            y = self.y(number * step)
            self.parts.append(f'<path class="grid" d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}"/>')
            self.parts.append(
                f'<text class="dim" x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{number * step:g}</text>'
            )

    def x(self, value: float) -> float:
        """Return the horizontal position of a value."""
        return _LEFT + (value - self.low) / (self.high - self.low) * (_WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        """Return the vertical position of a value."""
        return _HEIGHT - _BOTTOM - value / self.top * (_HEIGHT - _TOP - _BOTTOM)

    def ticks(self, values: t.Sequence[tuple[float, str]]) -> None:
        """Draw the labels below the axis."""
        for number, (value, text) in enumerate(values):
            anchor = "end" if number == len(values) - 1 else "middle" if number else "start"
            place = f'x="{self.x(value):.1f}" y="{_HEIGHT - _BOTTOM + 16}"'
            self.parts.append(f'<text class="dim" {place} text-anchor="{anchor}">{escape(text)}</text>')

    def line(self, points: t.Sequence[tuple[float, float]], kind: str, name: str = "") -> None:
        """Draw a line and mark its last point, because a single point would be invisible."""
        path = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in points)
        self.parts.append(f'<polyline class="{kind}" points="{path}"><title>{escape(name)}</title></polyline>')
        self.dot(*points[-1], kind)

    def dot(self, x: float, y: float, kind: str, name: str = "") -> None:
        """Draw a point."""
        title = f"<title>{escape(name)} {y:.4g} GB/s</title>" if name else ""
        self.parts.append(f'<circle class="{kind}" cx="{self.x(x):.1f}" cy="{self.y(y):.1f}" r="2.6">{title}</circle>')

    def band(self, lines: t.Sequence[t.Sequence[tuple[float, float]]]) -> None:
        """Draw many lines as a band with their median."""
        values: dict[float, list[float]] = {}
        for line in lines:
            for x, y in line:
                values.setdefault(x, []).append(y)
        places = sorted(values)
        edge = [(x, max(values[x])) for x in places] + [(x, min(values[x])) for x in reversed(places)]
        path = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in edge)
        self.parts.append(f'<polygon class="band" points="{path}"><title>{len(lines)} good groups</title></polygon>')
        self.line([(x, statistics.median(values[x])) for x in places], "good", f"median of {len(lines)} good groups")

    def levels(self, levels: Levels, begin: float) -> None:
        """Draw the expected value and the limits with their names, from the fraction O(begin) of the width."""
        start = _LEFT + begin * (_WIDTH - _LEFT - _RIGHT)
        free = float(_TOP)
        for level, word in _WORDS.items():
            if level in levels:
                y = self.y(levels[level])
                free = max(free + 13, y + 4)
                self.parts.append(f'<path class="{level}" d="M{start:.1f} {y:.1f}H{_WIDTH - _RIGHT}"/>')
                place = f'x="{start - 5:.1f}" y="{free:.1f}" text-anchor="end"'
                self.parts.append(f'<text class="{level}" {place}>{word} {levels[level]:.4g}</text>')

    def label(self, text: str, value: float, place: float = 0.97) -> None:
        """Draw the name of a bad line above it."""
        x = _LEFT + place * (_WIDTH - _LEFT - _RIGHT)
        anchor = "end" if place > 0.5 else "start"
        self.parts.append(
            f'<text class="name" x="{x:.1f}" y="{self.y(value) - 6:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
        )

    def svg(self, below: str, beside: str) -> str:
        """Return the SVG."""
        words = f'<text class="dim" x="{_WIDTH - _RIGHT}" y="{_HEIGHT - 8}" text-anchor="end">{escape(below)}</text>'
        words += f'<text class="dim" x="4" y="{_HEIGHT - 8}">{escape(beside)}</text>'
        return _svg(self.title, "".join(self.parts) + words, _HEIGHT)


def _svg(title: str, body: str, height: float) -> str:
    """Return an SVG that scales with the page."""
    head = f'<text class="title" x="4" y="16">{escape(title)}</text>'
    name = escape(title, quote=True)
    return f'<svg viewBox="0 0 {_WIDTH} {height:.0f}" role="img" aria-label="{name}">{head}{body}</svg>'


def _cell(x: float, y: float, side: float, value: float | None, kind: str, fits: bool, name: str) -> str:
    """Return one cell of the map."""
    if value is None:
        mark = f"M{x + 3:.1f} {y + 3:.1f}l{side - 6:.1f} {side - 6:.1f}m0 {6 - side:.1f}l{6 - side:.1f} {side - 6:.1f}"
        return f'<path class="bad" d="{mark}"><title>{escape(name)}: failed</title></path>'
    square = (
        f'<rect class="{kind}" x="{x + 0.5:.1f}" y="{y + 0.5:.1f}" width="{side - 1:.1f}" height="{side - 1:.1f}"/>'
    )
    place = f'x="{x + side / 2:.1f}" y="{y + side / 2 + 3.5:.1f}" text-anchor="middle"'
    return square + (f'<text class="on {kind}" {place} font-size="10">{value:.3g}</text>' if fits else "")


def _shade(value: float | None, best: float, levels: Levels) -> str:
    """Return the class of a cell: by the limits, and for good cells by their bandwidth."""
    if value is None or value < levels.get("fail", 0.0):
        return "c-fail"
    if value < levels.get("warn", 0.0):
        return "c-warn"
    return f"c{min(4, max(1, math.ceil(4 * (value / best - 0.5) / 0.5)))}"


def _late(part: float) -> str:
    """Return the class of a cell by the fraction above the usual time."""
    for least, kind in ((0.25, "c-fail"), (0.1, "c-warn"), (0.05, "c4"), (0.02, "c3"), (0.0, "c2")):
        if part > least:
            return kind
    return "c1"


def _points(line: Line) -> list[tuple[float, float]]:
    """Return the points of a line."""
    return [(math.log2(max(1, row["size"])), row["busbw"]) for row in line["rows"]]


def _labels(lines: t.Sequence[Line], apart: float) -> list[tuple[str, float]]:
    """Return the labels at the ends of bad lines, lowest first; lines with the same end share a label."""
    found: list[tuple[list[str], float]] = []
    for line in lines:
        value = float(line["rows"][-1]["busbw"])
        if found and value - found[-1][1] < apart:
            found[-1][0].append(line["name"])
        else:
            found.append(([line["name"]], value))
    return [(words.listed(names, 1), value) for names, value in found]


def _least(levels: Levels | None) -> float:
    """Return the lowest value that passes without a warning."""
    return (levels or {}).get("warn", (levels or {}).get("fail", 0.0))


def _some(values: t.Sequence[t.Any], most: int) -> list[t.Any]:
    """Return at most this many values at equal distances, including the first and the last."""
    if len(values) <= most:
        return list(values)
    return [values[round(number * (len(values) - 1) / (most - 1))] for number in range(most)]


def _step(top: float) -> float:
    """Return a round distance for about five grid lines."""
    rough = top / 5
    power = 10.0 ** math.floor(math.log10(rough))
    return next(power * part for part in (1, 2, 2.5, 5, 10) if power * part >= rough)
