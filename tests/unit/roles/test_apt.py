# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A mirror that does not answer ends a task of apt long before the time limit of a task."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

from ansible.module_utils.common.yaml import yaml_load

if t.TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[3]
SUITES = 4  # of a distribution: release, updates, security, backports
FILES = 2  # of a suite that does not answer: InRelease, then Release
TASK_SECONDS = 1800


def _apt_tasks(entries: t.Any) -> Iterator[dict[str, t.Any]]:
    for entry in entries or []:
        if "ansible.builtin.apt" in entry:
            yield entry
        for part in ("block", "rescue"):
            yield from _apt_tasks(entry.get(part))


def test_two_updates_of_all_lists_take_less_than_half_of_a_task() -> None:
    text = (ROOT / "roles/base/templates/apt.conf.j2").read_text(encoding="utf-8")
    settings = {name: int(value) for name, value in re.findall(r'^Acquire::([\w:]+) "(\d+)";', text, re.MULTILINE)}
    update = SUITES * FILES * settings["http::Timeout"] * (1 + settings["Retries"])

    assert settings["https::Timeout"] == settings["http::Timeout"]
    assert 2 * update < TASK_SECONDS / 2


def test_every_update_of_lists_is_tried_twice_at_most() -> None:
    tasks = [
        (path, task["ansible.builtin.apt"])
        for path in sorted((ROOT / "roles").glob("*/tasks/*.yml"))
        for task in _apt_tasks(yaml_load(path.read_text(encoding="utf-8")))
        if task["ansible.builtin.apt"].get("update_cache")
    ]

    assert len(tasks) > 4
    for path, task in tasks:
        assert task.get("update_cache_retries", 5) <= 2, path


def test_apt_is_limited_before_it_is_used() -> None:
    files = re.findall(r"import_tasks: (\w+)", (ROOT / "roles/base/tasks/main.yml").read_text(encoding="utf-8"))

    assert files.index("files") < files.index("packages")
