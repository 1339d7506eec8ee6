# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""What stops a first run and what the validation of Azure tells one by one or not at all. It only reads."""

from __future__ import annotations

import fnmatch
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._azure_machine import reasons
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import words
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.errors import RequestError

if t.TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_stack.writer import Writer

# "Providers - List" and "Permissions - List For Resource Group" of Microsoft's REST reference.
_PROVIDERS, _PERMISSIONS = "2021-04-01", "2022-04-01"


def problems(writer: Writer, subscription: str, scope: str, template: Mapping[str, t.Any]) -> Iterator[str]:
    """Yield the resource providers that are not registered, and the rights that the caller lacks on a scope."""
    kinds = sorted({one["type"] for one in template["resources"]})
    names = {kind.partition("/")[0] for kind in kinds}
    try:
        rows = writer.rows(f"{subscription}/providers", _PROVIDERS)
        registered = {one["namespace"].lower() for one in rows if one.get("registrationState") == "Registered"}
    except RequestError:
        registered = {name.lower() for name in names}  # an identity with rights in a resource group only may not ask
    for name in sorted(names):
        if name.lower() not in registered:
            yield f"{name} is not registered; run 'az provider register --namespace {name}'"
    try:
        given = writer.rows(f"{scope}/providers/Microsoft.Authorization/permissions", _PERMISSIONS)
    except RequestError:
        return  # it is documented for resource groups only, and the validation of Azure also looks at rights
    wanted = [f"{kind}/write" for kind in ("Microsoft.Resources/deploymentStacks", *kinds)]
    missing = [action for action in wanted if not any(_grants(one, action) for one in given)]
    if missing:
        yield f"you have no right to {words.listed(missing, 5)}; {reasons.ADVICE['authorizationfailed']}"


def _grants(permission: Mapping[str, t.Any], action: str) -> bool:
    """Return whether a permission contains an action; its patterns are not case-sensitive."""

    def names(key: str) -> bool:
        patterns = permission.get(key) or ()
        return any(fnmatch.fnmatchcase(action.lower(), pattern.lower()) for pattern in patterns)

    return names("actions") and not names("notActions")
