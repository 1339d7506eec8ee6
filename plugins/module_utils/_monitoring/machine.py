# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Figures of a machine that the node exporter does not have: health checks, mounts and certificates."""

from __future__ import annotations

import calendar
import collections
import json
import re
import time
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._health import kernel_log, leftovers
from ansible_collections.hpcai.gpucluster.plugins.module_utils._health.verdict import EXIT_STATUS

from .text import Sample, sample

if t.TYPE_CHECKING:
    from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host

_OOM = re.compile(r"oom-kill:constraint=(\w+)")
_ESCAPES = {"\\040": " ", "\\011": "\t", "\\134": "\\"}


def health(text: str, written: float) -> list[Sample]:
    """
    Return the verdict of each health check from the state file of gpucluster-check, and when it was written.

    Raise ValueError for a status that is none.
    """
    verdicts = json.loads(text).get("verdicts") or {}
    odd = next((f"{name} is {status!r}" for name, status in verdicts.items() if status not in EXIT_STATUS), None)
    if odd:
        raise ValueError(f"the state file of gpucluster-check says that {odd}")
    found = [
        sample("gpucluster_health_check", 1, check=str(name), status=str(status))
        for name, status in sorted(verdicts.items())
    ]
    return [*found, sample("gpucluster_health_timestamp_seconds", written)]


def mounts(fstab: str, mounted: str) -> list[Sample]:
    """Return whether each mount of fstab is mounted; mounted is the content of /proc/self/mounts."""
    # Users name mounts of their own; the kernel escapes blanks and line breaks in these names only.
    rows = [line.split(" ") for line in mounted.split("\n")]
    present = {_plain(row[1]) for row in rows if len(row) > 1}
    return [sample("gpucluster_mount_up", float(path in present), mountpoint=path) for path in sorted(_wanted(fstab))]


def oom_kills(lines: t.Iterable[str]) -> list[Sample]:
    """Return how often the kernel killed a process for memory, by Slurm's job; scope says whose memory was full."""
    texts = (kernel_log.read(line).text for line in lines)
    found = [(match[1], _job(match.string)) for match in map(_OOM.match, texts) if match]
    counts = collections.Counter(("group" if "MEMCG" in limit else "machine", job) for limit, job in found)
    return [
        sample("gpucluster_oom_kill_total", count, scope=scope, job_id=job)
        for (scope, job), count in sorted(counts.items())
    ]


def _job(text: str) -> str:
    """Return the job of the killed process; empty if there is none, or if a user has named a group like the words."""
    _before, *rest = text.split(",task_memcg=")
    return leftovers.job_of(rest[0].partition(",task=")[0]) if len(rest) == 1 else ""


def _wanted(fstab: str) -> set[str]:
    rows = [line.split() for line in fstab.splitlines() if not line.lstrip().startswith("#")]
    wanted = [row for row in rows if len(row) > 3 and row[1].startswith("/") and "noauto" not in row[3].split(",")]
    return {_plain(row[1]).rstrip("/") or "/" for row in wanted}


def _plain(path: str) -> str:
    for escape, char in _ESCAPES.items():
        path = path.replace(escape, char)
    return path


def certificates(paths: t.Iterable[str], host: Host) -> list[Sample]:
    """Return when each certificate ends, as seconds since 1970. A file that cannot be read counts as ended."""
    return [sample("gpucluster_certificate_end_seconds", _end(path, host), path=path) for path in paths]


def _end(path: str, host: Host) -> float:
    code, out, _err = host.run(["openssl", "x509", "-enddate", "-noout", "-in", path])
    try:
        text = out.strip().partition("=")[2]
        return 0.0 if code else float(calendar.timegm(time.strptime(text, "%b %d %H:%M:%S %Y %Z")))
    except ValueError:
        return 0.0
