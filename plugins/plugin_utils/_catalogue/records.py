# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""The hardware catalogue: one YAML file per VM size in C(vm_sizes), or a record of the site."""

from __future__ import annotations

import copy
import difflib
import functools
import json
import typing as t
from collections.abc import Mapping
from pathlib import Path

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.module_utils.common.yaml import yaml_load

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue import rules
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue.plain import plain
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue.spec import RECORD

if t.TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue.spec import Spec

Record = dict[str, t.Any]

DIRECTORY = Path(__file__).with_name("vm_sizes")


class CatalogueError(ValueError):
    """A record is missing or invalid; the message states what to change."""


def names() -> list[str]:
    """Return the names of all VM sizes in the catalogue."""
    return sorted((record["name"] for record in load().values()), key=str.lower)


@functools.cache
def load(directory: Path = DIRECTORY) -> dict[str, Record]:
    """Return every record by the lower-case name of its VM size."""
    return {path.stem: _one(path) for path in sorted(directory.glob("*.yml"))}


@functools.cache
def _one(path: Path) -> Record:
    """Return one record. A task of Ansible is a process of its own; it must not read all of them for one."""
    return checked(_read(path), path.name)


def find(name: str, record: Mapping[str, t.Any] | None = None) -> Record:
    """
    Return the record of the site, validated, or else the record of a VM size.

    Names of sizes are not case-sensitive, as in Azure.
    """
    if record:
        return checked(record, "gpucluster_vm_size_record")
    path = _files().get(str(name).lower())
    if path is None:
        raise CatalogueError(
            f"unknown VM size {name!r}; known sizes: {', '.join(names())}; "
            f"describe a machine of your own with gpucluster_vm_size_record{_hint(name)}"
        )
    return copy.deepcopy(_one(path))


@functools.cache
def _files() -> dict[str, Path]:
    """Return the file of each VM size by its lower-case name."""
    return {path.stem: path for path in DIRECTORY.glob("*.yml")}


def machines_of_nvlink(record: Record) -> int:
    """Return how many machines NVLink joins."""
    gpus = record["gpus"]
    return max(1, int(gpus.get("nvlink_domain", 0)) // max(1, int(gpus["count"])))


def imex(record: Record) -> str:
    """Return what gpu_imex must say for a machine whose NVLink reaches others, or an empty string."""
    number = machines_of_nvlink(record)
    lost = (
        f"NVLink joins {number} machines with the service IMEX, which the collection does not set up; without it, jobs"
    )
    return f"none ({lost} of several nodes use InfiniBand between them)" if number > 1 else ""


def needed(record: t.Any, variable: str) -> Record:
    """Return the record from an input of a role, or raise an error that states how to set that input."""
    if record in (None, "") or record == {}:
        raise CatalogueError(missing(variable))
    return checked(record, variable)


def missing(variable: str) -> str:
    """Return the sentence about an input of a role without a record."""
    return (
        f"{variable}: found nothing; allowed: a hardware record. The playbooks of the collection make it from "
        f"gpucluster_vm_size ({', '.join(names())}) or from gpucluster_vm_size_record. For the role alone set "
        f"{variable}: \"{{{{ 'DGX_H100' | hpcai.gpucluster.vm_size }}}}\""
    )


def checked(record: t.Any, source: str) -> Record:
    """Return a valid record with its defaults; I(source) is its name in the error."""
    given = plain(record)
    try:
        key = json.dumps(given)
    except (TypeError, ValueError):
        faults, filled = problems(given), None
    else:
        faults, filled = _judged(key)
    if faults:
        raise CatalogueError(f"{source}: {'; '.join(faults)}")
    return copy.deepcopy(filled) if filled is not None else _filled(given)


@functools.lru_cache(maxsize=256)
def _judged(text: str) -> tuple[list[str], Record | None]:
    """
    Return the faults of a record, or the record with its defaults.

    Templates request the same record once per variable, task and host. Each distinct record is judged once per process.
    """
    record = json.loads(text)
    faults = problems(record)
    return faults, None if faults else _filled(record)


def problems(record: t.Any) -> list[str]:
    """Return the faults of a record, which stays unchanged; an empty list means that it is valid."""
    if not isinstance(record, Mapping):
        return [f"a hardware record must be a mapping, not {type(record).__name__}"]
    misshapen = list(_misshapen(record, RECORD, ""))
    if misshapen:
        return misshapen
    result = ArgumentSpecValidator(RECORD).validate(plain(record))
    if result.error_messages:
        return [str(message) for message in result.error_messages]
    return rules.problems(_pruned(result.validated_parameters))


def problems_of_groups(value: t.Any) -> list[str]:
    """Return the faults of a record, or of the records of node groups."""
    if not isinstance(value, list):
        return problems(value)
    return [
        fault
        for group in value
        for fault in (
            problems(group["record"])
            if isinstance(group, Mapping) and {"hosts", "record"} <= set(group)
            else [f"found {group!r}; allowed: mappings of hosts and record"]
        )
    ]


def _filled(record: Mapping[str, t.Any]) -> Record:
    return t.cast("Record", _pruned(ArgumentSpecValidator(RECORD).validate(plain(record)).validated_parameters))


def _hint(name: t.Any) -> str:
    near = difflib.get_close_matches(str(name).lower(), load(), 1, 0.8)
    return f"; did you mean {load()[near[0]]['name']}?" if near else ""


def _misshapen(record: Mapping[str, t.Any], spec: Spec, prefix: str) -> Iterator[str]:
    """Yield values with the wrong structure, because Ansible's validator crashes on some of them."""
    for name, option in spec.items():
        value = record.get(name)
        if value is None:
            continue
        if option["type"] == "dict":
            yield from _misshapen_mapping(value, option, f"{prefix}{name}")
        elif option["type"] == "list":
            yield from _misshapen_list(value, option, f"{prefix}{name}")
        elif isinstance(value, (Mapping, list)):
            yield f"{prefix}{name} must be one value, not {type(value).__name__}"


def _misshapen_list(value: t.Any, option: dict[str, t.Any], path: str) -> Iterator[str]:
    if not isinstance(value, list):
        yield f"{path} must be a list, not {type(value).__name__}"
    elif option["elements"] == "dict":
        for number, item in enumerate(value):
            yield from _misshapen_mapping(item, option, f"{path}[{number}]")


def _misshapen_mapping(value: t.Any, option: dict[str, t.Any], path: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        yield from _misshapen(value, option.get("options", {}), f"{path}.")
    else:
        yield f"{path} must be a mapping, not {type(value).__name__}"


def _pruned(value: t.Any) -> t.Any:
    """Omit keys without a value: Ansible sets them to null, which templates would print."""
    if isinstance(value, Mapping):
        return {key: _pruned(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_pruned(item) for item in value]
    return value


def _read(path: Path) -> t.Any:
    return yaml_load(path.read_text(encoding="utf-8"))
