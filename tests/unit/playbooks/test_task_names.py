# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The name of a task tells its outcome in a log of 500 lines."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

from ansible.module_utils.common.yaml import yaml_load

from ansible_collections.hpcai.gpucluster.tests.unit.support.places import expect_none, place

if t.TYPE_CHECKING:
    from collections.abc import Iterator

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
LONGEST = 72
VAGUE = re.compile(
    r"\b(It|it|them|Them)( again| now| there)?$"  # which, in a log?
    r"|^(It|They|There|Nothing|What|Who|How) "
    r"|^(Say|Ask|Have|Let|Give|Keep|See|Know|Learn|Look|Tell|Note|Make sure|Bring|Take) "
    r"|\b(each|the rest|what else|everything|anything|somebody|nobody)$"
)


def _names(entries: t.Any) -> Iterator[str]:
    for entry in entries or []:
        yield entry.get("name", "")
        for part in ("tasks", "pre_tasks", "post_tasks", "handlers", "block", "rescue", "always"):
            yield from _names(entry.get(part))


def _faults(path: Path) -> list[str]:
    names = [re.sub(r"^[\w ]+ \| ", "", name) for name in _names(yaml_load(path.read_text(encoding="utf-8")))]
    whole = _names(yaml_load(path.read_text(encoding="utf-8")))
    return [name for name in whole if len(name) > LONGEST] + [name for name in names if VAGUE.search(name)]


def test_names_are_short_and_tell_an_outcome() -> None:
    expect_none(
        f"{place(path, name)}: the name is longer than {LONGEST} characters, or tells no outcome: {name}"
        for path in PATHS
        for name in _faults(path)
    )


def test_the_test_finds_vague_names() -> None:
    for name in ("It is done", "Ask each", "Say what is wrong", "Install it", "Have the machine", "Remove the rest"):
        assert VAGUE.search(name), name
    for name in ("Install enroot", "Fail with the reason and the variables to set", "Verify that containers can start"):
        assert not VAGUE.search(name), name
