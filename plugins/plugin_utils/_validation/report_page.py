# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""The page of a report: one file for screen and paper, without scripts or network access, in light and dark style."""

from __future__ import annotations

import typing as t
from pathlib import Path

import jinja2

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation import (
    report_figures,
    report_nodes,
    report_plots,
    report_tables,
    report_training,
)
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation.checks import natural
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation.report_words import SIGNS, WORDS

Report = t.Mapping[str, t.Any]
Item = t.Mapping[str, t.Any]

_HERE = Path(__file__).parent
# Maximum number of messages of failures with the same advice.
_MESSAGES = 10


def page(report: Report, *, plots: bool = True) -> str:
    """Return the whole page. The template escapes all output of nodes; only plots and style are markup."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    return environment.get_template("report.html.j2").render(
        report=report,
        words=WORDS,
        signs=SIGNS,
        style=(_HERE / "report.css").read_text(encoding="utf-8"),
        keys=[{**row, "margin": report_figures.verdict(row)} for row in report_figures.keys(report)],
        subject=_subject(report),
        actions=_actions(report),
        pictures=_pictures(report) if plots else [],
        training=report_training.table(report.get("training")),
        curves=report_training.pictures(report.get("training")) if plots else [],
        nodes=report_nodes.nodes(report),
        stages=report_tables.stages(report),
        figures=report_tables.figures(report),
        unproved=report_tables.unproved(report),
        changes=report_tables.changes(report),
        repairs=report_tables.repairs(report),
        cluster=report_tables.cluster(report),
        limits=report_tables.limits(report),
    )


def _subject(report: Report) -> dict[str, list[str]]:
    """Return the subject of the validation: machines, software and date."""
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
    return {name: [str(line) for line in lines if line] for name, lines in facts.items() if any(lines)}


def _hardware(kind: Item, devices: t.Sequence[str]) -> str:
    """Return a phrase about one kind of node; the model that the GPUs report replaces that of the inventory."""
    nodes = f"{kind['count']} node{'' if kind['count'] == 1 else 's'} {kind['size']}".rstrip()
    if not kind["gpus"]:
        return f"{nodes} with {kind['cpus']} CPUs each, no GPUs" if kind["cpus"] else f"{nodes}, no GPUs"
    model = devices[0] if len(devices) == 1 else kind["gpu"] or "GPUs"
    return f"{nodes} with {kind['gpus']} {model} each: {kind['count'] * kind['gpus']} GPUs"


def _actions(report: Report) -> list[dict[str, t.Any]]:
    """Return failures with their nodes and advice; failures with the same advice share one entry."""
    kinds: dict[tuple[str, ...], list[Item]] = {}
    for item in report["checks"]:
        if item["status"] in ("fail", "warn"):
            kinds.setdefault(tuple(item["advice"]) or (item["check"],), []).append(item)
    entries, said = [], set[str]()
    for items in sorted(kinds.values(), key=_urgency):
        entries.append(_action(items, said))
        said |= set(items[0]["advice"])
    return entries


def _urgency(items: t.Sequence[Item]) -> tuple[bool, bool]:
    """Return a sort key that puts failures first, and the culprit before its consequences."""
    return all(item["status"] == "warn" for item in items), not items[0]["check"].startswith("isolation")


def _action(items: t.Sequence[Item], said: t.AbstractSet[str]) -> dict[str, t.Any]:
    """Return one entry: failures first, each with the name of its check if there are several, and the advice."""
    items = sorted(items, key=lambda item: item["status"] != "fail")
    titles = list(dict.fromkeys(item["title"] for item in items))
    return {
        "status": items[0]["status"],
        "titles": titles,
        "items": items[:_MESSAGES],
        "more": max(0, len(items) - _MESSAGES),
        "steps": [step for step in items[0]["advice"] if step not in said],
        "above": any(step in said for step in items[0]["advice"]),
    }


def _pictures(report: Report) -> list[str]:
    """Return the maps of pairs and the curves by kind of measurement."""
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
    return pictures
