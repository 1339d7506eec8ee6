# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""
A run in which nothing is wrong prints no line that says FAILED.

Ansible prints FAILED - RETRYING for each retry, and fatal for each failure that it ignores. So a wait is one task whose
program queries by itself, and only a task that truly failed, such as a download, is repeated.
"""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

from ansible.module_utils.common.yaml import yaml_load

from ansible_collections.hpcai.gpucluster.tests.unit.support.places import expect_none, place

ROOT = Path(__file__).parents[3]
PATHS = sorted(
    path
    for pattern in (
        "playbooks/*.yml",
        "playbooks/parts/*.yml",
        "playbooks/tasks/*.yml",
        "roles/*/tasks/*.yml",
        "roles/*/handlers/*.yml",
    )
    for path in ROOT.glob(pattern)
)
REPEATED = re.compile(r"\w+ is succeeded")
DOWNLOADS = {"ansible.builtin.get_url", "ansible.builtin.uri"}


def _tasks(entries: t.Any) -> t.Iterator[dict[str, t.Any]]:
    for entry in entries or []:
        yield entry
        for part in ("tasks", "pre_tasks", "post_tasks", "handlers", "block", "rescue", "always"):
            yield from _tasks(entry.get(part))


def faults(text: str) -> list[str]:
    """Return the names of the tasks that print a failure although nothing is wrong."""
    return [
        task.get("name", "?")
        for task in _tasks(yaml_load(text))
        if task.get("ignore_errors") or ("until" in task and not is_download(task))
    ]


def is_download(task: t.Mapping[str, t.Any]) -> bool:
    """Return whether a task repeats a download until it succeeds."""
    return bool(DOWNLOADS & task.keys()) and bool(REPEATED.fullmatch(str(task["until"])))


def test_no_task_fails_until_something_happens() -> None:
    expect_none(
        f"{place(path, name)}: the task prints failures although nothing is wrong: {name}"
        for path in PATHS
        for name in faults(path.read_text(encoding="utf-8"))
    )


def test_waits_and_ignored_failures_are_found() -> None:
    text = """
- block:
    - {name: wait, until: found.rc == 0}
    - {name: download, ansible.builtin.get_url: {}, until: found is succeeded}
    - {name: remove, containers.podman.podman_container: {}, until: found is succeeded}
    - {name: ignore, ignore_errors: true}
"""
    assert faults(text) == ["wait", "remove", "ignore"]
