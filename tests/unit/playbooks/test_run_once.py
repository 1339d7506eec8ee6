# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""
No task with run_once stores facts on all hosts.

ansible-core 2.21 stores one and the same dictionary for all hosts that have no facts yet. Whatever one of them stores
later, such as its ssh host key, is then a fact of all of them.
"""

from __future__ import annotations

import re
import textwrap
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible.playbook.handler import Handler

ROOT = Path(__file__).parents[3]
FOLDERS = ("playbooks", "roles", "molecule", "tests")
# These store facts, or an empty dictionary of facts.
STORES = re.compile(r"(set_fact|include_vars|debug|setup|gather_facts|\w+_facts)$")
# These store none, and ask no machine for its Python.
CONTROL_NODE = {"assert", "fail", "add_host", "group_by", "meta", "pause", "check_input", "older_names", "vm_sizes"}
KEYWORDS = {*Handler.fattributes, "block", "rescue", "always"} - {"action"}
FACTS = (
    "stores facts: add delegate_to and delegate_facts: true, and read the value with hostvars of that machine or from"
    " the registered result; or remove run_once"
)
PYTHON = (
    "stores the Python that Ansible finds on the machine: add delegate_to, such as"
    " delegate_to: '{{ inventory_hostname }}', or remove run_once"
)
HIDDEN = "hides its tasks, which inherit run_once: write the name of the file or role"


class _Loader(yaml.SafeLoader):
    """Reads YAML with the line of each mapping and with Ansible's tags."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[t.Any, t.Any]:
        return {**super().construct_mapping(node, deep=deep), "__line__": node.start_mark.line + 1}


_Loader.add_multi_constructor("!", lambda loader, _tag, node: loader.construct_scalar(node))


class Kept(t.NamedTuple):
    """The keywords that a task has, or inherits from its blocks and imports."""

    run_once: bool = False
    delegate_to: bool = False
    delegate_facts: bool = False

    def of(self, entry: t.Any) -> Kept:
        return Kept(*(bool(entry.get(name, mine)) for name, mine in zip(self._fields, self, strict=True)))


def problems(text: str, path: Path, kept: Kept = Kept(), above: int = 0) -> t.Iterator[str]:  # noqa: B008
    for document in yaml.load_all(text, _Loader):
        if isinstance(document, list):
            for entry in document:
                if isinstance(entry, dict):
                    yield from _of_entry(entry, path, kept, above)


def _of_entry(entry: dict[str, t.Any], path: Path, kept: Kept, above: int) -> t.Iterator[str]:
    mine = kept.of(entry)
    for name in ("block", "rescue", "always", "pre_tasks", "tasks", "post_tasks", "handlers"):
        for child in entry.get(name) or []:
            yield from _of_entry(child, path, mine, above)
    for role in entry.get("roles") or [] if "hosts" in entry else []:
        named = role if isinstance(role, dict) else {"role": role}
        yield from _of_task("import_role", named, path, (mine, mine.of(named)), above + entry["__line__"])
    if "hosts" in entry or "import_playbook" in entry or "block" in entry:
        return
    for key, value in entry.items():
        if key not in KEYWORDS and key != "__line__" and not key.startswith("with_"):
            module = str(value).split()[0] if key in ("action", "local_action") else key
            mine = mine._replace(delegate_to=mine.delegate_to or key == "local_action")
            yield from _of_task(module, value, path, (kept, mine), above + entry.get("__line__", 0))


def _of_task(module: str, value: t.Any, path: Path, keeps: tuple[Kept, Kept], line: int) -> t.Iterator[str]:
    """Yield what is wrong with a task; the first of C(keeps) is what it inherits."""
    inherited, mine = keeps
    short = module.rpartition(".")[2]
    arguments = value if isinstance(value, dict) else {"file": value}
    if re.match(r"(import|include)_(tasks|role)$", short):
        # Only its own tasks: an include hands its keywords down with apply.
        passed = mine if short.startswith("import") else inherited.of(arguments.get("apply") or {})
        yield from _of_file(short, arguments, path, passed, line)
    elif mine.run_once and not (mine.delegate_to and mine.delegate_facts) and short not in CONTROL_NODE:
        if STORES.match(short):
            yield f"{path}:{line}: {short} with run_once {FACTS}"
        elif not mine.delegate_to:
            yield f"{path}:{line}: {short} with run_once {PYTHON}"


def _of_file(kind: str, arguments: dict[str, t.Any], path: Path, passed: Kept, line: int) -> t.Iterator[str]:
    if not passed.run_once:
        return
    if kind.endswith("role"):
        role = str(arguments.get("name", arguments.get("role"))).rpartition(".")[2]
        file = ROOT / "roles" / role / "tasks" / f"{arguments.get('tasks_from', 'main')}.yml"
    else:
        file = path.parent / str(arguments["file"])
    if file.is_file():
        yield from problems(file.read_text(encoding="utf-8"), file, passed)
    else:
        yield f"{path}:{line}: {kind} with run_once {HIDDEN}"


def _examples(path: Path) -> t.Iterator[tuple[str, int]]:
    """Yield the YAML in a page or in the documentation of a plugin, with the number of lines above it."""
    text = path.read_text(encoding="utf-8")
    pattern = r"^EXAMPLES = r?\"\"\"\n(.*?)^\"\"\"" if path.suffix == ".py" else r"^ *```ya?ml\n(.*?)^ *```"
    for found in re.finditer(pattern, text, re.MULTILINE | re.DOTALL):
        if "run_once" in found[1]:
            yield textwrap.dedent(found[1]), text[: found.start(1)].count("\n")


