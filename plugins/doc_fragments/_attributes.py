# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This fragment is PRIVATE to the collection. It may change or vanish at any time.
"""Attributes of every module of the collection."""

from __future__ import annotations


class ModuleDocFragment:
    """Standard attributes; each module adds its own C(support)."""

    DOCUMENTATION = r"""
options: {}
attributes:
  check_mode:
    description: Can run in C(check_mode) and return changed status prediction without modifying target.
  diff_mode:
    description: Will return details on what has changed (or needs changing in C(check_mode)), when in diff mode.
  idempotent:
    description: When run twice in a row with the same arguments, outside check mode, the second run changes nothing.
"""

    # A module that only reads.
    INFO_MODULE = r"""
options: {}
attributes:
  check_mode:
    support: full
    details: This module does not modify state.
  diff_mode:
    support: N/A
    details: This module does not modify state.
  idempotent:
    support: full
    details: This module does not modify state.
"""
