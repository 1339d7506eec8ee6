# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Check file modes in the input."""

from __future__ import annotations

import re
import typing as t

ALLOWED = "an octal mode in quotes, such as '0755'"


def mode_problem(value: t.Any) -> str:
    """
    Return the allowed form if a mode is invalid, otherwise an empty string.

    Without quotes, YAML reads 0711 as the integer 457, and 711 as 711. The intended mode is ambiguous, so integers are
    invalid.
    """
    return "" if isinstance(value, str) and re.fullmatch(r"[0-7]{3,4}", value) else ALLOWED
