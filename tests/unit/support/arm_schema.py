# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""
The models of Microsoft's SDK as a schema for the resources of a template.

Each property must exist where it is, be writable, and have a value of the type or of the enum of the model. What a
model requires must be there. The SDK is a requirement of the tests only.
"""

from __future__ import annotations

import enum
import functools
import importlib
import re
import typing as t
from collections.abc import Mapping

if t.TYPE_CHECKING:
    from collections.abc import Iterator

COMPUTE, NETWORK = "azure.mgmt.compute.models", "azure.mgmt.network.models"
# The model of a resource of each type, and the API version of that SDK.
MODELS: dict[str, tuple[str, str, str]] = {
    "Microsoft.Compute/availabilitySets": (COMPUTE, "AvailabilitySet", "2026-04-01"),
    "Microsoft.Compute/disks": (COMPUTE, "Disk", "2026-03-02"),
    "Microsoft.Compute/virtualMachines": (COMPUTE, "VirtualMachine", "2026-04-01"),
    "Microsoft.Network/bastionHosts": (NETWORK, "BastionHost", "2026-03-01"),
    "Microsoft.Network/natGateways": (NETWORK, "NatGateway", "2026-03-01"),
    "Microsoft.Network/networkInterfaces": (NETWORK, "NetworkInterface", "2026-03-01"),
    "Microsoft.Network/networkSecurityGroups": (NETWORK, "NetworkSecurityGroup", "2026-03-01"),
    "Microsoft.Network/publicIPAddresses": (NETWORK, "PublicIPAddress", "2026-03-01"),
    "Microsoft.Network/virtualNetworks": (NETWORK, "VirtualNetwork", "2026-03-01"),
    "Microsoft.ManagedIdentity/userAssignedIdentities": ("azure.mgmt.msi.v2024_11_30.models", "Identity", "2024-11-30"),
    "Microsoft.Authorization/roleAssignments": (
        "azure.mgmt.authorization.v2022_04_01.models",
        "RoleAssignmentCreateParameters",
        "2022-04-01",
    ),
    "Microsoft.Authorization/roleDefinitions": (
        "azure.mgmt.authorization.v2022_04_01.models",
        "RoleDefinition",
        "2022-04-01",
    ),
}
# What belongs to the template and not to the body of the resource.
ENVELOPE = ("type", "apiVersion", "name", "dependsOn")
# Enums that Microsoft no longer completes: azure-mgmt-compute says that this one has not all sizes.
_INCOMPLETE = ("VirtualMachineSizeTypes",)
_EXPRESSION = re.compile(r"\[reference\('/subscriptions/[^']+', '[0-9-]+'(, 'Full'\)\.identity|\))\.principalId\]")


class Field(t.NamedTuple):
    """One property of a model: its type, whether it may be written, and whether it must be there."""

    type: t.Any
    writable: bool
    required: bool


def faults(template: Mapping[str, t.Any]) -> list[str]:
    """Return the faults of all resources of a template."""
    return [fault for resource in template["resources"] for fault in _resource(resource)]


def shape_faults(module: str, name: str, value: t.Any) -> list[str]:
    """Return what a request or an answer has that a model lacks, or in another type; some types are not judged."""
    model = getattr(importlib.import_module(module), name)
    known = (": read-only in ", "cannot judge typing.Any")
    return [fault for fault in _model(name, model, value) if not any(words in fault for words in known)]


def _resource(resource: Mapping[str, t.Any]) -> Iterator[str]:
    kind, where = resource["type"], f"{resource['type']} {resource['name']}"
    if kind not in MODELS:
        yield f"{where}: unknown type"
        return
    module, name, version = MODELS[kind]
    if resource["apiVersion"] != version:
        yield f"{where}.apiVersion: {resource['apiVersion']} is not {version}"
    body = {key: value for key, value in resource.items() if key not in ENVELOPE}
    yield from _model(where, getattr(importlib.import_module(module), name), body)


def _model(where: str, model: type, value: t.Any) -> Iterator[str]:
    if not isinstance(value, Mapping):
        yield f"{where}: {value!r} is not a {model.__name__}"
        return
    known = fields(model)
    for key, item in value.items():
        if key not in known:
            yield f"{where}.{key}: unknown to {model.__name__}"
        elif not known[key].writable:
            yield f"{where}.{key}: read-only in {model.__name__}"
        else:
            yield from _value(f"{where}.{key}", known[key].type, item)
    for key, field in known.items():
        if field.required and field.writable and key not in value:
            yield f"{where}.{key}: required by {model.__name__}"


@functools.cache
def fields(model: type) -> dict[str, Field]:
    """Return the properties of a model by their names in JSON."""
    return _old(model) if hasattr(model, "_attribute_map") else _new(model)


def _new(model: type) -> dict[str, Field]:
    """Return the properties of a model of the newer kind, which has typed fields."""
    models = importlib.import_module(model.__module__.rpartition(".")[0])
    hints = t.get_type_hints(model, localns={"_models": models})
    rest = t.cast("t.Any", model)({})._attr_to_rest_field
    return {
        field._rest_name: Field(
            hints[name], set(field._visibility or ["create"]) != {"read"}, not _optional(hints[name])
        )
        for name, field in rest.items()
    }


def _old(model: t.Any) -> dict[str, Field]:
    """Return the properties of a model of the older kind: a map with paths such as properties.principalId."""
    found: dict[str, Field] = {}
    inner: dict[str, Field] = {}
    for name, entry in model._attribute_map.items():
        rules = model._validation.get(name, {})
        kind = _old_type(model, entry["type"])
        field = Field(kind, not rules.get("readonly"), bool(rules.get("required")))
        head, _dot, tail = entry["key"].partition(".")
        (inner if tail else found)[tail or head] = field
    required = any(field.required for field in inner.values())
    return {**found, "properties": Field(type(model.__name__, (_Nested,), {"inner": inner}), True, required)}


def _old_type(model: t.Any, text: str) -> t.Any:
    """Return a type of an older model, which is a text such as {str} or [Permission]."""
    item = text.strip("[]{}")
    models = importlib.import_module(model.__module__)
    kind = getattr(models, item, str) if item[:1].isupper() else str
    return list[kind] if text.startswith("[") else dict[str, kind] if text.startswith("{") else kind  # type: ignore[valid-type]


class _Nested:
    """The mapping C(properties) of an older model."""

    inner: t.ClassVar[dict[str, Field]] = {}
    _attribute_map: t.ClassVar[dict[str, t.Any]] = {}


def _optional(hint: t.Any) -> bool:
    return type(None) in t.get_args(hint)


def _value(where: str, hint: t.Any, value: t.Any) -> Iterator[str]:
    """Compare a value with a type: model, enum, list, mapping or scalar."""
    choices = [part for part in t.get_args(hint) if part is not type(None)] if t.get_origin(hint) is t.Union else [hint]
    enums = [part for part in choices if isinstance(part, type) and issubclass(part, enum.Enum)]
    if enums and enums[0].__name__ not in _INCOMPLETE:
        allowed = {str(member.value) for kind in enums for member in kind}
        if value not in allowed:
            yield f"{where}: {value!r} is none of {', '.join(sorted(allowed))}"
        return
    yield from _part(where, choices[0], value)


def _part(where: str, kind: t.Any, value: t.Any) -> Iterator[str]:
    origin, args = t.get_origin(kind), t.get_args(kind)
    if origin in (list, dict):
        yield from _container(where, origin, args[-1], value)
    elif origin is t.Literal:
        yield from [] if value in args else [f"{where}: {value!r} is none of {args}"]
    elif kind in (str, int, float, bool):
        yield from _scalar(where, kind, value)
    elif isinstance(kind, type) and issubclass(kind, _Nested):
        yield from _nested(where, kind, value)
    elif isinstance(kind, type) and kind.__module__.startswith("azure."):
        yield from _model(where, kind, value)
    else:
        yield f"{where}: this schema cannot judge {kind}"


def _container(where: str, origin: t.Any, inner: t.Any, value: t.Any) -> Iterator[str]:
    """Compare a list or a mapping of names to values."""
    if not isinstance(value, origin):
        yield f"{where}: {value!r} is not a {origin.__name__}"
        return
    pairs: t.Iterable[tuple[t.Any, t.Any]] = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in pairs:
        yield from _value(f"{where}[{key}]", inner, item)


def _nested(where: str, kind: type[_Nested], value: t.Any) -> Iterator[str]:
    for key, item in value.items():
        if key not in kind.inner:
            yield f"{where}.{key}: unknown to {kind.__name__}"
        elif not kind.inner[key].writable:
            yield f"{where}.{key}: read-only in {kind.__name__}"
        else:
            yield from _value(f"{where}.{key}", kind.inner[key].type, item)
    for key, field in kind.inner.items():
        if field.required and key not in value:
            yield f"{where}.{key}: required by {kind.__name__}"


def _scalar(where: str, kind: type, value: t.Any) -> Iterator[str]:
    """Compare one value; only the id of an identity may be an expression."""
    fits = (int, float) if kind is float else kind
    if isinstance(value, bool) != (kind is bool) or not isinstance(value, fits):
        yield f"{where}: {value!r} is not a {kind.__name__}"
    elif isinstance(value, str) and value.startswith("[") and not _EXPRESSION.fullmatch(value):
        yield f"{where}: {value!r} is an expression"
