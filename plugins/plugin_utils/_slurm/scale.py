# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Return the settings of slurm.conf that follow the number of nodes."""

from __future__ import annotations

import functools
import typing as t
from pathlib import Path

from ansible.module_utils.common.yaml import yaml_load

_TABLE = Path(__file__).with_name("scale.yml")


@functools.cache
def table() -> dict[str, t.Any]:
    """Return the content of scale.yml: for each key, its values by the least number of nodes, and the source."""
    return t.cast("dict[str, t.Any]", yaml_load(_TABLE.read_text(encoding="utf-8")))


def settings(nodes: int) -> dict[str, t.Any]:
    """Return the keys of slurm.conf for so many nodes; a cluster without nodes counts as one node."""
    found = {}
    for key, rule in table().items():
        fitting = [least for least in rule["from"] if least <= max(nodes, 1)]
        if fitting:
            found[key] = rule["from"][max(fitting)]
    return found
