# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
Names of resources and the limits of Azure for them.

Sources: MicrosoftDocs/azure-docs, articles/azure-resource-manager/management/resource-name-rules.md (names), and
tag-resources.md (tags).
"""

from __future__ import annotations

import hashlib
import re
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_cluster.values import wrong

if t.TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# Resource groups may have 90 characters, virtual machines of Linux 64, the host name of an instance is its prefix and
# six characters. A cluster name of 20 and a set name of 20 leave room for the suffix of a group.
CLUSTER = re.compile(r"(?!.*--)[a-z][a-z0-9-]{1,18}[a-z0-9]")
SET = re.compile(r"(?!.*--)[a-z][a-z0-9-]{0,18}[a-z0-9]|[a-z]")
_GROUP = re.compile(r"[A-Za-z0-9_().-]{0,89}[A-Za-z0-9_()-]")
_TAG_NAME = re.compile(r"[^<>%&\\?/\x00-\x1f]{1,512}")
# Azure allows 50 tags; storage accounts only 128 characters in a name. The template adds at most six.
_OWN_TAGS = 6
MAX_TAGS = 50
OUR_TAGS = ("slurm_cluster", "slurm_role", "gpucluster_set", "gpucluster_delete_after", "gpucluster_cluster")


def of_set(cluster: str, name: str) -> str:
    """Return the name of what a set has in a resource group: no other cluster and set have it."""
    return f"{cluster}--{name}"


def scale_set(cluster: str, name: str, number: int) -> str:
    """Return the name of the scale set of a placement group; the first group of a set never changes its name."""
    return of_set(cluster, name) if number == 1 else f"{of_set(cluster, name)}--{number}"


def host_prefix(scale_set: str) -> str:
    """Return the begin of the host names of a scale set, which are unique within a cluster only."""
    return f"{scale_set.replace('--', '-')}-"


def storage_account(cluster: str, subscription: str, group: str) -> str:
    """Return a name of 3 to 24 lower-case letters and digits, unique in all of Azure."""
    digest = hashlib.sha256(f"{subscription}/{group}/{cluster}".lower().encode()).hexdigest()[:10]
    return (re.sub(r"[^a-z0-9]", "", cluster)[:14] + digest).lower()


def problems(cluster: Mapping[str, t.Any]) -> Iterator[str]:
    """Yield the faults of names and tags."""
    if not CLUSTER.fullmatch(cluster["name"]):
        yield wrong("name", cluster["name"], "3 to 20 lower-case letters, digits and single -, beginning with a letter")
    group = cluster["resource_group"]
    if group is not None and not _GROUP.fullmatch(group):
        yield wrong("resource_group", group, "1 to 90 letters, digits and _-.(), without a dot at the end")
    yield from _tags(cluster["tags"])


def _tags(tags: Mapping[t.Any, t.Any]) -> Iterator[str]:
    if len(tags) > MAX_TAGS - _OWN_TAGS:
        yield wrong("tags", f"{len(tags)} tags", f"at most {MAX_TAGS - _OWN_TAGS}, because Azure allows {MAX_TAGS}")
    ours = {name.lower() for name in OUR_TAGS}
    for name, value in tags.items():
        if not _TAG_NAME.fullmatch(str(name)) or str(name).lower().startswith(("azure", "microsoft", "windows")):
            yield wrong("tags", name, "names of 1 to 512 characters without <>%&\\?/, not beginning with azure")
        elif str(name).lower() in ours:
            yield wrong("tags", name, f"names other than {', '.join(OUR_TAGS)}, which the template sets")
        if isinstance(value, (dict, list)) or len(str(value)) > 256:
            yield wrong(f"tags.{name}", value, "a text of at most 256 characters")
