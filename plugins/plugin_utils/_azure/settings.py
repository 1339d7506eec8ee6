# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Define the settings of the Azure inventory, and check the keys of its file."""

from __future__ import annotations

import dataclasses
import difflib
import fnmatch
import hashlib
import json
import re
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.sign_in import AzureError

SCHEMA = 3  # of the cached records; a change invalidates older caches

FILTERS = ("resource_groups", "locations", "tags", "vm_sizes", "scale_sets", "powerstates", "names")
_GUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


class ConfigError(AzureError):
    """An option of the inventory file is not valid."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """All settings that affect the list of machines; none of them is secret."""

    cloud: str = "AzureCloud"
    subscriptions: tuple[str, ...] = ()
    vm_groups: tuple[str, ...] = ("*",)
    vmss_groups: tuple[str, ...] = ()
    filters: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)
    vmss_tags: bool = False

    def digest(self, caller: t.Sequence[str]) -> str:
        """Return a short key that differs whenever the answer may differ; the caller is without a secret."""
        text = json.dumps([SCHEMA, list(caller), dataclasses.asdict(self)], sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:24]


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


def split_groups(environment: str | None, option: t.Any) -> tuple[str, ...]:
    """Return resource groups from an environment variable (comma separated) or else from the option."""
    names = environment.split(",") if environment else option or []
    cleaned = tuple(dict.fromkeys(str(name).strip() for name in names if str(name).strip()))
    return ("*",) if "*" in cleaned else cleaned


def meant(wrong: str, known: t.Iterable[str]) -> str:
    """Return a question with the most similar name, if there is one."""
    near = difflib.get_close_matches(wrong.lower(), sorted(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


# Keys that files of azure_rm, and older files of this plugin, have.
REMOVED = {
    "lists of Resource Manager are the only source; remove it": (
        "source verify graph_where placement_groups azure_rm_names api_versions max_wait"
    ),
    "name the subscriptions in subscriptions": "management_groups",
    "set filters or include_host_filters": "query",
    "set strict": "fail_on_template_errors",
    "set hostnames: [name]": "plain_host_names",
    "set groups": "conditional_groups",
    "set compose": "hostvar_expressions",
    "set the environment variable REQUESTS_CA_BUNDLE": "cert_validation_mode",
    "set tenant, client_id and secret, or their environment variables": "profile",
    "sign in with az login and set auth_source: cli": "ad_user password",
    "list those machines with azure.azcollection.azure_rm": (
        "include_arc_resource_groups include_hcivm_resource_groups"
    ),
    "it has no effect here; remove it": (
        "batch_fetch batch_fetch_interval batch_fetch_timeout api_profile log_mode log_path thumbprint "
        "use_contrib_script_compatible_sanitization"
    ),
}


def check_keys(keys: t.Iterable[str], known: t.Iterable[str]) -> None:
    """Refuse unknown keys of the inventory file; Ansible itself ignores them."""
    names = set(known)
    for key in keys:
        instead = next((text for text, gone in REMOVED.items() if key in gone.split()), "")
        if instead:
            raise ConfigError(f"{key} is not supported; {instead}")
        if key not in names:
            raise ConfigError(f"the file has the unknown key {key!r}{meant(str(key), names)}")


def fits(name: t.Any, patterns: t.Iterable[str]) -> bool:
    """Return whether a name matches one of some patterns with C(*) and C(?), ignoring case."""
    lowered = str(name).lower()
    return any(fnmatch.fnmatchcase(lowered, pattern.lower()) for pattern in patterns)


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
