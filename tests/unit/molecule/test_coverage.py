# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""
Molecule converges what users run.

Some scenario applies each entry point of each role, each default of a switch or a choice, and each source and provider.
"""

from __future__ import annotations

import functools
import re
import shutil
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.hpcai.gpucluster.tests.unit.support.ci_program import tree_of_the_collection
from ansible_collections.hpcai.gpucluster.tests.unit.support.scenarios import Scenario, choices, scenarios

ROOT = Path(__file__).parents[3]
JUDGES = "check_input"  # an entry point that reads inputs, but does nothing with them
EVERY_CHOICE = re.compile(r"_(source|provider)$")

# What no scenario applies, and why. What a scenario does apply must not stand here.
EXCEPTIONS = {
    "docker_source=upstream": "Docker's own packages are in no Debian mirror",
    "scratch/main": "it is check_input and apply, which scenarios apply one after the other",
}


class Seen(t.NamedTuple):
    """What one scenario applies: entry points as ROLE/ENTRY, and values of inputs as INPUT=VALUE."""

    entries: set[str]
    values: set[str]


def seen(scenario: Scenario, options: t.Mapping[str, t.Mapping[str, t.Any]]) -> Seen:
    """Read a scenario. An input that nobody sets has its default; values are computed until all are seen."""
    entries, values = set[str](), set[str]()
    for application in scenario.applications():
        entries |= {f"{application.role}/{entry}" for entry in (application.entry, *application.imports)}
        for name in application.inputs if application.entry != JUDGES else ():
            wanted = wanted_values(name, options[name])
            if name in application.left:
                values.add(f"{name}={options[name].get('default', 'its default')}")
            elif wanted - values:
                value = application.value(name)
                values |= {f"{name}={one}" for one in (value if isinstance(value, list) else [value])}
    return Seen(entries, values)


def wanted_values(name: str, option: t.Mapping[str, t.Any]) -> set[str]:
    """Return the values of a switch or a choice that a scenario has to have."""
    required = option.get("required", False)
    every = option.get("choices", []) if required or EVERY_CHOICE.search(name) else []
    default = [] if required else [option.get("default", "its default")]
    return {f"{name}={value}" for value in [*default, *every]}


@functools.cache
def all_entries(root: Path) -> set[str]:
    """Return the entry points of the roles: those with a spec, those that a playbook names, and the removal."""
    specs = {f"{role}/{entry}" for role, found in _specs(root).items() for entry in found}
    removals = {f"{path.parts[-3]}/remove" for path in root.glob("roles/*/tasks/remove.yml")}
    return specs | removals | {name for path in root.glob("playbooks/**/*.yml") for name in _named(_load(path))}


@functools.cache
def all_options(root: Path) -> dict[str, dict[str, t.Any]]:
    """Return the switches and choices of all roles."""
    specs = [spec for found in _specs(root).values() for entry, spec in found.items() if entry != JUDGES]
    return {name: spec["options"][name] for spec in specs for name in choices(spec)}


def _specs(root: Path) -> dict[str, dict[str, t.Any]]:
    return {path.parts[-3]: _load(path)["argument_specs"] for path in root.glob("roles/*/meta/argument_specs.yml")}


def _load(path: Path) -> t.Any:
    return yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader)


def _named(data: t.Any) -> t.Iterator[str]:
    """Yield the entry points that a playbook names; a name that a template makes is found as a removal or a spec."""
    if isinstance(data, dict) and "tasks_from" in data and "{" not in data["name"] + data["tasks_from"]:
        yield f"{data['name'].rpartition('.')[2]}/{data['tasks_from']}"
    for value in data.values() if isinstance(data, dict) else data if isinstance(data, list) else []:
        yield from _named(value)


@pytest.fixture(scope="module")
def everything() -> dict[str, Seen]:
    options = all_options(ROOT)
    return {scenario.folder.name: seen(scenario, options) for scenario in scenarios(ROOT)}


def missing(found: t.Iterable[Seen]) -> list[str]:
    """Return what none of some scenarios applies."""
    both = [(one.entries, one.values) for one in found]
    entries, values = (set[str]().union(*sets) for sets in zip(*both))
    wanted = set[str]().union(*(wanted_values(name, option) for name, option in all_options(ROOT).items()))
    return sorted((all_entries(ROOT) - entries) | (wanted - values))


def test_nothing_that_users_run_is_missing_from_all_scenarios(everything: dict[str, Seen]) -> None:
    assert missing(everything.values()) == sorted(EXCEPTIONS)


def test_a_change_of_a_role_that_a_scenario_applies_lets_it_run_again(everything: dict[str, Seen]) -> None:
    """What .ci/proofs.py finds in the text of files has every role that this reader finds as Ansible does."""
    tree = tree_of_the_collection()
    missed = {
        (name, entry)
        for name, found in everything.items()
        for files in (tree.of(name),)
        for entry in found.entries
        if f"roles/{entry.partition('/')[0]}/meta/argument_specs.yml" not in files
    }

    assert not missed


def test_a_scenario_makes_a_volume_of_the_local_drives_that_it_finds() -> None:
    """The role scratch has its default inputs there: no scenario sets the number of drives or their names."""
    found = [
        application
        for application in Scenario(ROOT, ROOT / "molecule/nfs").applications()
        if (application.role, application.entry) == ("scratch", "apply")
    ]

    assert found
    assert {(int(one.value("scratch_drive_count")), str(one.value("scratch_devices"))) for one in found} == {(-1, "[]")}


@pytest.mark.parametrize(
    ("scenario", "named"),
    [
        ("docker", ["docker/main", "docker/remove"]),
        ("gpu", ["gpu_driver_source=distribution", "gpu_driver_source=nvidia"]),
        ("nfs", ["nfs/server", "nfs/client"]),
    ],
)
def test_what_only_one_scenario_applies_is_named_without_it(
    scenario: str, named: list[str], everything: dict[str, Seen]
) -> None:
    left = missing(found for name, found in everything.items() if name != scenario)

    assert set(named) <= set(left)


def test_a_login_machine_that_is_missing_is_noticed(everything: dict[str, Seen], tmp_path: Path) -> None:
    for name in ("roles", "playbooks", "inventories", ".config", "site.yml"):
        (tmp_path / name).symlink_to(ROOT / name)
    shutil.copytree(ROOT / "molecule", tmp_path / "molecule", symlinks=True)
    inventory = tmp_path / "molecule/login/inventory/hosts.yml"
    text = inventory.read_text(encoding="utf-8")
    inventory.write_text(text.replace("slurm_login: {hosts: {login: {}}}", "slurm_login: {}"), encoding="utf-8")
    without = seen(Scenario(tmp_path, tmp_path / "molecule/login"), all_options(ROOT))

    assert everything["login"].entries - without.entries == {"slurm/login"}


ARGUMENTS = "argument_specs: {main: {options: {web_port_open: {type: bool, default: true}}}, remove: {}}"
INVENTORY = "--inventory=${MOLECULE_SCENARIO_DIRECTORY}/hosts.yml"


@pytest.fixture
def collection(tmp_path: Path) -> t.Callable[..., Seen]:
    """Return a function that makes a collection of one role and one scenario, and says what the scenario applies."""

    def apply(converge: str, **files: str) -> Seen:
        texts = {
            ".config/molecule/config.yml": "ansible: {executor: {args: {ansible_playbook: []}}}",
            "molecule/web/molecule.yml": f"ansible: {{executor: {{args: {{ansible_playbook: ['{INVENTORY}']}}}}}}",
            "molecule/web/hosts.yml": "{web: {hosts: {web1: {}}, vars: {colour: red}}, other: {}}",
            "molecule/web/converge.yml": converge,
            "roles/web/meta/argument_specs.yml": ARGUMENTS,
            "roles/web/defaults/main.yml": "web_port_open: true",
            **{name.replace("__", "/") + ".yml": text for name, text in files.items()},
        }
        shutil.rmtree(tmp_path)
        for name, text in texts.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text, encoding="utf-8")
        (scenario,) = scenarios(tmp_path)
        return seen(scenario, {"web_port_open": {"type": "bool", "default": True}})

    return apply


WEB = Seen({"web/main"}, {"web_port_open=True"})
NOTHING = Seen(set(), set())


@pytest.mark.parametrize(
    ("play", "expected"),
    [
        ("{hosts: web, roles: [web]}", WEB),
        ("{hosts: web, roles: [{role: hpcai.gpucluster.web, when: colour == 'red'}]}", WEB),
        ("{hosts: web, roles: [{role: web, when: colour == 'blue'}]}", NOTHING),
        ("{hosts: other, roles: [web]}", NOTHING),
        ("{hosts: 'web:!web1', roles: [web]}", NOTHING),
        ("{hosts: web, vars: {web_port_open: false}, roles: [web]}", Seen({"web/main"}, {"web_port_open=False"})),
    ],
)
def test_only_plays_with_machines_count(play: str, expected: Seen, collection: t.Callable[..., Seen]) -> None:
    assert collection(f"[{play}]") == expected


@pytest.mark.parametrize(
    ("task", "entries"),
    [
        ("{ROLE: {name: web}, when: [answer.rc == 0]}", {"web/main"}),
        ("{ROLE: {name: web}, when: [answer.rc == 0, colour == 'blue']}", set()),
        ("{ROLE: {name: web, tasks_from: remove}}", {"web/remove"}),
        ("{ROLE: {name: web, tasks_from: \"{{ 'main' if colour == 'blue' else 'remove' }}\"}}", {"web/remove"}),
        ("{ROLE: {name: 'x.y.{{ item }}', tasks_from: remove}, loop: [web]}", {"x.y.web/remove"}),
        ("{when: colour == 'blue', block: [{ROLE: {name: web}}]}", set()),
        ("{block: [], rescue: [{ROLE: {name: web}}]}", {"web/main"}),
    ],
)
def test_only_tasks_that_can_run_count(task: str, entries: set[str], collection: t.Callable[..., Seen]) -> None:
    task = task.replace("ROLE", "ansible.builtin.include_role")

    assert collection(f"[{{hosts: web, tasks: [{task}]}}]").entries == entries


def test_playbooks_and_tasks_that_are_imported_count(collection: t.Callable[..., Seen]) -> None:
    imported = "[{ansible.builtin.import_playbook: ../../playbooks/site.yml, vars: {colour: blue}}]"
    tasks = "[{hosts: web, tasks: [{ansible.builtin.include_tasks: tasks/web.yml}]}]"
    role = "[{ansible.builtin.include_role: {name: web}, when: colour == 'blue'}]"

    assert collection(imported, playbooks__site=tasks, playbooks__tasks__web=role) == WEB


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("[ansible-playbook, playbooks/web.yml, --limit, web1, -e, colour=blue]", WEB),
        ("[ansible-playbook, playbooks/web.yml, -e, colour=blue]", NOTHING),
        ('[ansible-playbook, playbooks/web.yml, --limit, web1, -e, \'{"colour": "blue"}\']', WEB),
        ("[ansible-playbook, tasks/web.yml, --limit, web1, -e, colour=blue]", NOTHING),
    ],
)
def test_playbooks_that_a_command_starts_count(command: str, expected: Seen, collection: t.Callable[..., Seen]) -> None:
    verify = f"[{{hosts: web, tasks: [{{ansible.builtin.command: {{argv: {command}}}}}]}}]"
    playbook = "[{hosts: web, roles: [{role: web, when: [ansible_limit is defined, colour == 'blue']}]}]"

    assert collection("[]", molecule__web__verify=verify, playbooks__web=playbook) == expected


def test_an_input_that_a_play_reads_from_a_file_is_given(collection: t.Callable[..., Seen]) -> None:
    play = "[{hosts: web, vars_files: [vars/main.yml], roles: [web]}]"

    assert collection(play, molecule__web__vars__main="web_port_open: no").values == {"web_port_open=False"}
