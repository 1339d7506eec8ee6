# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Machines of elastic nodes that wait for a person, as gpucluster-elastic notes it on the controller."""

from __future__ import annotations

import json
import typing as t

from .text import Sample, sample

if t.TYPE_CHECKING:
    from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host

CONFIG = "/etc/gpucluster/elastic.json"


def samples(host: Host) -> list[Sample]:
    """Return one figure for each alarm, and none without elastic nodes."""
    config = json.loads(host.read(CONFIG) or "{}")
    if not config:
        return []
    alarms = json.loads(host.read(f"{config['directory']}/state.json") or "{}").get("alarms") or {}
    return [
        sample("gpucluster_elastic_alarm", 1, set=name, reason=reason[:300]) for name, reason in sorted(alarms.items())
    ]
