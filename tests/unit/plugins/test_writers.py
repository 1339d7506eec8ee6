# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""
Files on managed nodes have one writer, C(_system/whole_file.py): others leave a secret open for a moment.

What writes otherwise stands below with its reason. C(atomic_move) of Ansible gives a new file the mode 0644 first, also
in its modules copy and template.
"""

from __future__ import annotations

import ast
import functools
import re
import typing as t
from pathlib import Path

from ansible.module_utils.common.yaml import yaml_load

from ansible_collections.hpcai.gpucluster.tests.unit.support.places import expect_none, place

PLUGINS = Path(__file__).resolve().parents[3] / "plugins"
CALLS = {"write_text", "write_bytes", "mkstemp", "NamedTemporaryFile", "copyfile", "copy2", "atomic_move", "touch"}
PUBLIC, PRIVATE, EMPTY = "has no secret", "in a directory of its own", "has no content"
# By file, the calls that are allowed, and why.
ALLOWED: dict[str, dict[str, str]] = {
    "module_utils/_accounts/key_pairs.py": {"os.open": EMPTY},
    "module_utils/_accounts/sudo.py": {"mkstemp": "visudo reads it, and it is removed"},
    "module_utils/_backup/cli.py": {"open": EMPTY},
    "module_utils/_backup/store.py": {"write_text": PRIVATE},
    "module_utils/_bundle/archive.py": dict.fromkeys(("write_text", "write_bytes", "open", "touch"), PUBLIC),
    "module_utils/_elastic/state.py": {"open": EMPTY},
    "module_utils/_enroot/image.py": {"open": PUBLIC},
    "module_utils/_health/memory.py": {"os.open": EMPTY},
    "module_utils/_repair/journal.py": {"open": "grows by lines, in a directory of its own"},
    "module_utils/_system/trusted_directory.py": {"os.open": EMPTY},
    "module_utils/_system/whole_file.py": {"os.open": "the writer"},
    "module_utils/_torchrun/agent.py": {"open": PUBLIC},
    "module_utils/_torchrun/hook.py": {"os.open": PUBLIC, "open": PUBLIC},
    "module_utils/_torchrun/launcher.py": {"open": PUBLIC},
    "module_utils/_torchrun/record.py": {"open": "grows by lines, in a directory of its own"},
    "modules/release_packages.py": {"open": PUBLIC},
    "modules/spank_plugin.py": {"write_text": PRIVATE},
}


# What may not write a file with a mode that is closed to others.
_COPIES = ("ansible.builtin.copy", "ansible.builtin.template", "ansible.builtin.get_url", "ansible.builtin.assemble")


def _writer(call: ast.Call) -> str:
    """Return the name of a call that makes or fills a file, or an empty string."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    texts = [ast.unparse(one) for one in (*call.args, *(word.value for word in call.keywords))]
    if name == "open" and ast.unparse(call.func) == "os.open":
        return "os.open" if any("O_CREAT" in one or "_NEW" in one for one in texts) else ""
    if name == "open":
        # A mode is at most three letters, so no path is taken for one.
        return name if any(re.fullmatch(r"'[rwaxbt+]*[wax+][rwaxbt+]*'", one) for one in texts) else ""
    return name if name in CALLS else ""


def _writers(path: Path) -> list[tuple[str, int]]:
    calls = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
    return [(_writer(call), call.lineno) for call in calls if _writer(call)]


FILES = sorted(path for folder in ("modules", "module_utils") for path in (PLUGINS / folder).rglob("*.py"))


@functools.cache
def _found() -> dict[Path, list[tuple[str, int]]]:
    return {path: _writers(path) for path in FILES}


def test_files_are_written_by_the_one_writer() -> None:
    expect_none(
        f"{place(path)}:{line}: {name} may leave a secret open; call whole_file.replace or Host.write"
        for path, found in _found().items()
        for name, line in found
        if name not in ALLOWED.get(path.relative_to(PLUGINS).as_posix(), {})
    )


def test_the_list_of_other_writers_is_not_too_long() -> None:
    found = {path.relative_to(PLUGINS).as_posix(): {name for name, _line in calls} for path, calls in _found().items()}
    expect_none(
        f"{place(__file__, file)}: {name} is not called there any more; remove it from the list"
        for file, names in ALLOWED.items()
        for name in names
        if name not in found.get(file, set())
    )


def _tasks(node: t.Any) -> t.Iterator[dict[str, t.Any]]:
    """Yield everything that can be a task: lists and blocks at any depth."""
    if isinstance(node, list):
        for one in node:
            yield from _tasks(one)
    elif isinstance(node, dict):
        yield node
        for one in node.values():
            yield from _tasks(one)


def test_no_task_writes_a_secret_with_a_module_that_leaves_it_open() -> None:
    root = PLUGINS.parent
    faults = []
    for path in sorted([*root.glob("roles/*/*/*.yml"), *root.glob("playbooks/**/*.yml")]):
        for task in _tasks(yaml_load(path.read_text(encoding="utf-8"))):
            for copy in (task[name] for name in _COPIES if isinstance(task.get(name), dict)):
                mode, name = str(copy.get("mode", "")), str(copy.get("dest"))
                if mode.endswith("0"):
                    faults.append(f"{place(path, name)}: {name} is open for a moment; write it with file_set")
    expect_none(faults)
