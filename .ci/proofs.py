# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""
Say which files a scenario of Molecule applies, and keep which scenario passed with which files.

A scenario applies its own directory, what all scenarios share, and what these files name: roles, playbooks, plugins,
packages of plugins, and paths. It applies what those name in turn. A file outside of the areas in C(NAMED) counts for
every scenario, because nothing is known about it. So the list is rather too long than too short.

Usage: proofs.py [SCENARIO]: prints the state of all scenarios, or the files of one.
"""

from __future__ import annotations

import ast
import datetime
import hashlib
import json
import os
import posixpath
import re
import subprocess
import sys
import typing as t
from pathlib import Path

import yaml

PROVED = "tests/proved.json"
SHARED = ("molecule/default/", "molecule/inventory.yml", "molecule/shared/", "inventories/lab/", ".config/")
# A file of these areas counts only for scenarios that name it.
NAMED = (
    *(".ci/", ".github/", "changelogs/", "docs/", "inventories/", "molecule/", "playbooks/", "plugins/", "roles/"),
    *("scripts/", "site.yml", "tests/"),
)
# What a person, a gate or a package index reads, and no playbook.
NOT_APPLIED = frozenset({
    *(".ansible-lint.yml", ".gitignore", ".yamllint", "CHANGELOG.md", "CHANGELOG.rst", "CONTRIBUTING.md", "COPYING"),
    *("AGENTS.md", "MAINTAINERS", "Makefile", "README.md", "ansible-navigator.yml", "execution-environment.yml"),
    *("galaxy.yml", "pyproject.toml", "requirements-dev.txt", "requirements.yml"),
    *("meta/ee-bindep.txt", "meta/ee-requirements.txt", "meta/execution-environment.yml"),
})  # fmt: skip
_OURS = re.compile(r"\bhpcai\.gpucluster\.(\w+)")
_ANY_OF_OURS = re.compile(r"\bhpcai\.gpucluster\.(?:\{|'\s*~)")
_PACKAGE = re.compile(r"(?<![\w-])_[a-z]\w*")
_PATH = re.compile(r"[\w.-]+(?:/[\w.-]+)*")
_MESSAGES = ("fail_msg", "msg", "success_msg")
# Directories of tests of which a file does not stand for all.
_WIDE = ("tests/unit", "tests/integration", "tests/benchmark")
_PLUGINS = ("action", "callback", "filter", "inventory", "lookup", "modules")


class Proof(t.NamedTuple):
    """When a scenario passed, with which files, and in how many seconds."""

    digest: str
    date: str
    seconds: int


def tracked(root: Path) -> list[str]:
    """Return the files and links that git does not ignore, and that exist."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True, timeout=60)
    return sorted({name for name in done.stdout.split("\0") if name and _there(root / name)})


def _there(path: Path) -> bool:
    return path.is_file() or path.is_symlink()


