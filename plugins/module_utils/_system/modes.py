# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Modes of files as people write them."""

from __future__ import annotations

import re
import typing as t

ALLOWED = "an octal mode in quotes, such as '0755'"


def mode_problem(value: t.Any) -> str:
    """
    Return what is allowed where a mode is none, else an empty text.

    Without quotes YAML reads 0711 as the number 457, and 711 as 711. Which was meant cannot be told, so a number is no
    mode.
    """
    return "" if isinstance(value, str) and re.fullmatch(r"[0-7]{3,4}", value) else ALLOWED
