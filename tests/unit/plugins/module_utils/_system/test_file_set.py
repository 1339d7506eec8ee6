# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan that brings a set of files to its wanted state."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.file_set import (
    Found,
    Wanted,
    diff,
    plan,
    problems,
    removals,
    with_block,
)

FILE = Wanted("/etc/x", "new\n", 0o644, 0, 0)


@pytest.mark.parametrize(
    ("wanted", "found", "action"),
    [
        (FILE, None, "write"),
        (FILE, Found("old\n", 0o644, 0, 0), "write"),
        (FILE, Found("new\n", 0o644, 0, 0), None),
        (FILE, Found("new\n", 0o600, 0, 0), "attributes"),
        (FILE, Found("new\n", 0o644, 1, 0), "attributes"),
        (FILE, Found("", -1, -1, -1), "write"),  # a link
        (FILE._replace(content=""), Found("", 0o644, 0, 0), None),
        (FILE._replace(content=None), Found("new\n", 0o644, 0, 0), "remove"),
        (FILE._replace(content=None), None, None),
    ],
)
def test_only_what_differs_is_changed(wanted: Wanted, found: Found | None, action: str | None) -> None:
    changes = plan([wanted], lambda _path: found)

    assert [change.action for change in changes] == ([action] if action else [])


def test_diff_shows_content_and_mode() -> None:
    shown = diff(plan([FILE], lambda _path: Found("old\n", 0o600, 0, 0)))

    assert shown == [
        {
            "before_header": "/etc/x",
            "after_header": "/etc/x",
            "before": "# mode 0600\nold\n",
            "after": "# mode 0644\nnew\n",
        }
    ]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"path": "etc/x"}, "path must be absolute and name a file, not 'etc/x'"),
        ({"path": "/etc/"}, "path must be absolute"),
        ({"content": None}, "/etc/x: content is required"),
        ({"mode": "644"}, "mode must be four octal digits"),
        ({"mode": "0988"}, "mode must be four octal digits"),
    ],
)
def test_bad_input_is_named(change: dict[str, t.Any], words: str) -> None:
    one = {"path": "/etc/x", "content": "", "mode": "0644", "state": "present", **change}

    assert words in "; ".join(problems([one]))


def test_good_input_has_no_problem_and_a_path_is_given_once() -> None:
    one = {"path": "/etc/x", "content": "", "mode": "0644", "state": "present"}

    assert problems([one]) == []
    assert problems([one, one]) == ["path '/etc/x' is given twice"]


@pytest.mark.parametrize(
    ("text", "block", "result"),
    [
        ("", "", ""),
        ("a", "", "a"),
        ("a", "b\n", "a\n# BEGIN x\nb\n# END x\n"),
        ("a\n\n", "b\nc", "a\n\n# BEGIN x\nb\nc\n# END x\n"),
        ("# BEGIN x\nb\n# END x\nz\n", "c", "# BEGIN x\nc\n# END x\nz\n"),
        ("# BEGIN x\nb\n# END x\nz\n", " ", "z\n"),
        ("# END x\n# BEGIN x\n", "c", "# END x\n# BEGIN x\n# BEGIN x\nc\n# END x\n"),
    ],
)
def test_a_block_is_between_its_marks(text: str, block: str, result: str) -> None:
    once = with_block(text, block, "# {mark} x")

    assert once == result
    assert text.startswith("# END") or with_block(once, block, "# {mark} x") == result


def test_a_marker_without_a_place_for_the_mark_is_refused() -> None:
    entry = {"path": "/x", "content": "", "state": "present", "mode": "0644", "marker": "# x"}

    assert problems([entry]) == ["/x: marker must contain {mark}, not '# x'"]


@pytest.mark.parametrize("path", ["/", "//", "///", "////", "/.", "//..", "/etc/..", "etc/x", "", "./x", "~/x"])
def test_a_path_that_must_not_be_removed_is_refused(path: str) -> None:
    assert problems([], [path])


def test_a_file_is_not_written_and_removed_in_one_task() -> None:
    one = {"path": "/etc/x", "content": "", "mode": "0644", "state": "present"}

    assert problems([one], ["/etc/y"]) == []
    assert problems([one], ["/etc/x"]) == ["path '/etc/x' is in files and in absent"]


def test_a_removal_shows_what_kind_of_file_it_was() -> None:
    assert removals({"/etc/x": "file"}) == [
        {"before_header": "/etc/x", "after_header": "/etc/x", "before": "(file)\n", "after": ""}
    ]
