# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Turn what the stages of the validation measured into checks, each of which has passed, warned, failed or not run."""

from __future__ import annotations

import re
import statistics
import typing as t
from collections import Counter

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation import shortfalls

Check = dict[str, t.Any]

PASS, WARN, FAIL, NOT_RUN = "pass", "warn", "fail", "not_run"
# How gpucluster-check ends, and its words for what is not healthy, worst first.
_UNHEALTHY, _UNPROVED, _PARTLY_RUN = 1, 3, 4
_WRONG = ("unhealthy", "unknown", "suspect")
_NO_COMMAND = 127
# Name and title of the check of a node's state.
_STATE = ("preflight.slurm_state", "state in Slurm")


def check(name: str, title: str, status: str, message: str = "", node: str | None = None, **more: t.Any) -> Check:
    """Return one check; O(node) is None for a check of the whole cluster."""
    return {"check": name, "title": title, "node": node, "status": status, "message": message, **more}


def natural(name: str) -> list[t.Any]:
    """Return a key that sorts gpu10 after gpu9."""
    digits = "".join(char if char.isdigit() else " " for char in name).split()
    return [
        "".join("#" if char.isdigit() else char for char in name).replace("##", "#"),
        [int(part) for part in digits],
        name,
    ]


def preflight(
    nodes: t.Mapping[str, t.Mapping[str, t.Any] | None], states: t.Sequence[t.Mapping[str, t.Any]]
) -> list[Check]:
    """Return the checks of what the nodes say (None for one that does not answer) and of Slurm's view of them."""
    answered = {name: facts for name, facts in nodes.items() if facts}
    found = [
        check("preflight.answers", "answers", PASS if facts else FAIL, "" if facts else "does not answer", name)
        for name, facts in nodes.items()
    ]
    found += [_state(node) for node in states]
    found += _versions(answered, {node["name"] for node in states} or set(answered))
    for name, facts in answered.items():
        found += [_clock(name, facts["clock"]), *_mounts(name, facts["mounts"])]
    return found + _users(answered)


def steps(results: t.Sequence[t.Mapping[str, t.Any]], name: str, title: str, good: str = "") -> list[Check]:
    """Return one check per node from the results of a command; status 127 means that the node lacks the command."""
    found = []
    for result in results:
        code = result["rc"]
        output = (result["stderr"] or result["stdout"]).strip().splitlines()
        message = (
            good
            if code == 0
            else f"{'took too long' if code == 124 else f'exit status {code}'}: {(output or ['no output'])[0]}"
        )
        if code == _NO_COMMAND:
            message = "not installed on the node"
        # Slurm drained the node or ended the job: its reason says more than any exit status.
        message = result.get("lost") or message
        status = {0: PASS, _NO_COMMAND: NOT_RUN}.get(code, FAIL)
        found += [check(name, title, status, message, node) for node in result["nodes"]]
    return found


def health(results: t.Sequence[t.Mapping[str, t.Any]], name: str, title: str) -> list[Check]:
    """
    Return one check per node from gpucluster-check, with what is not healthy.

    Its status 3 proves nothing yet, and 4 means nothing wrong, but a check that the hardware calls for was not run.
    """
    found = []
    for result in results:
        lines = result["stdout"].splitlines()
        healthy = sum(": healthy" in line for line in lines)
        wrong = [line for word in _WRONG for line in lines if re.match(rf"\w+: {word}: ", line)]
        if result["rc"] in (_UNHEALTHY, _UNPROVED) and wrong:
            status, message = FAIL if result["rc"] == _UNHEALTHY else WARN, "; ".join(wrong)
        elif result["rc"] == _PARTLY_RUN and healthy:
            status = WARN
            message = "; ".join(
                [f"{healthy} checks healthy", *(line for line in lines if re.match(r"\w+: not run: ", line))]
            )
        else:
            found += steps([result], name, title)
            continue
        found += [check(name, title, status, message, node) for node in result["nodes"]]
    return found


