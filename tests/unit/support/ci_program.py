# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Import a program of the directory .ci, which is no package: its programs import each other by their bare names."""

from __future__ import annotations

import importlib
import sys
import typing as t
from pathlib import Path

FOLDER = Path(__file__).parents[3] / ".ci"


def ci_program(name: str) -> t.Any:
    """Return the program as a module."""
    sys.path.insert(0, str(FOLDER))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(FOLDER))


def tree_of_the_collection() -> t.Any:
    """Return what reads which files a scenario applies."""
    proofs, root = ci_program("proofs"), FOLDER.parent
    if (root / ".git").exists():
        return proofs.Tree(root, proofs.tracked(root))
    # The gate runs on a copy of the files that git knows, in which the tests leave files of their own.
    made = {".ansible", ".hypothesis", ".mypy_cache", ".ruff_cache", "__pycache__", "output"}
    names = [path.relative_to(root) for path in root.rglob("*") if path.is_file()]
    return proofs.Tree(root, [name.as_posix() for name in names if not made & set(name.parts)])
