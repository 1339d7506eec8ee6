# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Check whether the running kernel can mount or serve a network file system. In a container it often cannot."""

from __future__ import annotations

import typing as t

if t.TYPE_CHECKING:
    from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host

NAMES = {
    "nfs": "mount NFS",
    "nfs4": "mount NFS",
    "lustre": "mount Lustre (bring an image with the Lustre client)",
    "nfsd": "serve NFS",
}


def missing(host: Host, module: str, load: bool = True) -> str:
    """Return why the kernel lacks a file system. Return an empty string if it supports or can load it."""
    if module in host.read("/proc/filesystems").split():
        return ""
    rc, out, err = host.run(["modprobe", *([] if load else ["--dry-run"]), "nfs" if module == "nfs4" else module])
    if rc == 0:
        return ""
    reason = (err or out).strip().splitlines()
    return f"the kernel of this machine cannot {NAMES[module]}: {reason[-1] if reason else 'modprobe failed'}"