def _of_checkout() -> t.Iterator[str]:
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.yml")):
            if "run_once" in (text := path.read_text(encoding="utf-8")):
                yield from problems(text, path)
    plugins = (ROOT / "plugins").rglob("*.py")
    for path in sorted(
        [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "roles").glob("*/*.md"), *plugins]
    ):
        for text, above in _examples(path):
            yield from problems(text, path, above=above)


def test_no_task_with_run_once_stores_facts_on_all_hosts() -> None:
    found = [one.removeprefix(f"{ROOT}/") for one in _of_checkout()]

    assert not found, "\n".join(["These tasks make hosts share their facts (ansible-core 2.21):", *found])


def test_no_plugin_of_ours_returns_facts() -> None:
    """A module of ours is delegated where it has run_once, and then Ansible still stores what it returns."""
    plugins = [path for folder in ("action", "modules") for path in (ROOT / "plugins" / folder).glob("*.py")]
    found = [path.name for path in plugins if "ansible_facts" in path.read_text(encoding="utf-8")]

    assert not found, f"ansible_facts is in {found}; return the values with other names, and let plays register them"


@pytest.mark.parametrize(
    ("task", "says"),
    [
        ("ansible.builtin.set_fact: {x: 1}", "set_fact with run_once stores facts"),
        ("ansible.builtin.set_fact: {x: 1}\n  delegate_to: head", "set_fact with run_once stores facts"),
        ("ansible.builtin.include_vars: {file: x.yml}", "include_vars with run_once stores facts"),
        ("ansible.builtin.debug: {msg: x}", "debug with run_once stores facts"),
        ("debug: {msg: x}", "debug with run_once stores facts"),
        ("ansible.builtin.setup:\n  delegate_to: head", "setup with run_once stores facts"),
        ("ansible.builtin.gather_facts:", "gather_facts with run_once stores facts"),
        ("ansible.builtin.package_facts:\n  delegate_to: head", "package_facts with run_once stores facts"),
        ("ansible.builtin.ping:", "ping with run_once stores the Python that Ansible finds"),
        ("hpcai.gpucluster.file_set: {files: []}", "file_set with run_once stores the Python"),
        ("ansible.builtin.import_tasks: '{{ x }}.yml'", "import_tasks with run_once hides its tasks"),
        ("ansible.builtin.import_tasks: below.yml", "below.yml:2: debug with run_once stores facts"),
        ("ansible.builtin.include_tasks: {file: below.yml, apply: {run_once: true}}", "below.yml:2: debug with"),
        ("ansible.builtin.import_role: {name: '{{ x }}'}", "import_role with run_once hides its tasks"),
    ],
)
def test_a_task_that_stores_facts_is_named(task: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "below.yml").write_text("---\n- ansible.builtin.debug: {msg: x}\n", encoding="utf-8")
    play = f"---\n- hosts: all\n  tasks:\n    - {task}\n      run_once: true\n".replace(
        "\n  delegate", "\n      delegate"
    )
    block = f"---\n- block:\n    - {task}\n  run_once: true\n".replace("\n  delegate", "\n      delegate")
    role = f"---\n- {task}\n  run_once: true\n"

    for text, line in ((play, 4), (block, 3), (role, 2)):
        found = list(problems(text, tmp_path / "play.yml"))
        assert len(found) == 1
        assert says in found[0]
        assert f"play.yml:{line}:" in found[0] or "below.yml:2:" in found[0]


@pytest.mark.parametrize(
    "task",
    [
        "ansible.builtin.assert: {that: true}\n  run_once: true",
        "ansible.builtin.add_host: {name: x}\n  run_once: true",
        "ansible.builtin.debug: {msg: x}",
        "ansible.builtin.command: id\n  run_once: true\n  delegate_to: head",
        "ansible.builtin.set_fact: {x: 1}\n  run_once: true\n  delegate_to: head\n  delegate_facts: true",
        # An include with run_once reads the file once, and its tasks run on one host.
        "ansible.builtin.include_tasks: '{{ x }}.yml'\n  run_once: true",
    ],
)
def test_a_task_that_stores_nothing_on_all_hosts_is_good(task: str, tmp_path: Path) -> None:
    assert not list(problems(f"- {task}\n", tmp_path / "tasks.yml"))


def test_roles_of_a_play_are_read(tmp_path: Path) -> None:
    play = "- hosts: all\n  roles:\n    - {role: elsewhere, run_once: true}\n- hosts: all\n  roles: [elsewhere]\n"

    assert len(list(problems(play, tmp_path / "play.yml"))) == 1


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("page.md", "Text\n\n```yaml\n- ansible.builtin.debug:\n    msg: x\n  run_once: true\n```\n"),
        ("plugin.py", '"""Docs."""\n\nEXAMPLES = r"""\n- ansible.builtin.debug:\n    msg: x\n  run_once: true\n"""\n'),
    ],
)
def test_examples_are_read(name: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")

    found = [one for block, above in _examples(path) for one in problems(block, path, above=above)]

    assert len(found) == 1
    assert f"{name}:4: debug" in found[0]