def bandwidth(
    results: t.Sequence[t.Mapping[str, t.Any]],
    name: str,
    title: str,
    *,
    threshold: t.Any = None,
    relative: t.Mapping[str, float] | None = None,
) -> list[Check]:
    """Return one check per measured group; groups of the same operation are compared with each other."""
    found = []
    for collective in dict.fromkeys(result["collective"] for result in results):
        groups = [result for result in results if result["collective"] == collective]
        measured = {collective: {_group(result): result["busbw"] for result in groups}}
        limits = {collective: threshold} if threshold else {}
        short = {
            item.name: item
            for item in shortfalls.shortfalls(measured, limits, relative=relative)
            if item.metric == collective
        }
        levels = shortfalls.levels(collective, threshold) if threshold else {}
        for result in groups:
            found.append(
                _bandwidth(result, short.get(_group(result)), f"{name}.{collective}", f"{title} {collective}", levels)
            )
    return found


def left_out(raw: t.Mapping[str, t.Any], name: str, title: str) -> list[Check]:
    """Return the checks of nodes that took no part; one that was asked for by name and cannot be used has failed."""
    status = FAIL if raw.get("named") else NOT_RUN
    found = [check(name, title, NOT_RUN, "busy with other jobs", node) for node in raw.get("busy") or []]
    return found + [
        check(name, title, status, f"left out: {_condition(node)}", node["name"]) for node in raw.get("unusable") or []
    ]


def lost(before: t.Sequence[t.Mapping[str, t.Any]], now: t.Sequence[t.Mapping[str, t.Any]]) -> list[Check]:
    """Return the checks of nodes that Slurm could use before, and now cannot."""
    well = {node["name"] for node in before if usable(node)}
    found = {node["name"]: node for node in now}
    gone = [check(*_STATE, FAIL, "Slurm does not know it any more", name) for name in sorted(well - set(found))]
    return gone + [
        check(*_STATE, FAIL, f"since this run began: {_condition(node)}", name)
        for name, node in found.items()
        if name in well and not usable(node)
    ]


def usable(node: t.Mapping[str, t.Any]) -> bool:
    """Return whether Slurm can use a node."""
    return bool(
        node["answers"] and node["state"] in ("idle", "allocated", "mixed", "completing", "planned", "reserved")
    )


def unjudged(item: Check) -> Check:
    """Return a check that has passed only for want of a limit, and of others to be compared with, as one not run."""
    if item["status"] != PASS:
        return item
    text = f"{item['group']}: {item['measured']:.4g} {item['unit']}, but no limit is known and nothing to compare with"
    return {**item, "status": NOT_RUN, "message": text}


def isolation(verdict: t.Mapping[str, t.Any], failed: t.Collection[frozenset[str]], unit: str = "GB/s") -> list[Check]:
    """Return the checks that name the culprit; who explains none of the groups that O(failed) is worth a warning."""
    good = set(verdict["good"])

    def status(culprits: t.Collection[str], group: t.Collection[str] = ()) -> str:
        proofs = [other for other in failed if other - good == set(culprits) and other >= set(group)]
        return FAIL if proofs else WARN

    found = []
    for item in verdict["bad"]:
        text = f"holds every group back: {_evidence(item, unit)}"
        found.append(
            check(
                "isolation.node",
                "isolation",
                status([item["name"]]),
                text,
                item["name"],
                measured=item["measured"],
                unit=unit,
            )
        )
    for item in verdict["links"]:
        text = f"the path between {item['name']} is slow, both are well with others: {_evidence(item, unit)}"
        level = status([], item["nodes"])
        found.append(check("isolation.link", "isolation", level, text, measured=item["measured"], unit=unit))
    for group in verdict["shared"]:
        text = f"{len(group)} nodes fall short together although each is well: {', '.join(group[:8])}"
        found.append(check("isolation.shared", "isolation", status([], group), text))
    undecided = [
        (
            status(group),
            f"at least one of {', '.join(group[:8])} is slow; to say more takes a node that is known to be good",
        )
        for group in verdict["undecided"]
    ]
    if len(undecided) > 1 and not good:
        level = FAIL if FAIL in (level for level, _text in undecided) else WARN
        undecided = [(level, f"none of {len(undecided)} groups is good, so no node can be told from the others")]
    found += [check("isolation.node", "isolation", level, text) for level, text in undecided]
    if not found:
        found.append(
            check("isolation.node", "isolation", PASS, f"no node or path is slow ({verdict['jobs']} measurements)")
        )
    return found


