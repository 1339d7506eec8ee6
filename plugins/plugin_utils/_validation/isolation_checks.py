# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Report the node or path that the search found."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation.checks import (
    FAIL,
    PASS,
    WARN,
    Check,
    check,
)


def checks(verdict: t.Mapping[str, t.Any], failed: t.Collection[frozenset[str]], unit: str = "GB/s") -> list[Check]:
    """Return the checks that name the culprit; a culprit that explains no group in O(failed) is only a warning."""
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
