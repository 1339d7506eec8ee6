# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Format lists in messages: the first items and the count of the others."""

from __future__ import annotations

import typing as t

if t.TYPE_CHECKING:
    from collections.abc import Sequence, Sized


def more(items: Sized, shown: int) -> str:
    """Return C(and 3 more) for the items that are not shown, or an empty string if there are none."""
    left = len(items) - shown
    return f"and {left} more" if left > 0 else ""


def listed(items: Sequence[t.Any], most: int = 5, separator: str = ", ") -> str:
    """Return the first items and the count of the others."""
    return " ".join(filter(None, [separator.join(map(str, items[:most])), more(items, most)]))