def _state(node: t.Mapping[str, t.Any]) -> Check:
    """Return whether Slurm can use a node."""
    return check(*_STATE, PASS if usable(node) else FAIL, _condition(node), node["name"])


def _condition(node: t.Mapping[str, t.Any]) -> str:
    """Return the state of a node with its reason."""
    silent = "" if node["answers"] else ", slurmd does not answer"
    return f"{node['state']}{silent}" + (f": {node['reason']}" if node["reason"] else "")


def _versions(nodes: t.Mapping[str, t.Mapping[str, t.Any]], computes: t.Collection[str]) -> list[Check]:
    """
    Return whether the versions of each component are equal; the odd ones out fail.

    A controller has no GPU: of what it has, only Slurm must fit the nodes.
    """
    components = list(dict.fromkeys(name for facts in nodes.values() for name in facts["versions"]))
    found = []
    for component in components:
        versions = {
            name: facts["versions"].get(component)
            for name, facts in nodes.items()
            if name in computes or component == "slurm"
        }
        if not versions:
            continue
        usual, _count = Counter(versions.values()).most_common(1)[0]
        if usual is None and len(set(versions.values())) == 1:
            continue
        for name, version in versions.items():
            text = (
                str(version)
                if version == usual
                else f"{version or 'not installed'}, but most nodes have {usual or 'none'}"
            )
            status = PASS if version == usual else FAIL
            found.append(check(f"preflight.version.{component}", f"version of {component}", status, text, name))
    return found


def _clock(name: str, clock: t.Mapping[str, t.Any]) -> Check:
    """Return whether a clock is right."""
    offset = clock.get("offset")
    if offset is not None and abs(offset) > 1:
        return check("preflight.clock", "clock", FAIL, f"{offset:+.1f} s off", name)
    status = {True: PASS, False: FAIL}.get(t.cast("bool", clock["synchronized"]), WARN)
    text = {PASS: "", FAIL: "not synchronized", WARN: "nobody knows whether it is synchronized"}[status]
    return check("preflight.clock", "clock", status, text or f"kept by {clock['by']}", name)


def _mounts(name: str, mounts: t.Mapping[str, str]) -> list[Check]:
    """Return whether the mounts are there."""
    if not mounts:
        return []
    wrong = [f"{path} {state}" for path, state in mounts.items() if state != "ok"]
    return [
        check("preflight.mounts", "mounts", FAIL if wrong else PASS, ", ".join(wrong) or f"{len(mounts)} answer", name)
    ]


def _users(nodes: t.Mapping[str, t.Mapping[str, t.Any]]) -> list[Check]:
    """Return whether users resolve to the same numbers everywhere."""
    names = list(dict.fromkeys(user for facts in nodes.values() for user in facts["users"]))
    numbers = {user: Counter(_number(facts, user) for facts in nodes.values()).most_common(1)[0][0] for user in names}
    found = []
    for name, facts in nodes.items():
        wrong = [
            f"{user} is {_number(facts, user) or 'unknown'}" + (f" instead of {numbers[user]}" if numbers[user] else "")
            for user in names
            if _number(facts, user) is None or _number(facts, user) != numbers[user]
        ]
        if names:
            text = ", ".join(wrong) or f"{len(names)} resolve"
            found.append(check("preflight.users", "users", FAIL if wrong else PASS, text, name))
    return found


def _number(facts: t.Mapping[str, t.Any], user: str) -> str | None:
    """Return the numbers of a user as text."""
    entry = facts["users"].get(user)
    return f"{entry['uid']}:{entry['gid']}" if entry else None


