# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
Convert the containers that Ansible's templating passes to a filter into plain mappings and lists.

Those containers are lazy and refer to every variable of the play. C(copy.deepcopy), which Ansible's
ArgumentSpecValidator also calls, copies all of them: half a second for each call in a cluster of 10,000 hosts.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping


def plain(value: t.Any) -> t.Any:
    """Return a copy of a value in which every mapping is a dict and every list a list."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value
