# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
The page gpucluster-status: the state of the cluster as one file without scripts.

It needs no Grafana. Prometheus serves it as a console, so no text may contain an opening brace.
"""

from __future__ import annotations

import collections
import html
import re
import time
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import words

from . import slurm

if t.TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized

    from .live import Live

    Record = Mapping[str, t.Any]

LONGEST = 50  # rows of a table
# Class of a node on the map, its word and its sign. The first whose states a node has counts.
KINDS = (
    ("fail", "down", "✗", {"down", "fail", "noresp"}),
    ("warn", "drained", "!", {"drain", "maint", "reboot_req", "reboot_issued"}),
    ("not_run", "powered down", "-", {"powered_down", "power_down", "powering_up", "future", "unknown"}),
    ("busy", "in use", "▮", {"alloc", "mixed", "completing"}),
    ("pass", "idle", "✓", {"idle"}),
)
_SEVERITIES = {"critical": "fail", "warning": "warn"}


def kind(node: Record) -> tuple[str, str, str]:
    """Return the class, the word and the sign of a node. A state that is not known is never green."""
    states = slurm.node_states(node)
    found = next(((name, word, sign) for name, word, sign, some in KINDS if states & some), None)
    return found or ("fail", "unknown", "?")


def page(
    state: slurm.State | None,
    live: Live,
    style: str,
    now: float,
    cluster: str = "",
    brief: Record | None = None,
    troubles: Sequence[str] = (),
    trained: Record | None = None,
) -> str:
    """
    Return the page.

    state is None if there is no answer of Slurm to show, brief if the last validation is not known. troubles are the
    reasons of the collectors whose figures are missing. trained is the last training, if it is known.
    """
    missing = list(troubles)
    parts: list[tuple[t.Any, tuple[t.Any, ...]]] = []
    if state:
        parts = [(_keys, (state,)), (_nodes, (state,)), (_users, (state, live)), (_jobs, (state,))]
    keys, *tables = [_shown(missing, part, *known) for part, known in parts] or [""]
    last = _shown(missing, _validation, brief) + _shown(missing, _training, trained or {})
    worst = _worst(state, live, missing)
    head = _head(worst, live, now, cluster)
    body = "".join([*head, keys, *_missing(missing), *_alerts(live), *tables, last])
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="60">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_text(cluster or 'Cluster')}: {worst[1]}</title><style>{_braces(style)}</style></head>"
        f"<body>{body}<footer>✓ idle, ▮ in use, ! drained, ✗ down, - powered down. Written once a minute by "
        "gpucluster-metrics; if it is older, look at its timer. By hpcai.gpucluster.</footer></body></html>\n"
    )


def _shown(missing: list[str], part: Callable[..., Iterable[str]], *known: t.Any) -> str:
    """Return a part of the page. If it cannot be shown, add the reason to missing."""
    try:
        return "".join(part(*known))
    except Exception as exc:
        missing.append(f"{part.__name__.strip('_')}: {type(exc).__name__}: {exc}")
        return ""


def _missing(troubles: Sequence[str]) -> Iterator[str]:
    if troubles:
        yield "<h2>Missing figures</h2>"
    for trouble in troubles[:LONGEST]:
        yield f'<article class="warn"><b class="warn">{_text(trouble)}</b></article>'
    yield _more(troubles)


def _braces(style: str) -> str:
    """Separate braces that stand together: two of them would begin a template of Prometheus."""
    return re.sub(r"\{(?=\{)", "{ ", style)


def _text(value: t.Any) -> str:
    return html.escape(str(value)).replace("{", "&#123;")


def _worst(state: slurm.State | None, live: Live, troubles: Sequence[str]) -> tuple[str, str]:
    """Return class and words of the headline."""
    critical = sum(one["labels"].get("severity") == "critical" for one in live.alerts)
    if state is None:
        return "fail", "Slurm does not answer"
    if critical:
        return "fail", f"{critical} critical alerts" if critical > 1 else "1 critical alert"
    if live.trouble:
        return "warn", "alerts are unknown"
    if troubles:
        return "warn", "figures are missing"
    if live.alerts:
        return "warn", f"{len(live.alerts)} alerts" if len(live.alerts) > 1 else "1 alert"
    return "pass", "no alerts"


def _head(worst: tuple[str, str], live: Live, now: float, cluster: str) -> Iterator[str]:
    name, words = worst
    yield f"<h1>Cluster {_text(cluster)}</h1>"
    at = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(now))
    yield f'<div class="verdict {name}"><b>{words}</b><span>{at}. {_text(live.trouble)}</span></div>'


def _keys(state: slurm.State) -> Iterator[str]:
    yield '<div class="keys">'
    kinds = collections.Counter(kind(node)[0] for node in state.nodes)
    gpus = [slurm.node_gpus(node) for node in state.nodes]
    total, used = sum(has for has, _used in gpus), sum(used for _has, used in gpus)
    usable = [node for node in state.nodes if kind(node)[0] in ("pass", "busy")]
    free = sum(has - used for has, used in map(slurm.node_gpus, usable))
    yield _key(f"{used} of {total}", "GPUs allocated", f"{free} free, {total - used - free} on unavailable nodes")
    yield _key(
        f"{len(usable)} of {len(state.nodes)}", "nodes available", f"{kinds['warn']} drained, {kinds['fail']} down"
    )
    running, waiting = (_count(state.jobs, word) for word in ("running", "pending"))
    yield _key(str(running), "jobs running", f"{waiting} pending, {_count(state.jobs, 'hold')} of them held")
    yield "</div>"


def _count(jobs: Sequence[Record], state: str) -> int:
    return sum(slurm.tasks(job) for job in jobs if state in slurm.job_states(job))


def _key(figure: str, title: str, more: str) -> str:
    return f"<div><b>{figure}</b><span>{title}</span><span>{more}</span></div>"


def _alerts(live: Live) -> Iterator[str]:
    if live.alerts:
        yield "<h2>Alerts</h2>"
    order = sorted(live.alerts, key=_urgency)
    for one in order[:LONGEST]:
        name = _SEVERITIES.get(one["labels"].get("severity"), "not_run")
        notes = one["annotations"]
        summary = _text(notes.get("summary") or one["labels"]["alertname"])
        yield f'<article class="{name}"><b class="{name}">{summary}</b>'
        yield f"<p>{_text(notes.get('action', ''))}</p></article>"
    yield _more(order)


def _urgency(one: Record) -> int:
    """Sort critical alerts first, and then warnings."""
    severity = one["labels"].get("severity")
    return ["critical", "warning"].index(severity) if severity in _SEVERITIES else len(_SEVERITIES)


def _nodes(state: slurm.State) -> Iterator[str]:
    yield "<h2>Nodes</h2>"
    yield f'<div class="map">{"".join(_cell(node) for node in sorted(state.nodes, key=_natural))}</div>'
    away = [node for node in sorted(state.nodes, key=_natural) if kind(node)[0] in ("fail", "warn")]
    if away:
        rows = [(node["name"], kind(node)[1], node.get("reason") or "", _since(node)) for node in away]
        yield _table("Nodes that take no jobs", ("node", "state", "reason", "since"), rows)


def _users(state: slurm.State, live: Live) -> Iterator[str]:
    yield _table(
        "Who uses what", ("user", "account", "GPUs", "utilisation", "running", "pending"), _people(state, live)
    )


def _jobs(state: slurm.State) -> Iterator[str]:
    yield _table("Queue", ("partition", "reason", "jobs"), _queue(state.jobs))


def _natural(node: Record) -> list[tuple[int, str]]:
    """Sort gpu2 before gpu10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", node["name"])]


