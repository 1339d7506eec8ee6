# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Plots of a report as SVG, by matplotlib, which is imported only here and only when a plot is asked for."""

from __future__ import annotations

import io
import re
import typing as t

if t.TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Replaced by the colour of the page's text, so that one picture serves light and dark.
_INK = "#010203"
_GOOD, _BAD, _LINE = "#3987e5", "#e34948", "#c98500"
_LABELLED = 40


class PlotError(RuntimeError):
    """matplotlib is missing."""


def curves(title: str, lines: t.Sequence[t.Mapping[str, t.Any]], expected: float | None) -> str:
    """Return bus bandwidth over message size; O(lines) have C(name), C(rows) and C(bad)."""
    figure, axes = _figure(7.2, 3.6)
    for line in sorted(lines, key=lambda item: bool(item["bad"])):
        sizes, values = [row["size"] for row in line["rows"]], [row["busbw"] for row in line["rows"]]
        style: dict[str, t.Any] = (
            {"color": _BAD, "linewidth": 2.0} if line["bad"] else {"color": _GOOD, "linewidth": 1.4, "alpha": 0.75}
        )
        axes.plot(sizes, values, marker="o", markersize=3, **style)
    for text, size_, value in _labels(lines):
        axes.annotate(text, (size_, value), xytext=(4, 0), textcoords="offset points", va="center", color=_BAD)
    if expected:
        axes.axhline(expected, color=_LINE, linestyle="--", linewidth=1.4)
        axes.annotate(
            f"wanted {expected:.4g}", (0.01, expected), xycoords=("axes fraction", "data"), va="bottom", color=_LINE
        )
    axes.set_xscale("log", base=2)
    highest = max([expected or 0.0, *(row["busbw"] for line in lines for row in line["rows"])])
    axes.set_ylim(0, 1.1 * highest or 1.0)  # room for the words above the line
    axes.margins(x=0.02)
    axes.xaxis.set_major_formatter(lambda value, _position: size(value))
    axes.set_xlabel("message size")
    axes.set_ylabel("bus bandwidth, GB/s")
    axes.set_title(title, loc="left", color=_INK)
    axes.grid(alpha=0.25, color=_INK)
    return _svg(figure, title)


def heat_map(
    title: str, nodes: t.Sequence[str], values: t.Mapping[tuple[str, str], float | None], minimum: float | None
) -> str:
    """Return bus bandwidth of pairs; blank where nobody measured, a cross where the measurement failed."""
    import matplotlib as mpl

    side = min(8.0, max(3.2, 1.4 + 0.42 * len(nodes)))
    figure, axes = _figure(side + 1.0, side)
    place = {node: number for number, node in enumerate(nodes)}
    grid = [[float("nan")] * len(nodes) for _row in nodes]
    for (a, b), value in values.items():
        for row, column in ((a, b), (b, a)):
            grid[place[row]][place[column]] = float("nan") if value is None else value
            if value is None:
                axes.plot(place[column], place[row], marker="x", color=_BAD, markersize=7, markeredgewidth=2)
    top = max((value for value in values.values() if value), default=1.0)
    picture = axes.imshow(grid, cmap=mpl.colormaps["viridis"], vmin=0, vmax=top, interpolation="nearest")
    if len(nodes) <= _LABELLED:
        axes.set_xticks(range(len(nodes)), nodes, rotation=90)
        axes.set_yticks(range(len(nodes)), nodes)
    if len(nodes) <= 12:
        _write_values(axes, place, values, top)
    scale = figure.colorbar(picture, ax=axes, fraction=0.046, pad=0.04)
    scale.set_label("bus bandwidth, GB/s", color=_INK)
    scale.ax.tick_params(colors=_INK)
    if minimum:
        scale.ax.axhline(minimum, color=_BAD, linewidth=2)
    axes.set_title(title, loc="left", color=_INK)
    return _svg(figure, title)


def size(value: float) -> str:
    """Return C(64M) for 67108864."""
    for unit in ("", "K", "M", "G"):
        if value < 1024:
            return f"{value:.0f}{unit}"
        value /= 1024
    return f"{value:.0f}T"


def _labels(lines: t.Sequence[t.Mapping[str, t.Any]]) -> list[tuple[str, int, float]]:
    """Return names for the ends of the bad lines, lowest first; lines that end together share one."""
    ends = sorted(
        (line["rows"][-1]["busbw"], line["rows"][-1]["size"], line["name"])
        for line in lines
        if line["bad"] and line["rows"]
    )
    apart = 0.05 * max((row["busbw"] for line in lines for row in line["rows"]), default=0.0)
    found: list[tuple[str, int, float]] = []
    shared = 0
    for value, end, name in ends:
        if found and value - found[-1][2] < apart:
            shared += 1
            found[-1] = (f"{found[-1][0].split(' and ')[0]} and {shared} more", *found[-1][1:])
        else:
            shared = 0
            found.append((name, end, value))
    return found


def _write_values(
    axes: Axes, place: t.Mapping[str, int], values: t.Mapping[tuple[str, str], float | None], top: float
) -> None:
    """Write the figures into the cells of a small map."""
    for (a, b), value in values.items():
        if value is not None:
            colour = "black" if value > 0.6 * top else "white"
            for row, column in ((a, b), (b, a)):
                axes.text(place[column], place[row], f"{value:.3g}", ha="center", va="center", color=colour, fontsize=8)


def _figure(width: float, height: float) -> tuple[Figure, Axes]:
    """Return an empty picture without background, in the colour of the text."""
    try:
        from matplotlib.figure import Figure
    except ImportError as exc:
        raise PlotError("plots need matplotlib on the controller: 'pip install matplotlib', or turn plots off") from exc
    figure = Figure(figsize=(width, height), layout="constrained")
    figure.patch.set_alpha(0)
    axes = figure.add_subplot()
    axes.patch.set_alpha(0)
    axes.tick_params(colors=_INK)
    axes.xaxis.label.set_color(_INK)
    axes.yaxis.label.set_color(_INK)
    for spine in axes.spines.values():
        spine.set_color(_INK)
        spine.set_alpha(0.4)
    return figure, axes


def _svg(figure: Figure, title: str) -> str:
    """Return the picture for use inside a page: no prolog, no fixed size, the same text for the same data."""
    import matplotlib as mpl

    stream = io.StringIO()
    settings: t.Any = {"svg.fonttype": "none", "svg.hashsalt": title, "font.family": "sans-serif", "font.size": 10}
    with mpl.rc_context(settings):
        figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None, "Title": title})
    text = stream.getvalue()
    text = text[text.index("<svg") :].replace(_INK, "currentColor")
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r"(<svg[^>]*?) width=\"[^\"]*\"", r'\1 role="img"', text, count=1)
    return re.sub(r"(<svg[^>]*?) height=\"[^\"]*\"", r"\1", text, count=1)
