# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""The page of a report: one file, no script, nothing from the network, light, dark and on paper."""

from __future__ import annotations

import typing as t
from html import escape
from pathlib import Path

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import words
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation import (
    report_figures,
    report_nodes,
    report_plots,
)
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation.outcomes import natural
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation.report_words import SIGNS, WORDS, table

Report = t.Mapping[str, t.Any]
Item = t.Mapping[str, t.Any]

_STYLE = Path(__file__).with_name("report.css")
_KINDS = {"node": "in one node", "pair": "between two nodes", "all": "over all nodes"}
_COUNTED = {"pass": "passed", "fail": "failed", "warn": "with a warning", "not_run": "not run"}
# So many lines of one kind are on the page; report.json has all of them.
_MOST = 40


def page(report: Report, *, plots: bool = True) -> str:
    """Return the whole page."""
    parts = [
        _head(report),
        _keys(report),
        _subject(report),
        _stages(report),
        _actions(report),
        _isolation(report),
        _figures(report),
        _plots(report) if plots else "",
        _unproved(report),
        _baseline(report),
        report_nodes.nodes(report),
        _cluster(report),
        _limits(report),
        "<footer>✓ passed, ! warning, ✗ failed, - not run: nothing was proved there. GB/s are 10<sup>9</sup> bytes per"
        " second. All checks with their messages are in report.json beside this page. By hpcai.gpucluster.</footer>",
    ]
    title = escape(f"{WORDS[report['verdict']]}: validation {report.get('run', '')}")
    # The policy forbids everything that would come from somewhere else, whatever a node wrote into its output.
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy"'
        f' content="{policy}">\n<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n"
        f"<style>{_STYLE.read_text(encoding='utf-8')}</style>\n</head>\n<body>\n{''.join(parts)}\n</body>\n</html>\n"
    )


def _head(report: Report) -> str:
    """Return the verdict."""
    verdict, cluster = report["verdict"], report.get("cluster")
    name = f" {escape(str(cluster))}" if cluster else ""
    return (
        f'<h1>Validation of the cluster{name}</h1>\n<div class="verdict {verdict}"><b>{WORDS[verdict].upper()}</b>'
        f"<span>{escape(report['summary'])}</span></div>\n"
    )


def _keys(report: Report) -> str:
    """Return the figures that most people ask for: those of the first operation."""
    cards = "".join(
        f'<div class="{row["status"]}"><b>{row["slowest"]:.4g} <small>{escape(row["unit"])}</small></b>'
        f"<span>{escape(row['title'])}{escape(_slowest(row))}</span>"
        f"<span>{escape(report_figures.verdict(row))}</span></div>"
        for row in report_figures.keys(report)
    )
    return f'<div class="keys">{cards}</div>\n' if cards else ""


def _slowest(row: Item) -> str:
    """Return that a figure is the slowest of several."""
    return f": slowest of {row['groups']}" if row["groups"] > 1 else ""


def _subject(report: Report) -> str:
    """Return what was validated: machines, software, and when."""
    took = report_figures.duration(report.get("seconds"))
    when = f"{report.get('finished') or ''}{f', it took {took}' if took else ''}"
    devices = report.get("devices") or []
    facts: dict[str, list[t.Any]] = {
        "Hardware": [_hardware(kind, devices) for kind in report.get("hardware") or []],
        "Nodes": [f"{len(report['nodes'])}: {report_figures.names(report['nodes'])}"] if report["nodes"] else [],
        "Measured with": [", ".join(filter(None, [report.get("program"), report.get("image")]))],
        "Software": [" · ".join(f"{name} {version}" for name, version in sorted(report["versions"].items()))],
        "Finished": [when],
        "Run": [report.get("run")],
    }
    rows = "".join(
        f"<dt>{name}</dt><dd>{'<br>'.join(escape(str(line)) for line in lines if line)}</dd>"
        for name, lines in facts.items()
        if any(lines)
    )
    return f"<dl>{rows}</dl>\n"


def _hardware(kind: Item, devices: t.Sequence[str]) -> str:
    """Return one kind of node in words; what the GPUs themselves say goes before what the inventory says."""
    nodes = f"{kind['count']} node{'' if kind['count'] == 1 else 's'} {kind['size']}".rstrip()
    if not kind["gpus"]:
        return f"{nodes} with {kind['cpus']} CPUs each, no GPUs" if kind["cpus"] else f"{nodes}, no GPUs"
    model = devices[0] if len(devices) == 1 else kind["gpu"] or "GPUs"
    return f"{nodes} with {kind['gpus']} {model} each: {kind['count'] * kind['gpus']} GPUs"


