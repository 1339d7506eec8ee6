# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
Remember the VM sizes of machines whose C(gpucluster_vm_size) is C(auto).

A file on the control node has them, so that each machine is read once, and a run with C(--limit) knows all machines.
"""

from __future__ import annotations

import functools
import json
import tempfile
import typing as t
from pathlib import Path

if t.TYPE_CHECKING:
    from collections.abc import Mapping

AUTO = "auto"


def is_auto(size: t.Any) -> bool:
    """Return whether a VM size has to be found."""
    return str(size).strip().lower() == AUTO


def read(path: str) -> dict[str, str]:
    """Return the VM sizes by inventory name. A file that is missing or broken has none."""
    try:
        stat = Path(path).stat()
    except OSError:
        return {}
    return _read(path, stat.st_mtime_ns, stat.st_size)


@functools.lru_cache(maxsize=16)
def _read(path: str, _changed: int, _size: int) -> dict[str, str]:
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {str(host): str(size) for host, size in content.items()} if isinstance(content, dict) else {}


def write(path: str, sizes: Mapping[str, str]) -> None:
    """Replace the file at once, so that a run that reads it meanwhile sees the old or the new one."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=target.parent, encoding="utf-8", delete=False) as temporary:
        json.dump(dict(sorted(sizes.items())), temporary, indent=1)
    Path(temporary.name).replace(target)
