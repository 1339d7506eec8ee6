# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""
What the Molecule scenarios apply: which entry points of which roles, with which inputs.

The playbooks of a scenario are read, not run. Hosts, variables and conditions are those of its inventory, by Ansible's
own code, so that a play without machines and a task that never runs do not count. A condition on a fact or a result is
taken for true.
"""

from __future__ import annotations

import json
import re
import typing as t
from pathlib import Path

from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template
from ansible.vars.hostvars import HostVars
from ansible.vars.manager import VariableManager

Variables = dict[str, t.Any]
_PREFIX = "hpcai.gpucluster."
_PLAYBOOK = re.compile(r"^(?:(?:\S*/)?playbooks/(\w+)|site)\.yml$")
_SECTIONS = ("pre_tasks", "tasks", "post_tasks", "handlers")
_STEPS = ("prepare.yml", "converge.yml", "verify.yml")


class Application(t.NamedTuple):
    """
    One entry point of a role on one machine.

    C(imports) are the other files of tasks that it always runs, C(inputs) its switches and choices, and C(left) those
    that nobody set; C(value) returns the value of one.
    """

    role: str
    entry: str
    imports: frozenset[str]
    inputs: frozenset[str]
    left: frozenset[str]
    value: t.Callable[[str], t.Any]


class Scenario:
    """A scenario of Molecule below the root of a collection."""

    def __init__(self, root: Path, folder: Path, files: dict[Path, t.Any] | None = None) -> None:
        """Read its inventory as Molecule would hand it over. C(files) has what others have read, and gets the rest."""
        self.root = root
        self.folder = folder
        self._files = files if files is not None else {}
        self.loader = DataLoader()
        self.inventory = InventoryManager(loader=self.loader, sources=self._sources())
        self.manager = VariableManager(loader=self.loader, inventory=self.inventory)
        HostVars(self.inventory, self.manager, self.loader)
        self._included: Variables = {}
        self._known: dict[str, Variables] = {}
        self._roles: dict[str, tuple[Variables, Variables, dict[str, set[str]]]] = {}

    def applications(self) -> t.Iterator[Application]:
        """Yield what its steps apply, and what the playbooks apply that they start as commands."""
        for step in _STEPS:
            if (self.folder / step).exists():
                yield from self._playbook(self.folder / step, {})
        seen: list[tuple[Path, Variables]] = []
        for command in self._commands():
            if command not in seen:
                seen.append(command)
                yield from self._playbook(*command)

    def _sources(self) -> list[str]:
        base = self._load(self.root / ".config/molecule/config.yml")
        own = self._load(self.folder / "molecule.yml") or {}
        arguments = next(
            found["executor"]["args"]["ansible_playbook"]
            for found in (own.get("ansible", {}), base["ansible"])
            if "executor" in found
        )
        names = {"MOLECULE_PROJECT_DIRECTORY": self.root, "MOLECULE_SCENARIO_DIRECTORY": self.folder}
        sources = [word.partition("=")[2] for word in arguments if word.startswith("--inventory=")]
        return [re.sub(r"\$\{(\w+)\}", lambda match: str(names[match[1]]), source) for source in sources]

    def _load(self, path: Path) -> t.Any:
        if path not in self._files:
            # Nothing changes what was read, so the loader needs no copy of its own.
            self._files[path] = self.loader.load_from_file(str(path), cache="none", trusted_as_template=True)
        return self._files[path]

    def _commands(self) -> t.Iterator[tuple[Path, Variables]]:
        """Yield the playbooks that are words of a command, with the variables among its other words."""
        for path in sorted(self.folder.rglob("*.yml")):
            for words in _lists(self._load(path)):
                for word in words:
                    match = _PLAYBOOK.match(word)
                    if match:
                        yield self.root / f"playbooks/{match[1] or 'site'}.yml", _extra(words)

    def _playbook(self, path: Path, extra: Variables) -> t.Iterator[Application]:
        for play in self._load(path):
            imported = play.get("ansible.builtin.import_playbook")
            if imported:
                yield from self._playbook((path.parent / imported).resolve(), {**(play.get("vars") or {}), **extra})
                continue
            for host in self._hosts(play["hosts"]):
                variables = {**self._variables(host), "playbook_dir": str(path.parent)}
                for name in play.get("vars_files") or []:
                    file = path.parent / name
                    variables.update(self._load(file) if file.is_file() else {})  # else a run makes it
                variables.update({**(play.get("vars") or {}), **self._included, **extra})
                yield from self._roles_of_play(play, variables)
                for section in _SECTIONS:
                    yield from self._tasks(play.get(section) or [], path.parent, variables)

    def _hosts(self, pattern: str) -> list[t.Any]:
        # A group that an earlier play makes has some of the machines of the inventory.
        return t.cast("list[t.Any]", self.inventory.get_hosts("all" if "{{" in pattern else pattern))

    def _variables(self, host: t.Any) -> Variables:
        if host.name not in self._known:
            facts = {"distribution": "Debian", "distribution_major_version": "13", "virtualization_type": "podman"}
            found = self.manager.get_vars(host=host)
            # A group that playbooks make when the controllers answer.
            answering = {"gpucluster_live_controllers": found["groups"].get("slurm_controller", [])}
            self._known[host.name] = {
                **found,
                "ansible_check_mode": False,
                "ansible_facts": facts,
                "ansible_play_hosts_all": [host.name],
                "groups": {**found["groups"], **answering},
            }
        return self._known[host.name]

    def _roles_of_play(self, play: t.Mapping[str, t.Any], variables: Variables) -> t.Iterator[Application]:
        for role in play.get("roles") or []:
            entry = role if isinstance(role, dict) else {"role": role}
            here = {**variables, **(entry.get("vars") or {})}
            if self._runs(entry, here):
                yield self._application(entry["role"], "main", here)

    def _tasks(self, tasks: list[t.Any], folder: Path, variables: Variables) -> t.Iterator[Application]:
        for task in tasks:
            for here in self._turns(task, {**variables, **(task.get("vars") or {})}):
                if self._runs(task, here):
                    yield from self._task(task, folder, here)

    def _task(self, task: t.Mapping[str, t.Any], folder: Path, variables: Variables) -> t.Iterator[Application]:
        for section in ("block", "rescue", "always"):
            yield from self._tasks(task.get(section) or [], folder, variables)
        for verb in ("include", "import"):
            role = task.get(f"ansible.builtin.{verb}_role")
            if role:
                entry = self._value(role.get("tasks_from", "main"), variables)
                yield self._application(self._value(role["name"], variables), str(entry), variables)
            file = task.get(f"ansible.builtin.{verb}_tasks")
            if file:
                path = folder / (file if isinstance(file, str) else file["file"])
                yield from self._tasks(self._load(path) or [], path.parent, variables)
        self._include(task.get("ansible.builtin.include_vars") or {})

    def _include(self, argument: t.Mapping[str, str]) -> None:
        path = self.folder / "vars" / argument.get("file", "")
        if path.is_file():
            self._included.update(self._load(path))

    def _turns(self, task: t.Mapping[str, t.Any], variables: Variables) -> t.Iterator[Variables]:
        """Yield the variables of each turn of a loop over a list that stands there, or that only needs variables."""
        loop = self._value(task.get("loop"), variables)
        if isinstance(loop, list):
            name = (task.get("loop_control") or {}).get("loop_var", "item")
            yield from ({**variables, name: item} for item in loop)
        else:
            yield variables

    def _runs(self, task: t.Mapping[str, t.Any], variables: Variables) -> bool:
        when = task.get("when", True)
        return all(self._holds(condition, variables) for condition in (when if isinstance(when, list) else [when]))

    def _holds(self, condition: t.Any, variables: Variables) -> bool:
        try:
            return bool(Templar(loader=self.loader, variables=variables).evaluate_conditional(condition))
        except Exception:  # what only a run knows
            return True

    def _value(self, value: t.Any, variables: Variables) -> t.Any:
        """Return what a template says, or itself where only a run knows that."""
        if not isinstance(value, str) or "{{" not in value:
            return value
        try:
            return Templar(loader=self.loader, variables=variables).template(value)
        except Exception:  # what only a run knows
            return value

    def _application(self, name: str, entry: str, variables: Variables) -> Application:
        role = name.removeprefix(_PREFIX)
        defaults, internal, options = self._role(role)
        entry = Path(entry).stem
        here = {**defaults, **variables, **internal}
        inputs = frozenset(options.get(entry, set()) & set(here))
        imports = frozenset(self._imports(self.root / f"roles/{role}/tasks/{entry}.yml"))
        left = inputs - set(variables)
        return Application(role, entry, imports, inputs, left, lambda name: self._value(here[name], here))

    def _imports(self, path: Path) -> t.Iterator[str]:
        """Yield the files of tasks that a file of a role imports without a condition, and what these import."""
        for task in (self._load(path) if path.is_file() else None) or []:
            name = task.get("ansible.builtin.import_tasks")
            if name and "when" not in task:
                yield Path(name).stem
                yield from self._imports(path.parent / name)

    def _role(self, role: str) -> tuple[Variables, Variables, dict[str, set[str]]]:
        if role not in self._roles:
            folder = self.root / "roles" / role
            files = [folder / name for name in ("defaults/main.yml", "vars/main.yml", "meta/argument_specs.yml")]
            defaults, internal, specs = ((self._load(file) or {}) if file.exists() else {} for file in files)
            options = {entry: set(choices(spec)) for entry, spec in specs.get("argument_specs", {}).items()}
            self._roles[role] = defaults, internal, options
        return self._roles[role]


def choices(spec: t.Mapping[str, t.Any]) -> dict[str, list[t.Any]]:
    """Return the values that the switches and choices of an entry point may have."""
    options = (spec.get("options") or {}).items()
    return {
        name: [False, True] if option["type"] == "bool" else option["choices"]
        for name, option in options
        if option["type"] == "bool" or option.get("choices")
    }


def scenarios(root: Path) -> list[Scenario]:
    """Return all scenarios, which read each file once."""
    files: dict[Path, t.Any] = {}
    return [Scenario(root, path.parent, files) for path in sorted(root.glob("molecule/*/molecule.yml"))]


def _lists(data: t.Any) -> t.Iterator[list[str]]:
    """Yield every list of words in a file, and the words of every line."""
    values = data.values() if isinstance(data, dict) else data if isinstance(data, list) else []
    if isinstance(data, list):
        yield [word for word in data if isinstance(word, str)]
    for value in values:
        yield from _lists(value)


def _extra(words: list[str]) -> Variables:
    """Return the variables that a command gives, and whether it has a limit."""
    extra: Variables = {"ansible_limit": True} if "--limit" in words else {}
    for option, value in zip(words, words[1:]):
        if option in ("-e", "--extra-vars") and value.startswith("{") and not value.startswith("{{"):
            extra.update(json.loads(value))
        elif option in ("-e", "--extra-vars") and re.match(r"\w+=", value):
            name, text = value.split("=", 1)
            extra[name] = trust_as_template(text)
    return extra
