# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""
Remove what the user of an ended job left in /dev/shm and /tmp of this node.

The prolog notes whose job begins. The epilog removes files of the user of a job that ended if this user has no other
job and no process on this machine, such as a login session. It runs as root in directories of users. So it follows no
link, stays on one mount, and removes only what the user owns. It never fails, because no action of a user may drain the
node.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import select
import signal
import stat
import sys
import syslog
import time

PLACES = ("/dev/shm", "/tmp")  # noqa: S108
NOTES = "/run/gpucluster-jobs"
PROC = "/proc"
# The user IDs below belong to daemons.
FIRST_USER = 1000
# The owner of Slurm's programs.
ROOT = 0
# Seconds that the epilog waits for the removal, which then goes on without it, and the most that it takes.
EPILOG, ALL = 30, 600
# The manager of a user's sessions ends ten seconds after the last one.
SESSION_ENDS, PAUSE = 60, 5
# Seconds that a prolog waits for a removal, which ends as soon as it sees the note.
PROLOG = 60
# A job starts soon after its prolog. A note without it is the rest of an interrupted job.
STALE = 3600
# Seconds between two looks at processes and jobs.
LOOK = 0.2
# Open directories of one tree. A deeper directory is moved up.
DEPTH = 64
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class StoppedError(Exception):
    """The user has a job or a process again."""


