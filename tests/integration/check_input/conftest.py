# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tests of inventories of other projects share."""

from __future__ import annotations

import json
import typing as t

import pytest

if t.TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def sizes(tmp_path: Path) -> str:
    """Return an extra variable: the file with the sizes of machines that an earlier run has found."""
    path = tmp_path / "sizes.json"
    found = dict.fromkeys(("gpu1", "gpu2", "gpu01", "gpu02"), "DGX_A100")
    path.write_text(json.dumps(found), encoding="utf-8")
    return f"gpucluster_vm_sizes_file={path}"
