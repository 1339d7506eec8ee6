# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Check a value against the spec and fill in defaults. Booleans and numbers may be strings."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs import types

if t.TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_cluster.spec import Option

ROOT = "azure_cluster"


def wrong(where: str, value: t.Any, allowed: str, known: t.Iterable[str] = ()) -> str:
    """Return the sentence about a value of azure_cluster, with the nearest of the known values."""
    return types.problem(f"{ROOT}.{where}", value, allowed) + (hint(str(value), known) if value is not None else "")


def problems(where: str, option: Option, value: t.Any) -> Iterator[str]:
    """Yield one sentence per fault of a value and of its parts: variable, value found, allowed values."""
    if isinstance(value, Mapping) and option["type"] == "dict" and ("variants" in option or "options" in option):
        yield from _entry(where, option, value)
    elif isinstance(value, list) and option.get("elements") == "dict":
        for index, item in enumerate(value):
            yield from problems(f"{where}[{index}]", _element(option), item)
    else:
        plain = {key: item for key, item in option.items() if key not in ("options", "choices")}
        yield from types.problems(where, plain, value)
        yield from _choice(where, option, value)


def filled(option: Option, value: t.Any) -> t.Any:
    """Return a faultless value with its defaults, as Python types."""
    value = option.get("default") if value is None else value
    if isinstance(value, Mapping) and ("variants" in option or "options" in option):
        keys = _keys(option, value)
        return {name: filled(part, value.get(name)) for name, part in keys.items()}
    if isinstance(value, list):
        return [filled(_element(option), item) for item in value]
    return _CONVERT.get(option["type"], _same)(value)


def chosen(option: Option, value: Mapping[str, t.Any]) -> str:
    """Return the variant that a mapping selects; the first one is the default."""
    return str(value.get("type") or next(iter(option["variants"])))


def _element(option: Option) -> Option:
    """Return the spec of the elements of a list."""
    element = option.get("element") or {**option, "type": option.get("elements", "str"), "elements": "str"}
    return t.cast("Option", element)


def _keys(option: Option, value: Mapping[str, t.Any]) -> dict[str, Option]:
    """Return the keys that a mapping may have."""
    if "variants" not in option:
        return t.cast("dict[str, Option]", option["options"])
    kind = {"type": "str", "default": chosen(option, value)}
    return {"type": kind, **option["variants"][chosen(option, value)]}


def _entry(where: str, option: Option, value: Mapping[str, t.Any]) -> Iterator[str]:
    """Check the keys of a mapping and their values."""
    variants = option.get("variants")
    if variants and chosen(option, value) not in variants:
        yield from _choice(f"{where}.type", {"choices": list(variants)}, value["type"])
        return
    keys = _keys(option, value)
    for name in value:
        if name not in keys:
            yield f"{where}: found the key {name!r}; allowed: {', '.join(keys)}{hint(str(name), keys)}"
    for name, part in keys.items():
        if value.get(name) is not None:
            yield from problems(f"{where}.{name}", part, value[name])
        elif part.get("required"):
            yield types.problem(f"{where}.{name}", None, _ARTICLES[part["type"]])


def _choice(where: str, option: Option, value: t.Any) -> Iterator[str]:
    choices = [str(choice) for choice in option.get("choices") or ()]
    if choices and str(value) not in choices:
        yield types.problem(where, value, ", ".join(choices)) + hint(str(value), choices)


def hint(name: str, known: t.Iterable[str]) -> str:
    """Return the nearest known name as the end of a sentence; case does not matter."""
    lower = {choice.lower(): choice for choice in known}
    near = types.nearest(name.lower(), lower, 0.6)
    return f"; did you mean {lower[near]}?" if near else ""


def _same(value: t.Any) -> t.Any:
    return value


def _text(value: t.Any) -> str | None:
    return None if value is None else str(value).strip()


def _number(kind: type[int] | type[float]) -> t.Callable[[t.Any], t.Any]:
    return lambda value: None if value is None else kind(str(value))


_CONVERT: dict[str, t.Callable[[t.Any], t.Any]] = {
    "str": _text,
    "path": _text,
    "int": _number(int),
    "float": _number(float),
    "bool": lambda value: None if value is None else types.is_true(value),
}
_ARTICLES = {
    "str": "a text",
    "path": "an absolute path",
    "int": "a whole number",
    "list": "a list",
    "dict": "a mapping",
}
