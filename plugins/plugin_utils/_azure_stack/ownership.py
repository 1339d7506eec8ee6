# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Tell what belongs to a cluster from what does not: by the stack that made it, and by the tag of the cluster."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.settings import tag
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_stack import template as templates

if t.TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_stack.whatif import Existing
    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_stack.writer import Writer

    Body = dict[str, t.Any]

TAG = "gpucluster_cluster"
# They have no tags, and their names are digests of the cluster.
_NAMED_BY_DIGEST = ("microsoft.authorization/roleassignments", "microsoft.authorization/roledefinitions")


def owner(found: Mapping[str, t.Any]) -> str | None:
    """Return the cluster to which the tag of a resource or of a group assigns it, or None without the tag."""
    name = tag(found.get("tags") or {}, TAG)
    return None if name is None else str(name)


def taken(
    there: Sequence[Existing], managed: Collection[str], cluster: str, adopt: Iterable[str], writer: Writer
) -> list[str]:
    """
    Return what a template would change although it is not of the cluster: type, name and owner.

    I(managed) has the IDs of the stack's resources in lower case. They are ours unless their tag names another cluster.
    What is inside another resource of the template belongs to whom that belongs.
    """
    inside = tuple(f"{one.resource.id.lower()}/" for one in there)
    wanted = {name.lower() for name in adopt}
    found = []
    for resource, body in there:
        known = resource.id.lower() in managed
        if resource.name.lower() in wanted or resource.type.lower() in _NAMED_BY_DIGEST:
            continue
        if not known and resource.id.lower().startswith(inside):
            continue
        asks = body is None and not known
        row = writer.get(resource.id, str(resource.body.get("apiVersion", ""))) if asks else body
        if row is not None and owner(row) not in ((cluster, None) if known else (cluster,)):
            found.append(f"{resource.type} {resource.name}{_of(row)}")
    return found


def strangers(rows: Sequence[Body], template: Mapping[str, t.Any], group_id: str) -> list[str]:
    """
    Return which resources of a stack are not of the cluster any more: type, name and owner.

    I(rows) are those without the tag of the cluster. One without any owner counts if the template gave it the tag.
    """
    whole = templates.resources({"resources": [], **template}, group_id)
    tagged = {one.id.lower() for one in whole if owner(one.body)}
    return [
        f"{one.get('type')} {one.get('name')}{_of(one)}"
        for one in rows
        if owner(one) or str(one["id"]).lower() in tagged
    ]


def _of(found: Mapping[str, t.Any]) -> str:
    name = owner(found)
    return f" of the cluster {name}" if name else ""
