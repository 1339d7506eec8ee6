# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""
Which package of plugins/ imports which.

Code on managed nodes (module_utils) knows nothing of the control node (plugin_utils), and no package imports itself by
a detour. A new arrow is a decision: add it here and to the map in docs/architecture.md.
"""

from __future__ import annotations

import ast
import functools
import graphlib
import itertools
import re
import typing as t
from pathlib import Path

import pytest

from ansible_collections.hpcai.gpucluster.tests.unit.support.places import expect_none, place

PLUGINS = Path(__file__).parents[3] / "plugins"
COLLECTION = "ansible_collections.hpcai.gpucluster.plugins."

# By package, the packages that it may import: those that run on managed nodes, and those of the control node.
MODULE_ROOMS: dict[str, set[str]] = {
    "_system": set(),
    "_storage": {"_system"},
    "_accounts": {"_storage", "_system"},
    "_bundle": {"_system"},
    "_enroot": set(),
    "_hardware": {"_system"},
    "_nvidia": {"_system"},
    "_nccl": {"_hardware", "_slurm"},
    "_slurm": {"_system"},
    "_health": {"_hardware", "_nccl", "_nvidia", "_system"},
    "_elastic": {"_system"},
    "_repair": {"_health", "_system"},
    "_backup": {"_system"},
    "_software": set(),
    "_monitoring": {"_health", "_nvidia", "_slurm", "_system", "_torchrun"},
    "_training": set(),
    "_torchrun": {"_slurm", "_system", "_training"},
}
PLUGIN_ROOMS: dict[str, set[str]] = {
    "_azure": {"module_utils._system"},
    "_azure_cluster": {"_azure", "_catalogue", "_inputs"},
    "_catalogue": set(),
    "_programs": set(),
    "_health": {"_catalogue", "module_utils._hardware", "module_utils._health"},
    "_slurm": {"_catalogue", "module_utils._hardware", "module_utils._slurm", "module_utils._system"},
    "_inputs": {
        *("_catalogue", "_health", "_slurm", "_validation"),
        *(f"module_utils.{name}" for name in ("_accounts", "_enroot", "_nccl", "_slurm", "_storage", "_system")),
        "module_utils._repair",
    },
    "_training": {"_catalogue", "module_utils._training"},
    "_validation": {
        *("_catalogue", "_slurm", "_training"),
        *(f"module_utils.{name}" for name in ("_hardware", "_health", "_slurm", "_system", "_training")),
    },
}
PUBLIC = {"action", "callback", "filter", "inventory", "modules"}


def _room(module: str) -> str:
    """Return the package of a module below plugins/, such as C(module_utils._slurm) or C(filter)."""
    parts = module.split(".")
    return ".".join(parts[:2]) if parts[0].endswith("_utils") else parts[0]


def _imported(path: Path) -> t.Iterator[tuple[str, int]]:
    """Yield what a file imports of the collection's plugins, with its line, also what only type checkers import."""
    here = path.relative_to(PLUGINS).with_suffix("").parts
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = COLLECTION + ".".join(here[: -node.level]) if node.level else ""
            base = ".".join(filter(None, [above, node.module]))
            names = [f"{base}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from ((name[len(COLLECTION) :], node.lineno) for name in names if name.startswith(COLLECTION))


@functools.cache
def _arrows() -> dict[str, dict[str, str]]:
    """Return by package those that it imports, each with the first file and line that does."""
    found: dict[str, dict[str, str]] = {}
    for path in sorted(PLUGINS.rglob("*.py")):
        room = _room(".".join(path.relative_to(PLUGINS).with_suffix("").parts))
        arrows = found.setdefault(room, {})
        for name, line in _imported(path):
            if _room(name) != room:
                arrows.setdefault(_room(name), f"{place(path)}:{line}")
    return found


HERE = Path(__file__)


def _allowed(room: str) -> tuple[set[str] | None, str]:
    """Return what a package may import, and where that stands; None: the list does not have the package."""
    kind, _dot, name = room.partition(".")
    if kind in ("modules", "doc_fragments"):
        return {arrow for arrow in _arrows()[room] if arrow.startswith("module_utils.")}, "only of module_utils"
    if kind in PUBLIC:
        return {arrow for arrow in _arrows()[room] if "_utils." in arrow}, "only of module_utils and plugin_utils"
    table = "MODULE_ROOMS" if kind == "module_utils" else "PLUGIN_ROOMS"
    rooms = MODULE_ROOMS if kind == "module_utils" else PLUGIN_ROOMS
    if name not in rooms:
        return None, table
    where = f"""{place(HERE, f'"{name}": ')}, {table}["{name}"]"""
    return {other if "." in other else f"{kind}.{other}" for other in rooms[name]}, where


def test_packages_import_what_they_may_and_no_more() -> None:
    expect_none(
        f"{line} imports {arrow}, which {room} must not: remove the import, or decide for it: add it to {where} and to "
        "the map in docs/architecture.md"
        for room, arrows in _arrows().items()
        for allowed, where in (_allowed(room),)
        if allowed is not None  # else test_every_package_is_on_the_list fails for it
        for arrow, line in arrows.items()
        if arrow not in allowed
    )


def test_there_is_no_circle() -> None:
    try:
        assert list(graphlib.TopologicalSorter(_arrows()).static_order())
    except graphlib.CycleError as exc:
        circle = exc.args[1]
        lines = [_arrows()[one][other] for other, one in itertools.pairwise(circle) if other in _arrows()[one]]
        pytest.fail(f"packages import each other, {' -> '.join(circle)}: remove one of the imports {', '.join(lines)}")


def test_every_package_is_on_the_list() -> None:
    found = {path.parent.relative_to(PLUGINS).as_posix() for path in PLUGINS.glob("*_utils/_*/__init__.py")}
    tables = {"module_utils": ("MODULE_ROOMS", MODULE_ROOMS), "plugin_utils": ("PLUGIN_ROOMS", PLUGIN_ROOMS)}
    listed = {f"{kind}/{name}" for kind, (_table, rooms) in tables.items() for name in rooms}

    expect_none(
        [
            f'{place(HERE, f"{tables[kind][0]}:")}: add `"{name}": set()`, with what plugins/{kind}/{name} '
            "may import, and add it to the map in docs/architecture.md"
            for kind, name in (one.split("/") for one in sorted(found - listed))
        ]
        + [
            f"""{place(HERE, f'"{name}":')}: remove `{name}` from {tables[kind][0]}, or add plugins/{kind}/{name}"""
            for kind, name in (one.split("/") for one in sorted(listed - found))
        ]
    )


@pytest.mark.parametrize("name", ["Runner", "Host"])
def test_what_all_packages_share_is_defined_once(name: str) -> None:
    pattern = re.compile(rf"^\s*(class {name}\b|{name}\b(: \S+)? =)", re.MULTILINE)

    found = [path for path in PLUGINS.rglob("*.py") if pattern.search(path.read_text(encoding="utf-8"))]

    places = ", ".join(place(path, name) for path in found)
    assert [path.parent.name for path in found] == ["_system"], f"define {name} once, in _system; it is in {places}"
