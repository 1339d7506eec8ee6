# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""The page of a report: one file, no script, nothing from the network, light and dark."""

from __future__ import annotations

import typing as t
from html import escape
from pathlib import Path

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils import _report_plots
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._checks import natural

_WORDS = {"pass": "pass", "warn": "warning", "fail": "FAIL", "not_run": "not run", "missing": "did not run"}
_SIGNS = {"pass": "✓", "warn": "!", "fail": "✗", "not_run": "-", "missing": "✗", "": ""}
_STYLE = Path(__file__).with_name("_report.css")


def page(report: t.Mapping[str, t.Any], *, plots: bool = True) -> str:
    """Return the whole page."""
    parts = [
        _head(report),
        _stages(report),
        _actions(report),
        _isolation(report),
        _baseline(report),
        _nodes(report),
        _cluster(report),
        _plots(report) if plots else "",
        "<footer>✓ passed, ! warning, ✗ failed, - not run: nothing was proved there. By hpcai.gpucluster.</footer>",
    ]
    title = escape(f"{_WORDS[report['verdict']]}: validation {report.get('run', '')}")
    # The policy forbids everything that would come from somewhere else, whatever a node wrote into its output.
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy"'
        f' content="{policy}">\n<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n"
        f"<style>{_STYLE.read_text(encoding='utf-8')}</style>\n</head>\n<body>\n{''.join(parts)}\n</body>\n</html>\n"
    )


def _head(report: t.Mapping[str, t.Any]) -> str:
    """Return the verdict and what the run was."""
    verdict = report["verdict"]
    facts = {
        "run": report.get("run"),
        "time": report.get("finished"),
        "cluster": report.get("cluster"),
        "measured with": report.get("program"),
        "versions": ", ".join(f"{name} {version}" for name, version in report["versions"].items()),
    }
    rows = "".join(f"<dt>{name}</dt><dd>{escape(str(value))}</dd>" for name, value in facts.items() if value)
    return (
        f'<h1>Validation of the cluster</h1>\n<div class="verdict {verdict}"><b>{_WORDS[verdict].upper()}</b>'
        f"<span>{escape(report['summary'])}</span></div>\n<dl>{rows}</dl>\n"
    )


def _stages(report: t.Mapping[str, t.Any]) -> str:
    """Return one line per stage."""
    rows = ""
    for stage in report["stages"]:
        counts = ", ".join(f"{count} {_WORDS[status]}" for status, count in sorted(stage["counts"].items()))
        notes = "; ".join([*filter(None, [stage["reason"], counts]), *stage["notes"]])
        rows += (
            f'<tr><td class="cell {stage["state"]}">{_SIGNS[stage["state"]]} {_WORDS[stage["state"]]}</td>'
            f"<th>{escape(stage['title'])}</th><td>{escape(notes)}</td></tr>"
        )
    return f'<div class="scroll"><table><tbody>{rows}</tbody></table></div>\n'


def _actions(report: t.Mapping[str, t.Any]) -> str:
    """Return what failed, where, and what to do next; one entry for all failures that ask for the same."""
    kinds: dict[tuple[str, ...], list[t.Mapping[str, t.Any]]] = {}
    for item in report["checks"]:
        if item["status"] in ("fail", "warn"):
            kinds.setdefault(tuple(item["advice"]) or (item["check"],), []).append(item)
    entries, said = "", set[str]()
    for items in sorted(kinds.values(), key=_urgency):
        entries += _action(items, said)
        said |= set(items[0]["advice"])
    return f"<h2>What to do next</h2>\n{entries}" if entries else ""


def _urgency(items: t.Sequence[t.Mapping[str, t.Any]]) -> tuple[bool, bool]:
    """Return a key that puts failures first, and the named culprit before what follows from it."""
    return all(item["status"] == "warn" for item in items), not items[0]["check"].startswith("isolation")


def _action(items: t.Sequence[t.Mapping[str, t.Any]], said: t.AbstractSet[str] = frozenset()) -> str:
    """Return one entry: failures first, each with the name of its check where there are several, and what to do."""
    status = "fail" if any(item["status"] == "fail" for item in items) else "warn"
    items = sorted(items, key=lambda item: item["status"] != "fail")
    titles = list(dict.fromkeys(item["title"] for item in items))
    lines = "".join(
        f"<p>{_who(item)}{escape(item['title'] + ': ' if len(titles) > 1 else '')}{escape(item['message'])}</p>"
        for item in items[:10]
    )
    more = f"<p>and {len(items) - 10} more</p>" if len(items) > 10 else ""
    new = [step for step in items[0]["advice"] if step not in said]
    above = "<p>What is said above goes for this, too.</p>" if len(new) < len(items[0]["advice"]) else ""
    steps = "".join(f"<li>{escape(step)}</li>" for step in new)
    others = f" and {len(titles) - 1} more" if len(titles) > 1 else ""
    head = f'<b class="{status}">{_SIGNS[status]} {escape(titles[0] + others)}</b>'
    return f'<article class="{status}">{head}{lines}{more}{f"<ol>{steps}</ol>" if steps else ""}{above}</article>\n'


def _who(item: t.Mapping[str, t.Any]) -> str:
    """Return the node of a check."""
    return f"<b>{escape(item['node'])}</b>: " if item["node"] else ""


def _isolation(report: t.Mapping[str, t.Any]) -> str:
    """Return how the search for the culprit went."""
    found = report["isolation"]
    if not found:
        return ""
    text = f"{found['jobs']} measurements; a group counts as good from {found['minimum']:.4g} GB/s."
    usual = f" Good groups reach {found['usual']:.4g} GB/s." if found["usual"] else ""
    open_ = "" if found["complete"] else " <b>The search was stopped before its end.</b>"
    return f"<h2>Search for the culprit</h2>\n<p>{escape(text + usual)}{open_}</p>\n"


