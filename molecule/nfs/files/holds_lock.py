"""Takes a lock on a file and holds it for a while, or waits until somebody else holds it."""

import fcntl
import sys
import time
from pathlib import Path

action, path = sys.argv[1:]
with Path(path).open("a") as stream:
    if action == "hold":
        fcntl.lockf(stream, fcntl.LOCK_EX)
        time.sleep(60)
        sys.exit()
    for _attempt in range(100):
        try:
            fcntl.lockf(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(stream, fcntl.LOCK_UN)
        except BlockingIOError:
            print("locked")
            sys.exit()
        time.sleep(0.2)
sys.exit("nobody holds the lock")
