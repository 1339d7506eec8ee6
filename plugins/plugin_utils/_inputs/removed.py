# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Refuse variables that the collection had once, each with what takes its place."""

from __future__ import annotations

import functools
import typing as t
from pathlib import Path

from ansible.module_utils.common.yaml import yaml_load

if t.TYPE_CHECKING:
    from collections.abc import Iterable


@functools.cache
def table() -> dict[str, str]:
    """Return by name, or by the beginning of names with a C(*) after it, the sentence that names the replacement."""
    sentences = yaml_load(Path(__file__).with_suffix(".yml").read_text(encoding="utf-8")) or {}
    return {name: sentence for sentence, names in sentences.items() for name in names}


def problems(names: Iterable[str], own: Iterable[str] = ()) -> dict[str, str]:
    """Return one sentence for each removed variable; C(own) are names that the site uses for something else."""
    return {
        name: f"{name}: found a variable that the collection does not read; {instead}"
        for name in sorted(set(names) - set(own))
        if (instead := _instead(name))
    }


def _instead(name: str) -> str:
    starts = (sentence for known, sentence in table().items() if known[-1] == "*" and name.startswith(known[:-1]))
    return table().get(name) or next(starts, "")
