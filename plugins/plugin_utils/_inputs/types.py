# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
Check that values have the types of the roles' argument specs. All sentences have one form: variable, found, allowed.

Ansible's validator prints a whole spec for one wrong type, accepts a string as a list, and suggests no nearest name.
"""

from __future__ import annotations

import difflib
import functools
import ipaddress
import re
import typing as t
from collections.abc import Mapping
from pathlib import Path

from ansible.module_utils.common.yaml import yaml_load

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Option = Mapping[str, t.Any]

ROLES = Path(__file__).parents[3] / "roles"
TRUE, FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")
# Lists that their roles also accept as one string.
_TEXT_LISTS = ("nfs_mount_options", "validate_nodelist")
# Strings that may have several lines, or whose faults other code reports with better messages.
_LINES = ("munge_key", "docker_config", "users_accounts", "enroot_credentials", "enroot_config", "slurm_config")
_SECRET = re.compile(r"password$|^enroot_credentials$|^munge_key$")
# A proxy may have a login before its name.
_PROXY = re.compile(r"_proxy$")
_LOGIN = re.compile(r"[^\s'\"]*@")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_PATH = re.compile(r"/[A-Za-z0-9._/+@:,=%~-]*")
_LONGEST = 80


def problem(where: str, value: t.Any, allowed: str) -> str:
    """Return the sentence about one wrong value, without the value of a secret."""
    return f"{where}: found {shown(where, value)}; allowed: {allowed}"


def shown(where: str, value: t.Any) -> str:
    """Return a value, shortened for a message."""
    name = where.partition("[")[0].partition(".")[0]
    if _SECRET.search(name):
        return "a value that is not shown here"
    text = "nothing (null)" if value is None else repr(value)
    text = _LOGIN.sub("***@", text) if _PROXY.search(name) else text
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def nearest(name: str, known: Iterable[str], cutoff: float = 0.8) -> str:
    """Return the most similar known name, or an empty string."""
    return next(iter(difflib.get_close_matches(name, sorted(known), 1, cutoff)), "")


@functools.cache
def options() -> dict[str, dict[str, t.Any]]:
    """Return the inputs of all roles with their options; the first entry point with an input wins."""
    found: dict[str, dict[str, t.Any]] = {}
    for path in sorted(ROLES.glob("*/meta/argument_specs.yml")):
        for spec in yaml_load(path.read_text(encoding="utf-8"))["argument_specs"].values():
            for name, option in (spec.get("options") or {}).items():
                found.setdefault(name, {**option, "role": path.parts[-3]})
    return found


def of_role(role: str, entry_point: str | None = None) -> set[str]:
    """Return the names of the inputs of a role or of one entry point, or raise ValueError."""
    path = ROLES / role / "meta" / "argument_specs.yml"
    specs = yaml_load(path.read_text(encoding="utf-8"))["argument_specs"] if path.is_file() else {}
    wanted = [spec for name, spec in specs.items() if entry_point in (None, name)]
    if not wanted:
        raise ValueError(f"the collection has no role {role}" + (f" with {entry_point}" if specs else ""))
    return {name for spec in wanted for name in spec.get("options") or {}}


def problems(where: str, option: Option, value: t.Any) -> Iterator[str]:
    """Yield the faults of a value: its type, its parts and its choices."""
    if where in _TEXT_LISTS and isinstance(value, str):
        return
    empty = option.get("type") == "path" and value == "" and option.get("default", "") == ""
    wrong = "" if empty else _KINDS[option.get("type", "str")](value)
    if wrong:
        yield problem(where, value, wrong)
        return
    choices = option.get("choices")
    if choices and not isinstance(value, list) and str(value) not in map(str, choices):
        yield problem(where, value, ", ".join(repr(choice) if choice == "" else str(choice) for choice in choices))
    elif isinstance(value, Mapping):
        yield from _entry(where, option.get("options"), value)
    elif isinstance(value, list):
        parts = {key: option[key] for key in ("choices", "options") if key in option}
        element = {"type": option.get("elements", "raw"), **parts}
        for index, item in enumerate(value):
            yield from problems(f"{where}[{index}]", element, item)
    if not where.startswith(_LINES):
        yield from _lines(where, value)


def is_address(text: str) -> bool:
    """Return whether a string is an IP address."""
    try:
        return bool(ipaddress.ip_address(text))
    except ValueError:
        return False


def is_true(value: t.Any) -> bool:
    """Return a boolean input as a Python bool."""
    return str(value).strip().lower() in TRUE


def _entry(where: str, spec: Mapping[str, Option] | None, value: Mapping[str, t.Any]) -> Iterator[str]:
    """Check the keys of a mapping with known keys."""
    for name, option in (spec or {}).items():
        if value.get(name) is not None:
            yield from problems(f"{where}.{name}", option, value[name])
        elif option.get("required"):
            yield f"{where}.{name}: found nothing; allowed: {_article(option)}"
    for name in value:
        if spec and name not in spec:
            near = nearest(str(name), spec)
            yield f"{where}: found the key {name!r}; allowed: {', '.join(spec)}" + (
                f"; did you mean {near}?" if near else ""
            )


def _article(option: Option) -> str:
    return {"list": "a list", "dict": "a mapping", "int": "a whole number"}.get(option["type"], "a text")


def _lines(where: str, value: t.Any) -> Iterator[str]:
    """Refuse control characters: a line break could add a line to a file."""
    if isinstance(value, str) and _CONTROL.search(value):
        yield problem(where, value, "one line of text, without control characters")
    elif isinstance(value, Mapping):
        for name, item in value.items():
            if isinstance(name, str) and _CONTROL.search(name):
                yield problem(where, name, "names of one line, without control characters")
            if not isinstance(item, (Mapping, list)):
                yield from _lines(f"{where}.{name}", item)


def _bool(value: t.Any) -> str:
    return "" if isinstance(value, bool) or str(value).lower() in (*TRUE, *FALSE) else "true or false"


def _int(value: t.Any) -> str:
    fits = not isinstance(value, (bool, float)) and re.fullmatch(r"\s*-?[0-9]+\s*", str(value))
    return "" if fits else "a whole number"


def _float(value: t.Any) -> str:
    fits = not isinstance(value, bool) and re.fullmatch(r"\s*-?[0-9]+(\.[0-9]*)?\s*", str(value))
    return "" if fits else "a number"


def _str(value: t.Any) -> str:
    if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        return ""
    return "a text; put it into quotes" if isinstance(value, (bool, float)) else "a text"


def path(value: t.Any) -> str:
    """Accept an absolute path that is safe in shells and configuration files."""
    if isinstance(value, str) and _PATH.fullmatch(value) and ".." not in value.split("/"):
        return ""
    return "an absolute path of letters, digits and ._/+@:,=%~-"


def _list(value: t.Any) -> str:
    if isinstance(value, list):
        return ""
    return f"a list, such as [{value}]" if isinstance(value, str) and re.fullmatch(r"[\w.-]+", value) else "a list"


def _dict(value: t.Any) -> str:
    return "" if isinstance(value, Mapping) else "a mapping of names to values"


def _raw(value: t.Any) -> str:
    return "a value" if value is None else ""


_KINDS: dict[str, t.Callable[[t.Any], str]] = {
    "bool": _bool,
    "int": _int,
    "float": _float,
    "str": _str,
    "path": path,
    "list": _list,
    "dict": _dict,
    "raw": _raw,
}
