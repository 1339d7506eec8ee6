# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Check what a person asks of a set, before any request."""

from __future__ import annotations

import re
import typing as t
from collections.abc import Mapping

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.settings import meant
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_scale.scale_sets import ONE_GROUP, ScaleError

if t.TYPE_CHECKING:
    from collections.abc import Iterator

    Words = Mapping[str, t.Any]


def request(cluster: t.Any, words: Words) -> dict[str, t.Any]:
    """
    Return where the set is and what it shall be: C(count), or C(nodes) that leave.

    O(words) are C(set), C(count), C(nodes) and C(wait_for_jobs) of the command line. Raise ScaleError with all faults.
    """
    faults = list(_faults(cluster, words))
    if faults:
        raise ScaleError(f"{'; '.join(faults)}. Nothing was changed")
    entry = _sets(cluster)[str(words["set"])]
    return {
        "subscription_id": str(cluster.get("subscription_id") or ""),
        "resource_group": str(cluster.get("resource_group") or cluster["name"]),
        "cluster": str(cluster["name"]),
        "set": str(words["set"]),
        "limit": int(entry.get("instances_per_group") or ONE_GROUP),
        "count": int(str(words["count"])) if _given(words, "count") else None,
        "nodes": _names(words.get("nodes")),
        "wait_for_jobs": int(str(words["wait_for_jobs"])),
    }


def _faults(cluster: t.Any, words: Words) -> Iterator[str]:
    if not isinstance(cluster, Mapping) or not cluster.get("name"):
        yield "azure_cluster is not defined; it describes the cluster, see docs/azure-cluster.md"
        return
    name, known = str(words["set"]), list(_sets(cluster))
    if name not in known:
        allowed = ", ".join(known) or "none, because azure_cluster has no gpu_sets"
        yield f"set: found {name!r}; allowed: {allowed}{meant(name, known)}"
    elif _sets(cluster)[name].get("elastic"):
        yield f"set: {name} is elastic; Slurm starts and deletes its machines (docs/elastic.md)"
    if _given(words, "count") == bool(_names(words.get("nodes"))):
        yield "set count, the number of machines that the set shall have, or nodes, the names of those that leave"
    for word in ("count", "wait_for_jobs"):
        if _given(words, word) and not re.fullmatch(r"\d{1,5}", str(words[word])):
            yield f"{word}: found {str(words[word])!r}; allowed: a whole number"


def _sets(cluster: Words) -> dict[str, Words]:
    return {str(one.get("name")): one for one in cluster.get("gpu_sets") or () if isinstance(one, Mapping)}


def _given(words: Words, word: str) -> bool:
    return str(words.get(word, "") if words.get(word) is not None else "") != ""


def _names(value: t.Any) -> list[str]:
    """Return names from a list or from a string with commas."""
    found = value.split(",") if isinstance(value, str) else list(value or ())
    return [str(name).strip() for name in found if str(name).strip()]
