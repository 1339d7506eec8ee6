# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Select the records that become hosts: filters, and the default rules for stopped machines."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.settings import fits, tag

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    Record = dict[str, t.Any]

# The exact rules of azure_rm, because inventory files set this option to remove one of them.
DEFAULT_RULES = ('powerstate != "running"', 'provisioning_state != "succeeded"')
OFF = ("stopped", "stopping", "deallocated", "deallocating", "hibernated")

_COLUMNS = {
    "resource_groups": "resource_group",
    "locations": "location",
    "vm_sizes": "vm_size",
    "powerstates": "powerstate",
    "names": "name",
}


def keep(records: Iterable[Record], filters: Mapping[str, t.Any]) -> list[Record]:
    """Return the records that match every filter; strings are compared without case, tag values with case."""
    return [record for record in records if _meets(record, filters)]


def _meets(record: Record, filters: Mapping[str, t.Any]) -> bool:
    for key, column in _COLUMNS.items():
        if filters.get(key) and not _among(key, record, column, filters[key]):
            return False
    if filters.get("scale_sets") and str(record["vmss"].get("name", "")).lower() not in filters["scale_sets"]:
        return False
    return _has_tags(record["tags"], filters.get("tags") or {})


def _among(key: str, record: Record, column: str, values: Sequence[str]) -> bool:
    value = str(record[column] or "").lower()
    if key == "resource_groups":
        return fits(value, values)
    # A state that cannot be read excludes no machine; a warning reports that it is missing.
    return value in values or (key == "powerstates" and "powerstate" in record["facts_missing"])


def _has_tags(tags: Mapping[str, t.Any], wanted: Mapping[str, t.Any]) -> bool:
    """Return whether all tags match; as in Azure, names of tags ignore case and values do not."""
    for name, values in wanted.items():
        value = tag(tags, name)
        if value is None or (values is not None and str(value) not in values):
            return False
    return True


def uses_default_rules(rules: Sequence[str]) -> bool:
    """Return whether the rules for stopped machines have their default values."""
    return tuple(rules) == DEFAULT_RULES


def hidden_by_default(record: Record) -> str | None:
    """Return why the default rules skip a machine: C(off) is normal, any other reason deserves a warning."""
    if record["powerstate"] != "running":
        if "powerstate" in record["facts_missing"]:
            return None
        return "off" if record["powerstate"] in OFF else f"power state {record['powerstate']}"
    if record["provisioning_state"] != "succeeded":
        return f"provisioning state {record['provisioning_state']}"
    return None
