# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Playbooks of the checkout, on inventories that a test makes up."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # a plain checkout is no package

from patience import PATIENCE  # type: ignore[import-not-found]

CHECKOUT = Path(__file__).parents[2]


class Run(t.Protocol):
    """Runs a playbook as an operator does, and returns its exit status and all that it says."""

    def __call__(self, inventory: dict[str, t.Any], *arguments: str, **environment: str) -> tuple[int, str]: ...


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def call(inventory: dict[str, t.Any], *arguments: str, **environment: str) -> tuple[int, str]:
        path = tmp_path / "inventory.json"
        path.write_text(json.dumps(inventory), encoding="utf-8")
        done = subprocess.run(
            [str(Path(sys.executable).parent / "ansible-playbook"), "-i", str(path), *arguments],
            cwd=CHECKOUT,
            env=os.environ | {"ANSIBLE_CONFIG": str(CHECKOUT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1", **environment},
            capture_output=True,
            text=True,
            timeout=2 * PATIENCE,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    return call
