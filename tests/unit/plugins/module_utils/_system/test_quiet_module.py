# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import os
import subprocess
import sys
import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.quiet_module import unknown_values

SPEC: dict[str, t.Any] = {
    "entries": {
        "type": "list",
        "elements": "dict",
        "options": {"login": {"type": "str"}, "password": {"type": "str", "no_log": True, "aliases": ["secret"]}},
    },
    "path": {"type": "path"},
}


@pytest.mark.parametrize(
    ("given", "hidden"),
    [
        ({"entries": [{"login": "alice", "password": "p"}], "path": "/x"}, set()),
        ({"entries": [{"login": "alice", "secret": "p"}]}, set()),
        ({"entries": [{"login": "alice", "passwort": "hunter2"}]}, {"hunter2"}),
        ({"entrys": [{"login": "alice", "password": "hunter2"}]}, {"alice", "hunter2"}),
        ({"entries": {"passwort": ["a", {"b": 1}], "login": None}}, {"a", "1"}),
        ({"entries": ["text", None], "_ansible_verbosity": 3, "more": None}, set()),
    ],
)
def test_what_stands_under_a_name_that_is_not_known_is_hidden(given: dict[str, t.Any], hidden: set[str]) -> None:
    assert unknown_values(given, SPEC) == hidden


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        ("enroot_credentials", {"entries": [{"machine": "nvcr.io", "login": "x", "passwort": "hunter2"}]}),
        (
            "enroot_image",
            # ansible-core 2.21 names a missing option first.
            {"path": "/x", "image": "x", "credentials": [{"machine": "nvcr.io", "passwort": "hunter2"}]},
        ),
        ("accounts", {"users": [{"name": "alice", "uid": 2001, "passwort": "hunter2"}]}),
    ],
)
def test_a_misspelt_password_is_refused_and_not_printed(module: str, arguments: dict[str, t.Any]) -> None:
    given = {"ANSIBLE_MODULE_ARGS": {**arguments, "_ansible_verbosity": 4, "_ansible_no_log": False}}
    done = subprocess.run(
        [sys.executable, "-m", f"ansible_collections.hpcai.gpucluster.plugins.modules.{module}"],
        input=json.dumps(given),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=False,
    )

    assert json.loads(done.stdout)["failed"], done.stderr
    assert "passwort" in done.stdout
    assert "hunter2" not in done.stdout + done.stderr