def _stages(report: Report) -> str:
    """Return one line per stage."""
    rows = []
    for stage in report["stages"]:
        counts = ", ".join(
            f"{stage['counts'][status]} {word}" for status, word in _COUNTED.items() if stage["counts"].get(status)
        )
        notes = "; ".join(filter(None, [stage["reason"], counts]))
        rows.append(
            [
                ("cell " + stage["state"], "", f"{SIGNS[stage['state']]} {WORDS[stage['state']]}"),
                ("name", "", stage["title"]),
                ("", "checks", notes),
                ("figure", "took", report_figures.duration(stage.get("seconds"))),
            ]
        )
    return table(["", "stage", "checks", "time"], rows)


def _actions(report: Report) -> str:
    """Return what failed, where, and what to do next; one entry for all failures that ask for the same."""
    kinds: dict[tuple[str, ...], list[Item]] = {}
    for item in report["checks"]:
        if item["status"] in ("fail", "warn"):
            kinds.setdefault(tuple(item["advice"]) or (item["check"],), []).append(item)
    entries, said = "", set[str]()
    for items in sorted(kinds.values(), key=_urgency):
        entries += _action(items, said)
        said |= set(items[0]["advice"])
    return f"<h2>What to do next</h2>\n{entries}" if entries else ""


def _urgency(items: t.Sequence[Item]) -> tuple[bool, bool]:
    """Return a key that puts failures first, and the named culprit before what follows from it."""
    return all(item["status"] == "warn" for item in items), not items[0]["check"].startswith("isolation")


def _action(items: t.Sequence[Item], said: t.AbstractSet[str] = frozenset()) -> str:
    """Return one entry: failures first, each with the name of its check where there are several, and what to do."""
    status = "fail" if any(item["status"] == "fail" for item in items) else "warn"
    items = sorted(items, key=lambda item: item["status"] != "fail")
    titles = list(dict.fromkeys(item["title"] for item in items))
    lines = "".join(
        f"<p>{_who(item)}{escape(item['title'] + ': ' if len(titles) > 1 else '')}{escape(item['message'])}</p>"
        for item in items[:10]
    )
    rest = words.more(items, 10)
    more = f"<p>{rest}</p>" if rest else ""
    new = [step for step in items[0]["advice"] if step not in said]
    above = "<p>What is said above goes for this, too.</p>" if len(new) < len(items[0]["advice"]) else ""
    steps = "".join(f"<li>{escape(step)}</li>" for step in new)
    head = f'<b class="{status}">{SIGNS[status]} {escape(words.listed(titles, 1))}</b>'
    return f'<article class="{status}">{head}{lines}{more}{f"<ol>{steps}</ol>" if steps else ""}{above}</article>\n'


def _who(item: Item) -> str:
    """Return the node of a check."""
    return f"<b>{escape(item['node'])}</b>: " if item["node"] else ""


def _isolation(report: Report) -> str:
    """Return how the search for the culprit went."""
    found = report["isolation"]
    if not found:
        return ""
    text = f"{found['jobs']} measurements; a group counts as good from {found['minimum']:.4g} GB/s."
    usual = f" Good groups reach {found['usual']:.4g} GB/s." if found["usual"] else ""
    open_ = "" if found["complete"] else " <b>The search was stopped before its end.</b>"
    return f"<h2>Search for the culprit</h2>\n<p>{escape(text + usual)}{open_}</p>\n"


def _figures(report: Report) -> str:
    """Return the figures by kind, with how far the slowest is from its limit."""
    rows = []
    for row in report_figures.figures(report):
        unit, levels = row["unit"], row["levels"]
        failed = f" ({row['failed']} failed)" if row["failed"] else ""
        several = f", of {row['groups']}" if row["groups"] > 1 else ""
        rows.append(
            [
                ("cell " + row["status"], "", SIGNS[row["status"]]),
                ("name", "", row["title"]),
                ("figure", "slowest", _with(row["slowest"], unit)),
                ("", "which", f"{row['who'] or ''}{several}{failed}"),
                ("figure", "median", _with(row["median"], unit)),
                ("", "limit", _limit(levels, unit)),
                (
                    "figure " + (row["status"] if (row["margin"] or 0) < 0 else ""),
                    "margin",
                    report_figures.percent(row["margin"]),
                ),
                ("figure", "expected", _with(levels.get("expected"), unit)),
            ]
        )
    head = ["", "figure", "slowest", "which", "median", "limit", "margin", "expected"]
    note = (
        "<p>A figure passes when it reaches its limit; margin is how far the slowest is above it. What is expected is"
        " what good hardware is known for, and decides nothing. It is the bus bandwidth out of place at the largest"
        " size.</p>"
    )
    return f"<h2>Figures</h2>\n{note}{table(head, rows)}" if rows else ""


