# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Checks of mounts and of used space; a hung server blocks a child process, never this program."""

from __future__ import annotations

import re
import typing as t

from .verdict import Finding, NotApplicableError, UnknownError, healthy, listing, unhealthy

if t.TYPE_CHECKING:
    from .case import Case
    from .machine import Machine, Space

_NETWORK = ("nfs", "nfs4", "lustre", "beegfs", "ceph", "fuse.blobfuse2", "gpfs", "wekafs")


class Mount(t.NamedTuple):
    """One line of the kernel's mount table."""

    path: str
    fstype: str
    options: frozenset[str]

    @property
    def network(self) -> bool:
        """Return whether a network file system is mounted; a user who mounts one with FUSE can call it as they like."""
        users = any(option.startswith("user_id=") and option != "user_id=0" for option in self.options)
        return self.fstype in _NETWORK and not users


def mounts(case: Case) -> Finding:
    """Check that every expected mount exists, and that it and every network mount answers."""
    table = parse_mounts(_table(case.machine))
    wanted = [entry if isinstance(entry, dict) else {"path": str(entry)} for entry in case.items("mounts")]
    faults = [fault for fault in (_fault(entry, table) for entry in wanted) if fault]
    paths = sorted(
        {entry["path"] for entry in wanted if entry["path"] in table}
        | {path for path, mount in table.items() if mount.network}
    )
    if not wanted and not paths:
        raise NotApplicableError("no mount is expected, and no network file system is mounted")
    stuck = _still_stuck(case)
    answers = case.machine.spaces([path for path in paths if path not in stuck], case.number("timeout_seconds"))
    faults += [f"{path} still hangs" for path in stuck]
    faults += [f"{path}: {answer}" for path, answer in answers.items() if isinstance(answer, str)]
    keep = {"stuck": {**stuck, **case.machine.stuck}}
    if faults:
        return unhealthy(
            f"mounted and answering: {listing([entry['path'] for entry in wanted]) or 'every network mount'}",
            listing(faults),
            keep,
        )
    return healthy(f"{len(paths)} mounts answer", keep=keep)


def _fault(entry: dict[str, t.Any], table: dict[str, Mount]) -> str:
    mount = table.get(entry["path"])
    if not mount:
        return f"{entry['path']} not mounted"
    fstype = entry.get("fstype")
    if fstype and not mount.fstype.startswith(fstype):
        return f"{mount.path} of type {mount.fstype} instead of {fstype}"
    missing = [option for option in entry.get("options") or ["rw"] if option not in mount.options]
    return f"{mount.path} without the option {listing(missing)}" if missing else ""


def _still_stuck(case: Case) -> dict[str, int]:
    """Return the mounts whose last child process still hangs: they get no second child."""
    stuck = case.kept().get("stuck")
    found = {}
    for path, pid in stuck.items() if isinstance(stuck, dict) else ():
        try:
            state = case.machine.read(f"/proc/{pid}/stat").rpartition(") ")[2][:1]
        except OSError:
            continue
        if state == "D":
            found[path] = pid
    return found


def filesystems(case: Case) -> Finding:
    """Check the used space and inodes of file systems."""
    paths = [str(path) for path in case.items("paths")]
    answers = case.machine.spaces(paths, case.number("timeout_seconds"))
    return judge_space(case.number("blocks_max_percent"), case.number("inodes_max_percent"), answers)


def judge_space(blocks_max: float, inodes_max: float, answers: dict[str, Space | str]) -> Finding:
    """Compare both percentages of each file system."""
    expected = f"at most {blocks_max:.10g} % of space and {inodes_max:.10g} % of inodes used"
    faults, doubts = [], []
    for path, answer in answers.items():
        if isinstance(answer, str):
            doubts.append(f"{path}: {answer}")
        elif answer.blocks_percent > blocks_max:
            faults.append(f"{path} {answer.blocks_percent:.1f} % of space")
        elif answer.inodes_percent > inodes_max:
            faults.append(f"{path} {answer.inodes_percent:.1f} % of inodes")
    if faults:
        return unhealthy(expected, listing(faults))
    if doubts:
        raise UnknownError(listing(doubts))
    return healthy(f"{expected} on {listing(list(answers))}")


def parse_mounts(text: str) -> dict[str, Mount]:
    """Return the mounts by path; the last mount on a path hides the others."""
    table = {}
    # The kernel escapes line breaks in the names of users, but no other character that ends lines.
    for line in filter(None, text.split("\n")):
        fields = line.split(" ")
        if len(fields) < 4:
            raise UnknownError(f"/proc/self/mounts holds {line[:80]!r}")
        path = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), fields[1])
        table[path] = Mount(path, fields[2], frozenset(fields[3].split(",")))
    if not table:
        raise UnknownError("/proc/self/mounts is empty")
    return table


def _table(machine: Machine) -> str:
    try:
        return machine.read("/proc/self/mounts")
    except OSError as exc:
        raise UnknownError(f"/proc/self/mounts cannot be read: {exc.strerror}") from exc