def _baseline(report: t.Mapping[str, t.Any]) -> str:
    """Return what changed since the earlier run."""
    found = report["baseline"]
    if not found:
        return ""
    rows = "".join(
        f'<tr><td class="cell {"fail" if change["worse"] else "pass"}">{"worse" if change["worse"] else "better"}</td>'
        f"<th>{escape(change['title'])}</th><td>{escape(str(change['node'] or change['group'] or 'cluster'))}</td>"
        f'<td class="figure">{_figure(change["before"])} → {_figure(change["after"])}</td></tr>'
        for change in [*found["regressions"], *found["improvements"]]
    )
    changes = found["versions"].items()
    versions = "; ".join(f"{name} {old or 'none'} → {new or 'none'}" for name, (old, new) in changes)
    table = (
        f'<div class="scroll"><table><tbody>{rows}</tbody></table></div>'
        if rows
        else "<p>Nothing became worse or better.</p>"
    )
    changed = f"<p>Versions that changed: {escape(versions)}</p>" if versions else ""
    return f"<h2>Since run {escape(str(found['run']))}</h2>\n{changed}{table}\n"


def _nodes(report: t.Mapping[str, t.Any]) -> str:
    """Return the table of nodes by checks, the nodes with failures first."""
    mine = [item for item in report["checks"] if item["node"]]
    if not mine:
        return ""
    named = sorted(mine, key=lambda item: not item["check"].startswith("isolation"))
    columns = {item["check"]: item["title"] for item in named}
    cells: dict[str, dict[str, t.Mapping[str, t.Any]]] = {}
    for item in mine:
        cells.setdefault(item["node"], {})[item["check"]] = item
    bad = {node: -sum(item["status"] == "fail" for item in row.values()) for node, row in cells.items()}
    head = "".join(f"<th>{escape(title)}</th>" for title in columns.values())
    rows = ""
    for node in sorted(cells, key=lambda name: (bad[name], natural(name))):
        rows += f"<tr><th>{escape(node)}</th>{''.join(_cell(cells[node].get(column)) for column in columns)}</tr>\n"
    table = f"<table><thead><tr><th>node</th>{head}</tr></thead><tbody>{rows}</tbody></table>"
    return f'<h2>Nodes</h2>\n<div class="scroll">{table}</div>\n'


def _cell(item: t.Mapping[str, t.Any] | None) -> str:
    """Return one cell; the message shows when one points at it."""
    if item is None:
        return '<td class="cell not_run" title="not run">-</td>'
    number = f' <span class="figure">{item["measured"]:.4g}</span>' if item.get("measured") is not None else ""
    title = escape(f"{_WORDS[item['status']]}: {item['message']}".rstrip(": "), quote=True)
    return f'<td class="cell {item["status"]}" title="{title}">{_SIGNS[item["status"]]}{number}</td>'


def _cluster(report: t.Mapping[str, t.Any]) -> str:
    """Return the checks of the whole cluster and of groups of nodes; of many, only those that are not good."""
    mine = [item for item in report["checks"] if not item["node"]]
    shown = mine if len(mine) <= 60 else [item for item in mine if item["status"] != "pass"]
    if not mine:
        return ""
    rows = "".join(
        f'<tr><td class="cell {item["status"]}">{_SIGNS[item["status"]]} {_WORDS[item["status"]]}</td>'
        f"<th>{escape(item['title'])}</th>"
        f'<td>{escape(item.get("group") or "cluster")}</td><td class="figure">{_measured(item)}</td>'
        f"<td>{escape(item['message'])}</td></tr>"
        for item in shown
    )
    hidden = (
        f"<p>{len(mine) - len(shown)} that passed are not shown; report.json has them.</p>"
        if len(shown) < len(mine)
        else ""
    )
    table = f'<div class="scroll"><table><tbody>{rows}</tbody></table></div>'
    return f"<h2>Cluster and groups of nodes</h2>\n{hidden}{table}\n"


def _measured(item: t.Mapping[str, t.Any]) -> str:
    """Return figure, unit and what was expected."""
    if item.get("measured") is None:
        return ""
    expected = f" (wanted {item['expected']:.4g})" if item.get("expected") else ""
    return escape(f"{item['measured']:.4g} {item.get('unit', '')}{expected}")


def _figure(value: t.Any) -> str:
    """Return a number or a word of a comparison."""
    return escape(f"{value:.4g}" if isinstance(value, (int, float)) else _WORDS.get(str(value), str(value)))


def _plots(report: t.Mapping[str, t.Any]) -> str:
    """Return the curves by kind of measurement and the map of pairs."""
    kinds: dict[str, list[t.Mapping[str, t.Any]]] = {}
    for curve in report["curves"]:
        kinds.setdefault(curve["title"], []).append(curve)
    pictures = [
        _report_plots.curves(title, lines, next((line["expected"] for line in lines if line.get("expected")), None))
        for title, lines in kinds.items()
    ]
    pairs = report["pairs"]
    if pairs:
        values = {(pair["nodes"][0], pair["nodes"][1]): pair["busbw"] for pair in pairs["values"]}
        names = sorted({name for pair in values for name in pair}, key=natural)
        pictures.append(
            _report_plots.heat_map(f"pairs of nodes, {pairs['collective']}", names, values, pairs.get("minimum"))
        )
    figures = "".join(f"<figure>{picture}</figure>\n" for picture in pictures)
    return f'<h2>Bandwidth</h2>\n<div class="plots">{figures}</div>\n' if figures else ""
