# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Location of home directories, and the machine that creates them."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    Groups = Mapping[str, Sequence[str]]


class Homes(t.NamedTuple):
    """The machine that owns the homes, their mount point, and whether this machine creates them."""

    host: str
    storage: str
    create: bool


def homes(
    groups: Groups, machine: str, mounts: Iterable[t.Any], volumes: Iterable[t.Any], base: str = "/home"
) -> Homes:
    """Return the location of homes; the first client creates homes on a filer outside of the cluster."""
    servers, clients = list(groups.get("nfs_server") or ()), list(groups.get("nfs_client") or ())
    owners = [*servers, *(groups.get("slurm_controller") or ())]
    mounted = [_path(one, "mountpoint", "path") for one in mounts] if machine in clients else []
    disks = [_path(one, "path") for one in volumes] if machine in servers else []
    storage = next((path for path in sorted([*mounted, *disks], reverse=True) if path and _is_below(base, path)), "")
    first_client = not servers and clients[:1] == [machine]
    return Homes(owners[0] if owners else "", storage, storage not in mounted or first_client)


def _path(entry: t.Any, *names: str) -> str:
    """Return the first path of an entry that is set; other code judges an invalid entry."""
    values = [entry.get(name) for name in names] if isinstance(entry, Mapping) else []
    return next((str(value).rstrip("/") for value in values if value), "")


def _is_below(path: str, directory: str) -> bool:
    return path == directory or path.startswith(f"{directory}/")