def _cell(node: Record) -> str:
    name, word, sign = kind(node)
    total, used = slurm.node_gpus(node)
    gpus = f" {used}/{total}" if total else ""
    reason = f": {node['reason']}" if node.get("reason") and name in ("fail", "warn") else ""
    title = _text(f"{node['name']}: {word}{reason}")
    return f'<span class="{name}" title="{title}">{sign} {_text(node["name"])}<small>{gpus}</small></span>'


def _since(node: Record) -> str:
    changed = node.get("reason_changed_at") or {}
    number = changed.get("number") if isinstance(changed, dict) else changed
    return time.strftime("%m-%d %H:%M UTC", time.gmtime(number)) if number else ""


def _people(state: slurm.State, live: Live) -> list[tuple[t.Any, ...]]:
    jobs: dict[tuple[str, str], list[Record]] = {}
    for job in state.jobs:
        jobs.setdefault((job["user_name"], job["account"]), []).append(job)
    rows = [
        (*who, _allocated(some), _mean(some, live), _count(some, "running"), _count(some, "pending"))
        for who, some in jobs.items()
    ]
    return sorted(rows, key=lambda row: (-row[2], row[0]))


def _allocated(jobs: Iterable[Record]) -> int:
    return sum(slurm.job_gpus(job) for job in jobs if "running" in slurm.job_states(job))


