# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module as Ansible runs it: a process of its own that reads this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.modules import node_consistency_info
from ansible_collections.hpcai.gpucluster.tests.patience import PATIENCE

if t.TYPE_CHECKING:
    from pathlib import Path


def run(tools: Path, **arguments: t.Any) -> tuple[int, dict[str, t.Any]]:
    """Return the exit status and the result of the module, with these tools first in the path."""
    text = json.dumps({"ANSIBLE_MODULE_ARGS": arguments})
    done = subprocess.run(
        [sys.executable, node_consistency_info.__file__, text],
        env={"PATH": f"{tools}:/usr/bin:/bin", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    return done.returncode, json.loads(done.stdout)


@pytest.fixture(name="tools")
def fixture_tools(tmp_path: Path) -> Path:
    """Give a directory with a slurmd and a chronyc that say what the real ones say."""
    tracking = "A9FEA97B,169.254.169.123,4,1792000000.0,0.000001,0.25,0.00001,-9.0,0.0,0.02,0.0003,0.0002,16.1,Normal"
    for name, says in (("slurmd", "slurm 24.11.5"), ("chronyc", tracking)):
        tool = tmp_path / name
        tool.write_text(f"#!/bin/sh\necho {says}\n", encoding="utf-8")
        tool.chmod(0o755)
    return tmp_path


def test_it_says_what_this_machine_has_and_changes_nothing(tools: Path) -> None:
    code, found = run(
        tools, mounts=["/proc", str(tools)], users=["root", "nobody-has-this-name"], _ansible_check_mode=True
    )

    assert (code, found["changed"]) == (0, False)
    assert found["versions"]["kernel"] == os.uname().release
    assert found["versions"]["slurm"] == "24.11.5"
    assert set(found["versions"]) == {"kernel", "driver", "ofed", "slurm", "nccl"}
    assert found["clock"] == {"synchronized": True, "offset": 0.000001, "by": "chrony"}
    assert found["own_name"]["name"] == os.uname().nodename
    assert found["mounts"] == {"/proc": "ok", str(tools): "missing"}
    assert found["users"] == {"root": {"uid": 0, "gid": 0}, "nobody-has-this-name": None}


def test_a_tool_that_is_not_installed_is_no_error(tmp_path: Path) -> None:
    code, found = run(tmp_path)

    assert code == 0
    assert found["versions"]["ofed"] is None
    assert (found["mounts"], found["users"]) == ({}, {})


def test_an_unknown_parameter_is_refused(tmp_path: Path) -> None:
    code, found = run(tmp_path, mount=["/home"])

    assert code == 1
    assert "mounts" in found["msg"]
