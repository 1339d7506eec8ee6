# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module process_pinning_info, run as Ansible runs it, on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.modules import process_pinning_info


def _run(**options: t.Any) -> dict[str, t.Any]:
    done = subprocess.run(
        [sys.executable, process_pinning_info.__file__],
        input=json.dumps({"ANSIBLE_MODULE_ARGS": {"executable": "/nonexistent/nvidia-smi", **options}}),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    return t.cast("dict[str, t.Any]", json.loads(done.stdout or json.dumps({"died": done.stderr})))


def test_module_finds_itself() -> None:
    found = _run(pattern="python")

    assert not found["changed"]
    assert any(process["running"] for process in found["processes"])
    assert "cannot be started" in found["notes"][0]


@pytest.mark.parametrize(
    ("options", "text"),
    [({"pattern": "("}, "no regular expression"), ({"record": {"topology": [{"pci": "x"}]}}, "not of the form")],
)
def test_bad_input_is_refused(options: dict[str, t.Any], text: str) -> None:
    assert text in _run(**options)["msg"]
