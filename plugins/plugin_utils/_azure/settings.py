# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Define the settings of the Azure inventory, its errors and the clouds."""

from __future__ import annotations

import dataclasses
import difflib
import fnmatch
import hashlib
import json
import re
import typing as t

SCHEMA = 2  # of the cached records; a change invalidates older caches

API_VERSIONS = {
    "compute": "2025-04-01",
    "network": "2025-05-01",
    "scale_set_network": "2018-10-01",
    "resource_graph": "2024-04-01",
    "resources": "2021-04-01",
    "subscriptions": "2022-12-01",
    "metadata": "2022-09-01",
}

FILTERS = ("resource_groups", "locations", "tags", "vm_sizes", "scale_sets", "powerstates", "names")
_GUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


class AzureInventoryError(Exception):
    """An error about Azure or the inventory file; the message says what to change."""


class ConfigError(AzureInventoryError):
    """An option of the inventory file is not valid."""


class Cloud(t.NamedTuple):
    """The two addresses that identify an Azure cloud."""

    name: str
    resource_manager: str
    authority: str


CLOUDS = {
    cloud.name.lower(): cloud
    for cloud in (
        Cloud("AzureCloud", "https://management.azure.com", "https://login.microsoftonline.com"),
        Cloud("AzureUSGovernment", "https://management.usgovcloudapi.net", "https://login.microsoftonline.us"),
        Cloud("AzureChinaCloud", "https://management.chinacloudapi.cn", "https://login.chinacloudapi.cn"),
    )
}


@dataclasses.dataclass(frozen=True)
class Settings:
    """All settings that affect the list of machines; none of them is secret."""

    cloud: str = "AzureCloud"
    subscriptions: tuple[str, ...] = ()
    management_groups: tuple[str, ...] = ()
    vm_groups: tuple[str, ...] = ("*",)
    vmss_groups: tuple[str, ...] = ()
    filters: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)
    graph_where: str = ""
    source: str = "auto"
    verify: str = "scale_sets"
    vmss_tags: bool = False
    placement_groups: bool = False
    exact_ids: bool = False
    strict: bool = False
    concurrency: int = 8
    timeout: int = 60
    retries: int = 8
    max_wait: int = 300
    deadline: int = 300
    api_versions: t.Mapping[str, str] = dataclasses.field(default_factory=dict)

    def version(self, api: str) -> str:
        """Return the API version to request."""
        return self.api_versions.get(api) or API_VERSIONS[api]

    def digest(self, identity: t.Sequence[str]) -> str:
        """Return a short key that differs whenever the answer may differ; identity is the caller, without a secret."""
        parts = {name: value for name, value in dataclasses.asdict(self).items() if name not in _NOT_IN_DIGEST}
        text = json.dumps([SCHEMA, list(identity), parts], sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:24]


_NOT_IN_DIGEST = ("strict", "concurrency", "timeout", "retries", "max_wait", "deadline", "api_versions")


def is_guid(text: str) -> bool:
    """Return whether a string has the form of a subscription id."""
    return bool(_GUID.fullmatch(text))


def check_filters(filters: t.Any) -> dict[str, t.Any]:
    """Return O(filters) in normal form: lists as tuples in lower case, tags as a mapping of key to tuple or None."""
    if not isinstance(filters, dict):
        raise ConfigError(f"filters must be a mapping, found {type(filters).__name__}; allowed keys: {_names(FILTERS)}")
    unknown = sorted(set(filters) - set(FILTERS))
    if unknown:
        raise ConfigError(f"filters has the unknown key {unknown[0]!r}{meant(unknown[0], FILTERS)}{_allowed(FILTERS)}")
    found: dict[str, t.Any] = {name: _lowered(value) for name, value in filters.items() if name != "tags"}
    tags = filters.get("tags") or {}
    if not isinstance(tags, dict):
        raise ConfigError("filters.tags must be a mapping of a tag to a value, a list of values or null")
    if tags:
        found["tags"] = {str(key): None if value is None else _texts(value) for key, value in tags.items()}
    return {name: value for name, value in found.items() if value}


def check_versions(versions: t.Any) -> dict[str, str]:
    """Return O(api_versions) after a check of its keys."""
    unknown = sorted(set(versions or {}) - set(API_VERSIONS))
    if unknown:
        wrong = str(unknown[0])
        raise ConfigError(
            f"api_versions has the unknown key {wrong!r}{meant(wrong, API_VERSIONS)}{_allowed(API_VERSIONS)}"
        )
    return {name: str(version) for name, version in (versions or {}).items()}


def split_groups(environment: str | None, option: t.Any) -> tuple[str, ...]:
    """Return resource groups from an environment variable (comma separated) or else from the option."""
    names = environment.split(",") if environment else option or []
    cleaned = tuple(dict.fromkeys(str(name).strip() for name in names if str(name).strip()))
    return ("*",) if "*" in cleaned else cleaned


def meant(wrong: str, known: t.Iterable[str]) -> str:
    """Return a question with the most similar name, if there is one."""
    near = difflib.get_close_matches(wrong.lower(), sorted(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def check_keys(keys: t.Iterable[str], known: t.Iterable[str]) -> None:
    """Refuse unknown keys of the inventory file; Ansible itself ignores them."""
    names = set(known)
    for key in keys:
        if key not in names:
            raise ConfigError(f"the file has the unknown key {key!r}{meant(str(key), names)}")


def fits(name: t.Any, patterns: t.Iterable[str]) -> bool:
    """Return whether a name matches one of some patterns with C(*) and C(?), ignoring case."""
    lowered = str(name).lower()
    return any(fnmatch.fnmatchcase(lowered, pattern.lower()) for pattern in patterns)


def is_pattern(name: str) -> bool:
    """Return whether a name is a pattern; names of resource groups cannot contain these characters."""
    return any(char in name for char in "*?[")


def tag(tags: t.Mapping[str, t.Any], name: str) -> t.Any:
    """Return the value of a tag, or None; names of tags ignore case in Azure."""
    if name in tags:
        return tags[name]
    lowered = name.lower()
    return next((value for key, value in tags.items() if key.lower() == lowered), None)


def _texts(value: t.Any) -> tuple[str, ...]:
    values = value if isinstance(value, (list, tuple)) else [value]
    return tuple(str(item) for item in values)


def _lowered(value: t.Any) -> tuple[str, ...]:
    return tuple(item.lower() for item in _texts(value)) if value is not None else ()


def _names(names: t.Iterable[str]) -> str:
    return ", ".join(sorted(names))


def _allowed(names: t.Iterable[str]) -> str:
    return f"; allowed keys: {_names(names)}"
