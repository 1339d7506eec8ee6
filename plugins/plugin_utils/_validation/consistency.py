# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Check that all nodes have the same versions, users and mounts."""

from __future__ import annotations

import typing as t
from collections import Counter

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation import node_states
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation.checks import (
    FAIL,
    PASS,
    WARN,
    Check,
    check,
)


def checks(
    nodes: t.Mapping[str, t.Mapping[str, t.Any] | None], states: t.Sequence[t.Mapping[str, t.Any]]
) -> list[Check]:
    """Return the checks of the facts of the nodes (None: a node does not answer) and of their state in Slurm."""
    answered = {name: facts for name, facts in nodes.items() if facts}
    found = [
        check("preflight.answers", "answers", PASS if facts else FAIL, "" if facts else "does not answer", name)
        for name, facts in nodes.items()
    ]
    found += [node_states.state(node) for node in states]
    found += _versions(answered, {node["name"] for node in states} or set(answered))
    for name, facts in answered.items():
        found += [_clock(name, facts["clock"]), *_mounts(name, facts["mounts"])]
    return found + _users(answered)


def _versions(nodes: t.Mapping[str, t.Mapping[str, t.Any]], computes: t.Collection[str]) -> list[Check]:
    """
    Return whether each component has the same version on all nodes; nodes with another version fail.

    A controller has no GPU: only its version of Slurm must match the nodes.
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
    """Return whether the mounts are present."""
    if not mounts:
        return []
    wrong = [f"{path} {state}" for path, state in mounts.items() if state != "ok"]
    return [
        check("preflight.mounts", "mounts", FAIL if wrong else PASS, ", ".join(wrong) or f"{len(mounts)} answer", name)
    ]


def _users(nodes: t.Mapping[str, t.Mapping[str, t.Any]]) -> list[Check]:
    """Return whether users have the same UID and GID on all nodes."""
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
    """Return the UID and GID of a user as a string."""
    entry = facts["users"].get(user)
    return f"{entry['uid']}:{entry['gid']}" if entry else None