def _limit(levels: t.Mapping[str, float], unit: str) -> str:
    """Return the limits of a kind."""
    words = {"warn": "warns below", "fail": "fails below"}
    return (
        "; ".join(f"{words[level]} {_with(levels[level], unit)}" for level in words if level in levels)
        or "none is known"
    )


def _with(value: float | None, unit: str) -> str:
    """Return a figure with its unit."""
    return "" if value is None else f"{value:.4g} {unit}"


def _plots(report: Report) -> str:
    """Return the curves by kind of measurement and the map of pairs."""
    kinds: dict[str, list[Item]] = {}
    for curve in report["curves"]:
        kinds.setdefault(curve["title"], []).append(curve)
    pictures = [
        report_plots.curves(title, lines, next((line["limits"] for line in lines if line.get("limits")), None))
        for title, lines in kinds.items()
    ]
    found = report["pairs"]
    if found:
        values = {(pair["nodes"][0], pair["nodes"][1]): pair["busbw"] for pair in found["values"]}
        names = sorted({name for pair in values for name in pair}, key=natural)
        title = f"pairs of nodes, {found['collective']}"
        pictures.insert(0, report_plots.pairs(title, values, names, found.get("limits") or {}))
    figures = "".join(f"<figure>{picture}</figure>\n" for picture in pictures)
    return f'<h2>Bandwidth</h2>\n<div class="plots">{figures}</div>\n' if figures else ""


def _unproved(report: Report) -> str:
    """Return what the run says nothing about."""
    found = report_figures.unproved(report)
    rows = [[("name", "", row["what"]), ("", "why", row["why"]), ("", "where", row["where"])] for row in found[:_MOST]]
    return f"<h2>What was not proved</h2>\n{table(['check', 'why', 'where'], rows)}{_rest(found)}" if rows else ""


def _rest(items: t.Sequence[t.Any]) -> str:
    """Return how many rows a table leaves to the report in JSON."""
    rest = words.more(items, _MOST)
    return f"<p>{rest}; report.json has them.</p>" if rest else ""


def _baseline(report: Report) -> str:
    """Return what changed since the earlier run."""
    found = report["baseline"]
    if not found:
        return ""
    changes = [*found["regressions"], *found["improvements"]]
    rows = [
        [
            ("cell " + ("fail" if change["worse"] else "pass"), "", "worse" if change["worse"] else "better"),
            ("name", "", change["title"]),
            ("", "where", str(change["node"] or change["group"] or "cluster")),
            ("figure", "change", f"{_change(change['before'])} → {_change(change['after'])}"),
        ]
        for change in changes[:_MOST]
    ]
    versions = "; ".join(f"{name} {old or 'none'} → {new or 'none'}" for name, (old, new) in found["versions"].items())
    body = table(["", "check", "where", "before → after"], rows) if rows else "<p>Nothing became worse or better.</p>"
    changed = f"<p>Versions that changed: {escape(versions)}</p>" if versions else ""
    return f"<h2>Since run {escape(str(found['run']))}</h2>\n{changed}{body}{_rest(changes)}\n"


def _change(value: t.Any) -> str:
    """Return a number or a word of a comparison."""
    return f"{value:.4g} GB/s" if isinstance(value, (int, float)) else WORDS.get(str(value), str(value))


def _cluster(report: Report) -> str:
    """Return the checks of the whole cluster; those with figures are above, so only what is not good comes again."""
    mine = [
        item for item in report["checks"] if not item["node"] and (item["status"] != "pass" or not item.get("unit"))
    ]
    rows = [
        [
            ("cell " + item["status"], "", f"{SIGNS[item['status']]} {WORDS[item['status']]}"),
            ("name", "", item["title"]),
            ("", "what", item["message"] or item.get("group") or ""),
            ("figure", "measured", _with(item.get("measured"), item.get("unit", ""))),
        ]
        for item in sorted(mine, key=lambda item: item["status"] != "fail")[:_MOST]
    ]
    head = ["", "check", "what was found", "measured"]
    return f"<h2>Checks of the cluster and of groups</h2>\n{table(head, rows)}{_rest(mine)}" if rows else ""


def _limits(report: Report) -> str:
    """Return where the limits come from."""
    rows = [
        [
            ("name", "", f"{_KINDS[rule['kind']]}, {rule['collective']}"),
            ("figure", "expected", _with(rule.get("expected"), "GB/s")),
            ("figure", "warns below", _with(rule.get("warn"), "GB/s")),
            ("figure", "fails below", _with(rule.get("fail"), "GB/s")),
            ("", "from", rule["why"]),
        ]
        for rule in report.get("limits") or []
    ]
    head = ["bandwidth", "expected", "warns below", "fails below", "where the limit comes from"]
    return f"<h2>Where the limits come from</h2>\n{table(head, rows)}" if rows else ""
