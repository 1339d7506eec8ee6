# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role nfs exports what the input says, in each run, and only in a file of its own."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

ROLE = Path(__file__).parents[3] / "roles/nfs"
EXPORTS = [{"path": "/home"}, {"path": "/sw", "options": "10.0.0.0/8(ro) login(rw)"}]


def _value(text: str) -> t.Any:
    names = yaml.safe_load((ROLE / "vars/main.yml").read_text(encoding="utf-8"))
    wanted = ("__nfs_export_entries", "__nfs_export_pattern")
    variables = {**{name: trust_as_template(names[name]) for name in wanted}}
    variables |= {"nfs_exports": EXPORTS, "nfs_clients": "10.0.0.0/24"}
    return Templar(loader=DataLoader(), variables=variables).template(trust_as_template(text))


def _tasks(name: str) -> list[dict[str, t.Any]]:
    return t.cast("list[dict[str, t.Any]]", yaml.safe_load((ROLE / f"tasks/{name}.yml").read_text(encoding="utf-8")))


def test_the_file_has_a_line_for_each_export() -> None:
    text = _value((ROLE / "templates/gpucluster.exports.j2").read_text(encoding="utf-8"))

    assert text.splitlines()[1:] == [
        "/home 10.0.0.0/24(rw,sync,no_subtree_check,root_squash)",
        "/sw 10.0.0.0/8(ro) login(rw)",
    ]


@pytest.mark.parametrize("name", ["share", "remove"])
def test_a_change_is_published_also_after_an_interrupted_run(name: str) -> None:
    tasks = _tasks(name)
    written = max(number for number, task in enumerate(tasks) if "hpcai.gpucluster.file_set" in task)
    told = [number for number, task in enumerate(tasks) if "exportfs" in str(task.get("ansible.builtin.command"))]

    assert told
    assert told[0] > written
    assert "when" not in tasks[told[0]]
    assert tasks[told[0]]["ansible.builtin.command"]["argv"] == ["exportfs", "-ra"]


@pytest.mark.parametrize(
    ("line", "found"),
    [("/home *(rw,no_root_squash)", True), ('"/sw" *(ro)', True), ("/homes *(rw)", False), ("# /home *(rw)", False)],
)
def test_the_same_directory_in_another_file_is_found(line: str, found: bool) -> None:
    pattern = _value("{{ __nfs_export_pattern }}").replace("[[:space:]]", r"\s")

    assert bool(re.search(pattern, line)) == found
