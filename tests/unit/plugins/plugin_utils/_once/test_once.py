# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which hosts share the result of a template."""

from __future__ import annotations

import fcntl
import typing as t

import pytest
from ansible.errors import AnsibleValueOmittedError
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._once import keys, reads, shared

if t.TYPE_CHECKING:
    from pathlib import Path

VARIABLES = {
    "inventory_hostname": "gpu1",
    "group_names": ["slurm_compute"],
    "ansible_facts": {"distribution": "Debian", "ssh_host_key": "AAAA1"},
    "size": "h100",
    "title": "node with {{ kind }}",
    "kind": "{{ size | upper }}",
    "named": "{{ 'gpu' if 'slurm_compute' in group_names else 'login' }}",
    "release": "{{ ansible_facts['distribution'] }}",
    "own": "{{ inventory_hostname }}",
    "number": "{{ inventory_hostname[-1] }}",
    "unused": 1,
}


class Host:
    """Evaluates the templates of one host, and counts how often."""

    def __init__(self, **variables: t.Any) -> None:
        raw = {**VARIABLES, **variables}
        self.variables = {
            name: trust_as_template(value) if isinstance(value, str) else value for name, value in raw.items()
        }
        self._templar = Templar(loader=DataLoader(), variables=self.variables)
        self.evaluated: list[str] = []

    def evaluate(self, value: t.Any) -> t.Any:
        self.evaluated.append(str(value))
        return self._templar.template(value)

    def key(self, value: str) -> str:
        return keys.key(trust_as_template(value), self.variables, self.evaluate)

    def result(self, value: str, folder: Path) -> t.Any:
        return shared.evaluated(trust_as_template(value), self.variables, self.evaluate, folder)


@pytest.mark.parametrize(
    ("text", "own"),
    [
        ("{{ a + b | upper }}", False),
        ("{{ lookup('ansible.builtin.env', 'HOME') }}", False),
        ("{{ lookup('ansible.builtin.template', 'a.j2') }}", False),
        ("{{ lookup('ansible.builtin.template', name) }}", True),
        ("{{ lookup('ansible.builtin.vars', 'a') }}", True),
        ("{{ query('ansible.builtin.fileglob', '/a/*') }}", True),
        ("{{ q('env', 'A') }}", True),
        ("{{ hostvars[a].b }}", True),
        ("{{ vars['a'] }}", True),
        ("{{ path is file }}", True),
        ("{{ path is not ansible.builtin.exists }}", True),
        ("{% include 'other.j2' %}", True),
        ("{{ now() }}", True),
        ("no template about hostvars", False),
    ],
)
def test_a_template_that_reads_what_only_its_host_has_is_no_key(text: str, own: bool) -> None:
    assert reads.of({"list": [text]}).own is own


@pytest.mark.parametrize("name", ["title", "named", "release"])
@pytest.mark.parametrize(
    ("other", "equal"),
    [
        ({"inventory_hostname": "gpu2"}, True),
        ({"ansible_facts": {"distribution": "Debian", "ssh_host_key": "AAAA2"}}, True),
        ({"unused": 2}, True),
    ],
)
def test_hosts_that_differ_in_nothing_that_is_read_are_equal(name: str, other: dict[str, t.Any], equal: bool) -> None:
    text = f"{{{{ {name} }}}}"

    assert (Host().key(text) == Host(**other).key(text)) is equal


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("title", {"size": "h200"}),
        ("title", {"kind": "h100"}),
        ("named", {"group_names": []}),
        ("release", {"ansible_facts": {"distribution": "Ubuntu"}}),
        ("number", {"inventory_hostname": "gpu2"}),
    ],
)
def test_hosts_that_differ_in_what_a_variable_reads_are_not_equal(name: str, other: dict[str, t.Any]) -> None:
    text = f"{{{{ {name} }}}}"

    assert Host().key(text) != Host(**other).key(text)


def test_the_files_of_templates_are_read(tmp_path: Path) -> None:
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates/a.j2").write_text("# inventory_hostname\n{{ title }}\n", encoding="utf-8")
    (tmp_path / "templates/b.j2").write_text("{{ inventory_hostname }}\n", encoding="utf-8")
    role = {"role_path": str(tmp_path)}
    text = "{{ lookup('ansible.builtin.template', 'a.j2') }}"

    assert Host(**role).key(text) == Host(**role, inventory_hostname="gpu2").key(text)
    assert Host(**role).key(text) != Host(**role, size="h200").key(text)
    for other in ("b.j2", "missing.j2"):
        with pytest.raises(keys.IncomparableError):
            Host(**role).key(text.replace("a.j2", other))


def test_equal_hosts_evaluate_once(tmp_path: Path) -> None:
    text = "{{ {'text': title, 'count': 2, 'on': true, 'none': none} }}"
    first, second, other = Host(), Host(inventory_hostname="gpu2"), Host(size="h200")

    expected = {"text": "node with H100", "count": 2, "on": True, "none": None}
    assert [first.result(text, tmp_path), second.result(text, tmp_path)] == [expected] * 2
    assert other.result(text, tmp_path) == {**expected, "text": "node with H200"}
    assert [len(first.evaluated), len(second.evaluated), len(other.evaluated)] == [1, 0, 1]


def test_an_argument_is_omitted_on_all_equal_hosts(tmp_path: Path) -> None:
    hosts = [Host(), Host(inventory_hostname="gpu2")]

    for host in hosts:
        with pytest.raises(AnsibleValueOmittedError):
            host.result("{{ omit if size else 1 }}", tmp_path)
    assert [len(host.evaluated) for host in hosts] == [1, 0]


def test_what_cannot_be_shared_is_evaluated_on_each_host(tmp_path: Path) -> None:
    texts = ["{{ inventory_hostname }}", "{{ missing | default('gpu2') }}", "{{ size is file }}", "text"]

    for text, expected in zip(texts, ["gpu2", "gpu2", False, "text"]):
        Host().result(text, tmp_path)
        assert Host(inventory_hostname="gpu2").result(text, tmp_path) == expected


def test_of_a_list_with_the_name_of_the_host_the_other_items_are_shared(tmp_path: Path) -> None:
    items = [*map(trust_as_template, ["{{ own }}", "{{ title }}", "{{ omit if size else 1 }}"]), 3]
    hosts = [Host(items=items), Host(items=items, inventory_hostname="gpu2")]

    results = [host.result("{{ items }}", tmp_path) for host in hosts]

    assert results == [["gpu1", "node with H100", 3], ["gpu2", "node with H100", 3]]
    assert "{{ title }}" not in hosts[1].evaluated


def test_a_result_that_is_no_json_is_not_stored(tmp_path: Path) -> None:
    hosts = [Host(), Host()]

    assert [host.result("{{ {1: size} }}", tmp_path) for host in hosts] == [{1: "h100"}] * 2


def test_a_process_that_hangs_does_not_stop_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host()
    lock = tmp_path / f"{host.key('{{ title }}')}.lock"
    monkeypatch.setattr(shared, "WAIT_SECONDS", 0.1)
    with lock.open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)

        assert host.result("{{ title }}", tmp_path) == "node with H100"
