# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Check that all nodes have the same versions, users and mounts, and find themselves."""

from __future__ import annotations

import ipaddress
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
    computes = {node["name"] for node in states} or set(answered)
    found += _versions(answered, computes)
    for name, facts in answered.items():
        found += [_clock(name, facts["clock"]), *_mounts(name, facts["mounts"])]
        if name in computes:
            found.append(_own_name(name, facts["own_name"]))
    return found + _nccl(answered, states) + _users(answered)


def _nccl(nodes: t.Mapping[str, t.Mapping[str, t.Any]], states: t.Sequence[t.Mapping[str, t.Any]]) -> list[Check]:
    """Return whether nodes with the same GPUs and CPUs have the same settings of NCCL; those that differ fail."""
    kinds: dict[tuple[t.Any, ...], dict[str, t.Any]] = {}
    for node in states:
        if "nccl_conf" in nodes.get(node["name"], {}):
            kind = (node.get("gres"), node.get("gpus"), node.get("cpus"))
            kinds.setdefault(kind, {})[node["name"]] = nodes[node["name"]]["nccl_conf"]
    return [
        check("preflight.nccl_conf", "settings of NCCL", *_settings(settings, same), name)
        for same in kinds.values()
        for name, settings in same.items()
    ]


def _settings(settings: t.Mapping[str, str] | None, same: t.Mapping[str, t.Any]) -> tuple[str, str]:
    """Return status and message of the settings of a node, beside those of all nodes of its kind."""
    if settings is None:
        return WARN, "/etc/nccl.conf cannot be read"
    ranked = Counter(tuple(sorted(one.items())) for one in same.values() if one is not None).most_common(2)
    first, *others = [dict(one) for one, _count in ranked]
    # If no settings are those of most nodes, nobody knows which are wrong.
    tied = bool(others) and ranked[0][1] == ranked[1][1]
    usual = others[0] if tied and settings == first else first
    where = "as many" if tied else "most"
    wrong = [
        f"{key} is {settings.get(key, 'not set')}, but {usual.get(key, 'not set')} on {where} equal nodes"
        for key in sorted({*settings, *usual})
        if settings.get(key) != usual.get(key)
    ]
    return (FAIL if wrong else PASS), "; ".join(wrong)


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


def _own_name(name: str, own: t.Mapping[str, t.Any]) -> Check:
    """Return whether a node finds itself at an address that others reach: programs of a job tell it to the others."""
    addresses = own["addresses"]
    if addresses is None:
        status, text = WARN, f"nothing says what {own['name']} resolves to"
    elif not addresses:
        status, text = FAIL, f"{own['name']} does not resolve here"
    else:
        loopback = ipaddress.ip_address(addresses[0]).is_loopback
        status, text = FAIL if loopback else PASS, f"{own['name']} resolves to {addresses[0]} here"
    return check("preflight.own_name", "own name", status, text, name)


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
