# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
The options of a site: one switch for each role that is off by default.

playbooks/vars/cluster.yml has the same table for templates.
"""

from __future__ import annotations

import typing as t

if t.TYPE_CHECKING:
    from collections.abc import Iterable

# Switch, and the role that it applies (present) or removes (absent).
ROLES = {
    "gpucluster_apptainer": "apptainer",
    "gpucluster_backup": "backup",
    "gpucluster_ldap": "ldap",
    "gpucluster_lmod": "lmod",
    "gpucluster_repair": "repair",
}
STATES = ("", "present", "absent")


def switched(hosts: Iterable[str], hostvars: t.Any) -> list[str]:
    """Return the hosts that have a switch. A switch that is a template counts: the play evaluates it."""
    read = getattr(hostvars, "raw_get", hostvars.get)  # a syntax check has a plain mapping
    return [host for host in hosts if any((read(host) or {}).get(name) for name in ROLES)]
