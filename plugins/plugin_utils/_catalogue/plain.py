# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
Plain mappings and lists from what Ansible's templating hands to a filter.

Those containers are lazy and hold on to every variable of the play. C(copy.deepcopy), which Ansible's own
ArgumentSpecValidator calls as well, copies all of that: half a second for each call in a cluster of 10,000 hosts.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping


def plain(value: t.Any) -> t.Any:
    """Return a value with every mapping and list in it as a dict and a list of its own."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value
