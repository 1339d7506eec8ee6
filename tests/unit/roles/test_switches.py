# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""
Every switch of every role does what it says, whatever form it comes in.

C(-e slurm_pam_adopt=false) and a line of an INI inventory give the text V(false), which is true for Jinja. So each
place that reads a switch is rendered here, with the truth value and with its texts, by Ansible's own templating.
"""

from __future__ import annotations

import functools
import re
import typing as t
from pathlib import Path

import jinja2
import pytest
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

from ansible_collections.hpcai.gpucluster.tests.unit.support.places import expect_none, place

ROLES = Path(__file__).parents[3] / "roles"
TEXTS = {True: ("true", "yes", "1", "on"), False: ("false", "no", "0", "off")}
# What the places need beside the inputs of their role.
FACTS = {
    "distribution": "Debian",
    "distribution_major_version": "13",
    "distribution_release": "trixie",
    "distribution_version": "13",
    "architecture": "x86_64",
}
GIVEN: dict[str, t.Any] = {
    "ansible_check_mode": False,
    "ansible_facts": FACTS,
    "ansible_managed": "Ansible managed",
    "inventory_hostname": "gpu1",
    "omit": "omitted",
    "enroot_users": [],
    "gpu_count": 8,
    "gpucluster_vm_size": "Standard_ND96isr_H100_v5",
    "role_path": "/nowhere",
    "slurm_controllers": ["gpu1"],
    "slurm_database": "db1",
    "slurm_nodes": [],
    "users_keys_host": "head",
    "__docker_slurped": {},
    "__nfs_support": {"cpus": 4},
    "__slurm_answer": {"failed": True},
    "__slurm_written": {"files": []},
    "__slurm_waited": {"jobs": ["1 job"], "problem": "", "reached": False},
    "__users_key_pairs": {"key_pairs": {"alice": "pair"}},
    "__validate_report": {"verdict": "pass", "summary": "", "worst": [], "page": "/report.html"},
}
# Bare expressions; elsewhere braces say what is one.
CONDITIONS = ("when", "that", "until", "changed_when", "failed_when")


@functools.cache
def _load(path: Path) -> t.Any:
    return DataLoader().load_from_file(str(path), trusted_as_template=True) if path.exists() else {}


def _switches(options: t.Mapping[str, t.Any]) -> set[str]:
    return {name for name, option in options.items() if option["type"] == "bool"}


def _options(role: Path) -> dict[str, dict[str, t.Any]]:
    specs = _load(role / "meta/argument_specs.yml")["argument_specs"]
    return {name: option for spec in specs.values() for name, option in (spec.get("options") or {}).items()}


ALL = [(role.name, name) for role in sorted(ROLES.iterdir()) for name in sorted(_switches(_options(role)))]


def _texts(data: t.Any, key: str = "") -> t.Iterator[str]:
    """Yield every template of a file."""
    if isinstance(data, t.Mapping):
        for name, value in data.items():
            yield from _texts(value, str(name))
    elif isinstance(data, list):
        for value in data:
            yield from _texts(value, key)
    elif isinstance(data, str) and key in CONDITIONS and "{{" not in data:
        yield f"{{{{ {data} }}}}"
    elif isinstance(data, str):
        yield data


@functools.cache
def _places(role: Path) -> list[str]:
    files = [*role.glob("vars/*.yml"), *role.glob("defaults/*.yml"), *role.glob("tasks/*.yml")]
    found = [text for path in sorted(files) for text in _texts(_load(path))]
    return found + [path.read_text(encoding="utf-8") for path in sorted(role.glob("templates/*"))]


@functools.cache
def _reads(text: str) -> set[str]:
    return {node.name for node in jinja2.Environment(autoescape=True).parse(text).find_all(jinja2.nodes.Name)}


def _reading(role: Path, switch: str) -> list[str]:
    """Return the places that read a switch, as it came or as it was converted."""
    return [text for text in _places(role) if {switch, f"__{switch}"} & _reads(text)]


def _variables(role: Path) -> dict[str, t.Any]:
    return {**_load(role / "defaults/main.yml"), **_load(role / "vars/main.yml"), **GIVEN}


@pytest.mark.parametrize(("role", "switch"), ALL)
def test_a_switch_in_words_does_what_its_truth_value_does(role: str, switch: str) -> None:
    variables = _variables(ROLES / role)
    places = _reading(ROLES / role, switch)
    where = place(ROLES / role / "meta/argument_specs.yml", f"{switch}:")
    assert len(places) > 1, f"{where}: nothing reads the switch `{switch}`: let a task read `__{switch}`, or remove it"

    def rendered(value: t.Any) -> list[t.Any]:
        templar = Templar(loader=DataLoader(), variables={**variables, switch: value})
        return [templar.template(trust_as_template(text)) for text in places]

    expected = {truth: rendered(truth) for truth in TEXTS}
    for truth, words in TEXTS.items():
        for word in words:
            for text, found, wanted in zip(places, rendered(word), expected[truth]):
                assert found == wanted, (word, text)
    assert expected[True] != expected[False]


@pytest.mark.parametrize(("role", "switch"), ALL)
def test_a_switch_is_converted_once(role: str, switch: str) -> None:
    wanted, own = f"{{{{ {switch} | bool }}}}", ROLES / role / "vars/main.yml"
    found = _load(own).get(f"__{switch}")
    assert found == wanted, f'{place(own, f"__{switch}:")}: write `__{switch}: "{wanted}"`'

    raw = [text for text in _places(ROLES / role) if switch in _reads(text)]
    raw.remove(wanted)

    expect_none(f"roles/{role}: read `__{switch}` instead of `{switch}` in: {text}" for text in raw)


@pytest.mark.parametrize("role", sorted(path.name for path in ROLES.iterdir() if path.is_dir()))
def test_what_a_role_reads_by_its_own_prefix_is_an_input(role: str) -> None:
    folder = ROLES / role
    read = {name for text in _places(folder) for name in _reads(text) if name.startswith(f"{role}_")}
    files = [path for path in sorted(folder.glob("[tdv]*/*")) if path.is_file()]
    # Facts that the role sets for others.
    facts = {name for name in read for path in files if re.search(rf"(?m)^ +{name}: ", path.read_text("utf-8"))}

    expect_none(
        f"{next(place(path, name) for path in files if name in path.read_text('utf-8'))} reads `{name}`: add it to "
        f"roles/{role}/defaults/main.yml with a comment, and as an option (description, type, default) to "
        f"roles/{role}/meta/argument_specs.yml"
        for name in sorted(read - {*facts, *_options(folder), *_load(folder / "defaults/main.yml")})
    )


@pytest.mark.parametrize(("role", "switch"), ALL)
def test_a_switch_that_is_neither_is_refused(role: str, switch: str) -> None:
    validator = ArgumentSpecValidator({switch: {"type": _options(ROLES / role)[switch]["type"]}})

    assert validator.validate({switch: "maybe"}).error_messages
    assert not validator.validate({switch: "no"}).error_messages