def _mean(jobs: Iterable[Record], live: Live) -> str:
    """Return the mean utilisation of the GPUs of some jobs; empty if it is not known."""
    places = [(node, f"nvidia{index}") for job in jobs for node, index in slurm.devices(job)]
    known = [live.utilisation[place] for place in places if place in live.utilisation]
    return f"{sum(known) / len(known):.0f} %" if known else ""


def _queue(jobs: Sequence[Record]) -> list[tuple[t.Any, ...]]:
    return [(*what, count) for what, count in slurm.queue(jobs).most_common()]


def _validation(brief: Record | None) -> Iterator[str]:
    """Yield the last validation. Only a verdict of pass is green."""
    yield "<h2>Last validation</h2>"
    if not brief:
        yield f"<p>{'No validation has run.' if brief is not None else 'Its result cannot be read.'}</p>"
        return
    name = brief["verdict"] if brief["verdict"] in ("pass", "warn") else "fail"
    at = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(brief["ended"]))
    yield f'<article class="{name}"><b class="{name}">{_text(brief["verdict"])}, {at}</b>'
    yield f"<p>{_text(brief['summary'])}</p></article>"
    stages = ", ".join(f"{name} {state.replace('_', ' ')}" for name, state in brief["stages"].items())
    yield f"<p>{_text(stages)}</p>"
    rows = [(row["title"], f"{row['slowest']:.4g} {row['unit']}", row["who"] or "") for row in _known(brief)]
    if rows:
        yield _table("Slowest figures of the last validation", ("operation", "figure", "nodes"), rows)


def _training(found: Record) -> Iterator[str]:
    """Yield the goodput of the last training; users may have written anything."""
    if found:
        at = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(found["time"]))
        yield "<h2>Last training</h2>"
        yield f"<p>Job {_text(found['job'])} of {_text(found['user'])}, {at}: "
        yield f"goodput {100 * found['goodput']:.1f} % of {found['seconds']:,.0f} s, {found['faults']:.0f} faults</p>"


def _known(brief: Record) -> list[Record]:
    return [row for row in brief["figures"] if row["slowest"] is not None]


def _table(title: str, names: Sequence[str], rows: Sequence[tuple[t.Any, ...]]) -> str:
    if not rows:
        return f"<h2>{title}</h2><p>Nothing.</p>"
    heads = "".join(f"<th>{name}</th>" for name in names)
    lines = "".join(f"<tr>{''.join(map(_data, names, row))}</tr>" for row in rows[:LONGEST])
    table = f'<table class="rows"><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table>'
    return f"<h2>{title}</h2>{table}{_more(rows)}"


def _data(name: str, value: t.Any) -> str:
    return f'<td data-name="{name}"{"" if value != "" else " class=empty"}>{_text(value)}</td>'


def _more(items: Sized) -> str:
    left = words.more(items, LONGEST)
    return f"<p>{left}</p>" if left else ""
