# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Topology files, and what a real NCCL 2.28.9 on two H200 did with each."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "fixtures/nccl/2.28.9-h200-x2"
VERDICTS: dict[str, dict[str, t.Any]] = json.loads((FOLDER / "verdicts.json").read_text(encoding="utf-8"))


def text(name: str) -> str:
    """Return a file byte by byte; the one with carriage returns is kept without them, as tools dislike such files."""
    contents = (FOLDER / name).read_bytes().decode("latin-1")
    return contents.replace("\n", "\r\n") if name == "crlf.xml" else contents
