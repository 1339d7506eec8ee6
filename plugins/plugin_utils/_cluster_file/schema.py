# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
Check data against schema.json, the JSON Schema of cluster.yml.

ansible-core has no validator of JSON Schema, so this one knows the keywords that schema.json uses; a test compares it
with a complete validator. The keywords that begin with C(x-) belong to the collection: C(x-allowed) describes the
allowed values in a message, C(x-secret) hides the value found, C(x-variable) and C(x-slurm) name the variable and the
key of slurm.conf that get the value.
"""

from __future__ import annotations

import functools
import json
import re
import typing as t
from collections.abc import Mapping
from pathlib import Path

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs import types

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Schema = Mapping[str, t.Any]

Path_ = tuple[t.Union[str, int], ...]
_FILE = Path(__file__).with_name("schema.json")
_SHOWN = 60


class Fault(t.NamedTuple):
    """A wrong value: its path in the file, what was found, what is allowed, and the nearest allowed word."""

    path: Path_
    found: str
    allowed: str
    near: str = ""

    def __str__(self) -> str:
        """Return the sentence without the line."""
        hint = f"; did you mean {self.near}?" if self.near else ""
        return f"{where(self.path)}: found {self.found}; allowed: {self.allowed}{hint}"


@functools.cache
def load() -> dict[str, t.Any]:
    """Return the schema of cluster.yml."""
    return t.cast("dict[str, t.Any]", json.loads(_FILE.read_text(encoding="utf-8")))


def where(path: Path_) -> str:
    """Return a path as in messages: machines.gpu1.roles[0]."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.lstrip(".") or "cluster.yml"


def shown(value: t.Any) -> str:
    """Return a value for a message, shortened."""
    if value is None:
        return "nothing"
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def nearest(word: t.Any, known: Iterable[t.Any]) -> str:
    """Return the most similar known word, or an empty string; case does not matter."""
    lower = {str(one).lower(): str(one) for one in known}
    return lower.get(types.nearest(str(word).lower(), lower, 0.6), "")


def resolved(schema: Schema) -> Schema:
    """Return a schema with the keywords of its reference."""
    if "$ref" not in schema:
        return schema
    target = load()["$defs"][schema["$ref"].rpartition("/")[2]]
    return {**resolved(target), **{key: value for key, value in schema.items() if key != "$ref"}}


def faults(value: t.Any, schema: Schema | None = None, path: Path_ = ()) -> Iterator[Fault]:
    """Yield the faults of a value of the file and of its parts."""
    schema = resolved(load() if schema is None else schema)
    if is_vaulted(value) and "string" in _types(schema):
        return
    if "anyOf" in schema:
        yield from _any_of(value, schema, path)
    elif not _has_type(value, schema):
        yield _fault(value, schema, path)
    else:
        yield from _of_value(value, schema, path)


def is_vaulted(value: t.Any) -> bool:
    """Return whether a value has the tag !vault; such a value is not decrypted here."""
    return type(value).__name__ == "EncryptedString"


def _any_of(value: t.Any, schema: Schema, path: Path_) -> Iterator[Fault]:
    branch = next((one for one in map(resolved, schema["anyOf"]) if _has_type(value, one)), None)
    if branch is None:
        yield _fault(value, schema, path)
    else:
        yield from faults(value, branch, path)


def _of_value(value: t.Any, schema: Schema, path: Path_) -> Iterator[Fault]:
    """Yield the faults of a value of the right type."""
    if not _is_choice(value, schema) or not _is_allowed(value, schema):
        yield _fault(value, schema, path)
    elif isinstance(value, Mapping):
        yield from _of_mapping(value, schema, path)
    elif isinstance(value, list):
        yield from _of_list(value, schema, path)


def _of_list(value: list[t.Any], schema: Schema, path: Path_) -> Iterator[Fault]:
    if len(value) < schema.get("minItems", 0):
        yield _fault(value, schema, path)
    for index, item in enumerate(value):
        yield from faults(item, schema.get("items", {}), (*path, index))


def _of_mapping(value: Mapping[str, t.Any], schema: Schema, path: Path_) -> Iterator[Fault]:
    for name in schema.get("required", ()):
        if name not in value:
            yield Fault((*path, name), "nothing", _allowed(resolved(schema["properties"][name])))
    for name, item in value.items():
        inner = (*path, str(name))
        if not _is_name(name, schema):
            yield Fault(inner, shown(name), schema.get("propertyNames", {}).get("x-allowed", "a name"))
            continue
        part = _part(name, schema)
        if part is None:
            known = schema.get("properties", {})
            yield Fault(inner, "an unknown key", ", ".join(known), nearest(name, known))
        else:
            yield from faults(item, part, inner)


def _is_name(name: t.Any, schema: Schema) -> bool:
    names = schema.get("propertyNames")
    return isinstance(name, str) and (not names or bool(re.search(names["pattern"], name)))


def _part(name: str, schema: Schema) -> Schema | None:
    """Return the schema of one key, or None if the key is not allowed."""
    known = schema.get("properties", {}).get(name)
    if known is not None:
        return t.cast("Schema", known)
    for pattern, part in schema.get("patternProperties", {}).items():
        if re.search(pattern, name):
            return t.cast("Schema", part)
    others = schema.get("additionalProperties", {})
    return None if others is False else t.cast("Schema", others)


def _is_choice(value: t.Any, schema: Schema) -> bool:
    """Return whether a value is one of the choices, if the schema has any."""
    choices = schema.get("enum", [schema["const"]] if "const" in schema else [value])
    return value in choices


def _is_allowed(value: t.Any, schema: Schema) -> bool:
    """Return whether a value fits the keywords for numbers and strings."""
    if isinstance(value, str):
        pattern = schema.get("pattern")
        return len(value) >= schema.get("minLength", 0) and (not pattern or bool(re.search(pattern, value)))
    if isinstance(value, (int, float)):
        return bool(schema.get("minimum", value) <= value <= schema.get("maximum", value))
    return True


def _fault(value: t.Any, schema: Schema, path: Path_) -> Fault:
    found = "a value that is not shown here" if schema.get("x-secret") else shown(value)
    return Fault(path, found, _allowed(schema), nearest(value, schema.get("enum", ())))


def _allowed(schema: Schema) -> str:
    """Describe the values that a schema allows."""
    if "x-allowed" in schema:
        return str(schema["x-allowed"])
    if "const" in schema or "enum" in schema:
        choices = schema.get("enum") or [schema["const"]]
        return ", ".join(repr(choice) if choice == "" else str(choice) for choice in choices)
    return " or ".join(_NAMES[kind].format(**_range(schema)) for kind in _types(schema)) or "a value"


def _range(schema: Schema) -> dict[str, str]:
    """Return the words for the range of a number."""
    low, high = schema.get("minimum"), schema.get("maximum")
    words = f" from {low} to {high}" if high is not None else f" of {low} or more" if low is not None else ""
    return {"range": words}


def _types(schema: Schema) -> list[str]:
    kinds = schema.get("type", [])
    return [kinds] if isinstance(kinds, str) else list(kinds)


def _has_type(value: t.Any, schema: Schema) -> bool:
    kinds = _types(schema)
    return not kinds or any(_TYPES[kind](value) for kind in kinds)


_TYPES: dict[str, t.Callable[[t.Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, Mapping),
}
_NAMES = {
    "string": "a text (in quotes if it looks like a number, a date or true and false)",
    "boolean": "true or false",
    "integer": "a whole number{range}",
    "array": "a list",
    "object": "a mapping of names to values",
}