def _group(result: t.Mapping[str, t.Any]) -> str:
    """Return a name for a group of nodes."""
    nodes = sorted(result["nodes"], key=natural)
    return " - ".join(nodes) if len(nodes) < 3 else f"{nodes[0]} to {nodes[-1]} ({len(nodes)} nodes)"


def margin(measured: float | None, levels: t.Mapping[str, float]) -> float | None:
    """Return by what part of it a figure is above the lowest value without a complaint; negative below."""
    least = levels.get("warn", levels.get("fail"))
    return None if measured is None or not least else measured / least - 1


def _above(measured: float | None, levels: t.Mapping[str, float]) -> str:
    """Return by how much a figure passed."""
    part, least = margin(measured, levels), levels.get("warn", levels.get("fail"))
    expected = f", expected {levels['expected']:.4g}" if "expected" in levels else ""
    return "" if part is None else f"{part:.0%} above the limit of {least:.4g}{expected}"


def _bandwidth(
    result: t.Mapping[str, t.Any], short: shortfalls.Shortfall | None, name: str, title: str, levels: dict[str, float]
) -> Check:
    """Return the check of one group."""
    status, message = PASS, _above(result["busbw"], levels)
    if result["state"] != "ok":
        status, message = NOT_RUN if result["state"] == "not_measured" else FAIL, result["message"]
    elif short:
        unit = " GB/s" if short.message[-1].isdigit() else ""
        status, message = short.level, f"{short.message}{unit}{_samples(result)}"
    elif not result["checked"]:
        status, message = WARN, "the program did not check its results"
    who = _group(result)
    return check(
        name,
        title,
        status,
        f"{who}: {message}" if message and len(result["nodes"]) > 1 else message,
        result["nodes"][0] if len(result["nodes"]) == 1 else None,
        group=who,
        measured=result["busbw"],
        expected=levels.get("expected"),
        limits=levels,
        unit="GB/s",
        size=result.get("largest"),
    )


def _samples(result: t.Mapping[str, t.Any]) -> str:
    """Return what was measured, if it was measured several times."""
    samples = result.get("samples") or []
    figures = ", ".join("failed" if value is None else f"{value:.4g}" for value in samples)
    return f"; measured {len(samples)} times: {figures}" if len(samples) > 1 else ""


def _evidence(item: t.Mapping[str, t.Any], unit: str) -> str:
    """Return the figures behind a finding."""
    samples = item["samples"]
    figures = ", ".join(f"{value:.3g}" for value in samples)
    if len(samples) > 4:
        figures = f"{min(samples):.3g} to {max(samples):.3g}"
    gap = item["below_usual"]
    times = f" in {len(samples)} measurements" if len(samples) > 4 else ""
    usual = (
        ""
        if gap is None
        else f"{times}, {min(gap, 0.99):.0%}{' or more' if gap > 0.99 else ''} below what good groups reach"
    )
    return f"{figures} {unit}{usual}; confidence {item['confidence']}"


def memcpy(
    measured: t.Mapping[str, t.Mapping[str, float | None]], name: str, title: str, threshold: t.Any
) -> list[Check]:
    """Return one check per node of the slowest of its GPUs; O(measured) maps nodes to GB/s by GPU."""
    slowest = {
        node: min((value for value in gpus.values() if value is not None), default=None)
        for node, gpus in measured.items()
    }
    limits = {name: threshold} if threshold else {}
    levels = shortfalls.levels(name, threshold) if threshold else {}
    short = {item.name: item for item in shortfalls.shortfalls({name: slowest}, limits)}
    found = []
    for node, value in slowest.items():
        item = short.get(node)
        usual = statistics.median(v for v in measured[node].values() if v is not None) if value is not None else None
        text = item.message if item else f"slowest of {len(measured[node])} GPUs; median {usual:.4g}"
        text += "" if item or threshold else "; no limit is known"
        found.append(
            check(
                name,
                title,
                item.level if item else PASS,
                text,
                node,
                measured=value,
                expected=levels.get("expected"),
                limits=levels,
                unit="GB/s",
            )
        )
    return found