def now() -> float:
    """Return the seconds since boot. The clock of the machine may jump."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def lock(uid: int) -> int:
    """Return an open file with a lock for each user: nobody removes files while a job of the user begins."""
    os.makedirs(NOTES, mode=0o700, exist_ok=True)
    return os.open(f"{NOTES}/.lock-{uid}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def begin(job: int, uid: int) -> None:
    """Note whose job begins, and wait until a removal has seen it."""
    handle = lock(uid)
    partial = f"{NOTES}/.{job}"
    with open(partial, "w", encoding="ascii") as stream:
        stream.write(f"{uid} {int(now())}\n")
    os.rename(partial, f"{NOTES}/{job}")
    until = now() + PROLOG
    while now() < until:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        time.sleep(0.05)
    os.close(handle)


def notes() -> dict[int, tuple[int, float]]:
    """Return the user of each noted job, and when it began."""
    found = {}
    for name in filter(str.isdigit, os.listdir(NOTES)):
        with contextlib.suppress(OSError, ValueError), open(f"{NOTES}/{name}", encoding="ascii") as stream:
            uid, since = stream.read().split()
            found[int(name)] = (int(uid), float(since))
    return found


def running() -> set[int]:
    """
    Return the jobs with a slurmstepd. Its title is "slurmstepd: [17.batch]".

    Users can set the title of their programs, and give them this name; but such a file is not root's.
    """
    jobs = set()
    for pid in filter(str.isdigit, os.listdir(PROC)):
        with contextlib.suppress(OSError):
            program = os.readlink(f"{PROC}/{pid}/exe").partition(" (deleted)")[0]
            if os.path.basename(program) == "slurmstepd" and os.stat(f"{PROC}/{pid}/exe").st_uid == ROOT:
                with open(f"{PROC}/{pid}/cmdline", "rb") as stream:
                    title = re.match(rb"slurmstepd: \[(\d+)", stream.read(200))
                jobs.update([int(title[1])] if title else [])
    return jobs


def has_job(uid: int, ended: int) -> bool:
    """Return whether the user has a job here. A job without a note may be one of the user."""
    noted, steps = notes(), running() - {ended}
    begun = {job for job, (_uid, since) in noted.items() if job in steps or now() - since < STALE}
    return any(noted[job][0] == uid for job in begun) or not steps <= noted.keys()


def has_process(uid: int) -> bool:
    """Return whether a process has one of its user IDs. The dead that nobody has collected do not count."""
    for pid in filter(str.isdigit, os.listdir(PROC)):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            with open(f"{PROC}/{pid}/status", encoding="ascii", errors="replace") as stream:
                lines = dict(line.split(":", 1) for line in stream if ":" in line)
            if str(uid) in lines.get("Uid", "").split() and lines.get("State", "").split()[:1] not in (["Z"], ["X"]):
                return True
    return False


class Sweep:
    """One removal of the files of a user."""

    def __init__(self, uid: int, ended: int) -> None:
        """C(ended) is the job whose last step may still be there."""
        self.uid = uid
        self.removed = 0
        self._ended = ended
        self._moved = 0
        self._looked = 0.0

    def check(self) -> None:
        """Stop if the user has a job or a process again."""
        if now() - self._looked < LOOK:
            return
        if has_process(self.uid) or has_job(self.uid, self._ended):
            raise StoppedError
        self._looked = now()

    def place(self, path: str) -> None:
        """Remove what the user has directly in a directory, with all below it."""
        handle = os.open(path, _DIRECTORY)
        try:
            self._entries(handle, _mount(handle), [])
        finally:
            os.close(handle)

    def _entries(self, handle: int, mount: str, above: list[int]) -> None:
        """Remove the entries of a directory. C(above) are the open directories of the user, the highest first."""
        progress = -1
        # Reading a directory that changes can miss entries, and deep directories move to the highest one.
        while progress != self.removed + self._moved:
            progress = self.removed + self._moved
            with os.scandir(handle) as entries:
                for entry in entries:
                    self.check()
                    with contextlib.suppress(OSError):
                        self._entry(entry.name, handle, mount, above)

    def _entry(self, name: str, where: int, mount: str, above: list[int]) -> None:
        found = os.lstat(name, dir_fd=where)
        if found.st_uid != self.uid:
            return
        if not stat.S_ISDIR(found.st_mode):
            os.unlink(name, dir_fd=where)
            self.removed += 1
        elif len(above) >= DEPTH:
            os.rename(name, f".gone-{os.getpid()}-{self._moved + 1}", src_dir_fd=where, dst_dir_fd=above[0])
            self._moved += 1
        else:
            self._tree(name, where, mount, above)

    def _tree(self, name: str, where: int, mount: str, above: list[int]) -> None:
        handle = os.open(name, _DIRECTORY, dir_fd=where)
        try:
            # What was opened counts: the name may mean something else by now.
            if os.fstat(handle).st_uid != self.uid or _mount(handle) != mount:
                return
            self._entries(handle, mount, [*above, handle])
        finally:
            os.close(handle)
        os.rmdir(name, dir_fd=where)
        self.removed += 1


def _mount(handle: int) -> str:
    """Return the mount of an open file. A directory can be mounted in its own file system, which the device hides."""
    with open(f"/proc/self/fdinfo/{handle}", encoding="ascii") as stream:
        return next(line for line in stream if line.startswith("mnt_id:"))


def sweep(job: int, uid: int) -> bool:
    """Remove the files of a user; return whether the user had neither a job nor a process all the time."""
    handle = lock(uid)
    one = Sweep(uid, job)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        one.check()
        for path in PLACES:
            with contextlib.suppress(OSError):
                one.place(path)
    except StoppedError:
        return False
    finally:
        os.close(handle)
        if one.removed:
            syslog.syslog(f"gpucluster-leftovers: removed {one.removed} files of the user {uid}, whose job {job} ended")
    return True


def clean(job: int, uid: int, waiting: int) -> None:
    """Remove the files, also if the last processes of the user end a little later. Nobody waits for the second try."""
    done = sweep(job, uid)
    os.close(waiting)
    until = now() + SESSION_ENDS
    while not done and now() < until and not has_job(uid, job):
        time.sleep(PAUSE)
        done = sweep(job, uid)


def end(job: int, uid: int) -> None:
    """Remove the files in a process of its own, and wait for it for a limited time. A file system may not answer."""
    os.makedirs(NOTES, mode=0o700, exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(f"{NOTES}/{job}")
    if uid < FIRST_USER:
        return
    ours, theirs = os.pipe()
    if os.fork() == 0:
        os.close(ours)
        _leave()
        try:
            clean(job, uid, theirs)
        finally:
            os._exit(0)
    os.close(theirs)
    select.select([ours], [], [], EPILOG)
    os.close(ours)


def _leave() -> None:
    """Let slurmd end the epilog without this process, and end this process if it hangs."""
    os.setsid()
    signal.alarm(ALL)
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)


def main() -> None:
    """Act as the directory says in which this file is, such as /etc/slurm/epilog.d."""
    act = {"prolog.d": begin, "epilog.d": end}[os.path.basename(os.path.dirname(os.path.abspath(sys.argv[0])))]
    try:
        act(int(os.environ["SLURM_JOB_ID"]), int(os.environ["SLURM_JOB_UID"]))
    except (OSError, KeyError, ValueError) as exc:
        sys.stderr.write(f"gpucluster-leftovers: {exc}\n")


if __name__ == "__main__":
    main()