class Tree:
    """The files of a checkout, and what each of them names."""

    def __init__(self, root: Path, files: t.Iterable[str]) -> None:
        """Take the names of its files, relative to the root."""
        self._root = root
        self._files = frozenset(files) - {PROVED}
        self._folders: dict[str, set[str]] = {}
        for name in self._files:
            for folder in _parents(name):
                self._folders.setdefault(folder, set()).add(name)
        self._named: dict[str, frozenset[str]] = {}

    def of(self, scenario: str) -> set[str]:
        """Return the files that a scenario applies; for what is none, all."""
        if f"molecule/{scenario}" not in self._folders:
            return set(self._files)
        found = {name for name in self._files if self._counts_for_all(name)} | self._folders[f"molecule/{scenario}"]
        left = list(found)
        while left:
            new = self._named_by(left.pop()) - found
            found |= new
            left += new
        return found

    def digest(self, scenario: str) -> str:
        """Return the digest of the files that a scenario applies, with their names and modes."""
        lines = [
            f"{name} {os.access(path, os.X_OK)} {_checksum(path)}"
            for name in sorted(self.of(scenario))
            for path in [self._root / name]
        ]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]

    def _counts_for_all(self, name: str) -> bool:
        return name.startswith(SHARED) or not (name.startswith(NAMED) or name in NOT_APPLIED)

    def _named_by(self, name: str) -> frozenset[str]:
        if name not in self._named:
            path = self._root / name
            text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
            self._named[name] = frozenset(self._read(name, text))
        return self._named[name]

    def _read(self, name: str, text: str) -> t.Iterator[str]:
        """Yield the files that a text names."""
        if name.startswith("plugins/") and name.endswith(".py"):
            names, packages = _of_plugin(text)
        elif name.endswith(("/meta/argument_specs.yml", ".txt")):
            return
        else:
            text = "\n".join(_strings(yaml.load(text, Loader=yaml.CSafeLoader))) if name.endswith(".yml") else text
            names, packages = set(_OURS.findall(text)), set(_PACKAGE.findall(text))
            # A template makes the name.
            names |= self._all_roles() if _ANY_OF_OURS.search(text) else set()
            if not name.startswith(("plugins/", "roles/")):
                yield from self._paths(name, text)
        for ours in names:
            yield from self._files & {f"plugins/{kind}/{ours}{end}" for kind in _PLUGINS for end in (".py", ".yml")}
            yield from self._role(ours)
        for package in packages:
            for utilities in ("plugins/module_utils", "plugins/plugin_utils"):
                yield from self._folders.get(f"{utilities}/{package}", set())

    def _all_roles(self) -> set[str]:
        return {match[1] for name in self._files if (match := re.match(r"roles/(\w+)/", name))}

    def _role(self, name: str) -> set[str]:
        return {file for file in self._folders.get(f"roles/{name}", set()) if not file.endswith(".md")}

    def _paths(self, name: str, text: str) -> t.Iterator[str]:
        """Yield the files that paths name, relative to the file, to its scenario or playbooks, or to the root."""
        folder = posixpath.dirname(name)
        tests = name.startswith(("molecule/", "tests/"))
        # Ansible looks for files of a playbook in these directories.
        places = {f"playbooks/{kind}" for kind in ("files", "tasks", "templates", "vars")}
        starts = {folder, "", *({"/".join(folder.split("/")[:2])} if tests else {"playbooks", *places})}
        for word in set(_PATH.findall(text)):
            for path in {posixpath.normpath(posixpath.join(start, word)) for start in starts} - NOT_APPLIED:
                role, area = re.match(r"roles/(\w+)/", path), re.match(r"(tests/\w+)/", path)
                # Messages of playbooks name pages, and pages name each other.
                if path in self._files and (tests or not path.startswith("docs/")):
                    yield path
                    yield from self._role(role[1]) if role else ()
                    yield from self._folders[area[1]] if area and area[1] not in _WIDE else ()
                elif "/" in word and (tests or path.startswith("tests/")):
                    yield from self._folders.get(path, set())


def _strings(data: t.Any) -> t.Iterator[str]:
    """Yield the keys and texts of YAML, without messages to persons."""
    if isinstance(data, str):
        yield data
    elif isinstance(data, list):
        yield from (text for value in data for text in _strings(value))
    elif isinstance(data, dict):
        for key, value in data.items():
            yield str(key)
            # A message with a template may read a file.
            yield from _strings(value) if key not in _MESSAGES or "{{" in str(value) else ()


def _of_plugin(text: str) -> tuple[set[str], set[str]]:
    """Return the plugins that the code of a plugin calls by their names, and the packages that it imports."""
    names, packages = set[str](), set[str]()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and (ours := _OURS.fullmatch(node.value)):
            names.add(ours[1])
        elif isinstance(node, ast.ImportFrom | ast.Import):
            words = [alias.name for alias in node.names] + [getattr(node, "module", None) or ""]
            packages |= {part for word in words for part in word.split(".")}
    return names, packages


def _checksum(path: Path) -> str:
    """Return the checksum of a file, or where a link leads; nothing if it was removed meanwhile."""
    try:
        if path.is_symlink():
            return str(path.readlink())
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except FileNotFoundError:
        return ""


def _parents(name: str) -> t.Iterator[str]:
    while name := posixpath.dirname(name):
        yield name


def read(root: Path) -> dict[str, Proof]:
    """Return the proofs of all scenarios."""
    path = root / PROVED
    data = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return {name: Proof(**proof) for name, proof in data.items()}


def write(root: Path, scenario: str, digest: str, seconds: int) -> None:
    """Note that a scenario passed today."""
    proofs = {**read(root), scenario: Proof(digest, datetime.datetime.now(datetime.UTC).date().isoformat(), seconds)}
    rows = [f'  "{name}": {json.dumps(proof._asdict())}' for name, proof in sorted(proofs.items())]
    path = root / PROVED
    new = path.with_suffix(".new")
    new.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")
    new.replace(path)


def main(root: Path, words: list[str]) -> None:
    """Print the files of one scenario, or whether each is proved for the files of today."""
    tree = Tree(root, tracked(root))
    if words:
        print("\n".join(sorted(tree.of(words[0]))))
        return
    proofs = read(root)
    for path in sorted(root.glob("molecule/*/converge.yml")):
        name = path.parent.name
        proof = proofs.get(name)
        now = proof and proof.digest == tree.digest(name)
        print(f"{name:12} {'proved' if now else 'not proved'}{f', passed {proof.date}' if proof else ''}")


if __name__ == "__main__":
    main(Path(__file__).parents[1], sys.argv[1:])
