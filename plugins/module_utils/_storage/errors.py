# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""The exception of the storage utilities."""

from __future__ import annotations


class StorageError(Exception):
    """The request cannot be fulfilled. The message says what to change."""
