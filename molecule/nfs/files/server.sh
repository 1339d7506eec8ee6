#!/usr/bin/env bash
# Tests the server, one part per call. Usage: patience=SECONDS server.sh serves|meets|boots|counts
set -euo pipefail

is() { # WHAT FOUND PATTERN
  echo "$1: $2"
  # shellcheck disable=SC2053  # a pattern
  [[ $2 == $3 ]] || { echo "wanted: $3" && exit 1; }
}

serves() {
  is threads "$(cat /proc/fs/nfsd/threads)" 16
  is versions "$(cat /proc/fs/nfsd/versions)" '*-3*+4.2*'
  is 'rpcbind, which version 4 does not need' "$(systemctl is-enabled rpcbind.socket) $(ss -Hltun 'sport = 111')" 'masked '
  is 'file system of /shared' "$(findmnt --noheadings --output FSTYPE /shared)" ext4
  is 'rights of /shared' "$(stat --format='%a %G' /shared)" '2775 users'
  limits
  install --directory --owner=1000 /data/alice
  install --directory --owner=1001 /data/bob
  install --directory --owner=1000 --group=100 --mode=0700 /home/alice
  echo from the server > /home/alice/file
  chown 1000 /home/alice/file
}

# In KiB. UID 0 has the default.
limits() {
  is 'limits on /data' "$(xfs_quota -x -c 'report -u -n -N -b' /data | awk 'NF { print $1, $4 }' | sort | xargs)" "#0 8192 #1000 24576${1:-}"
}

# The server knows the lock of the client.
meets() {
  timeout -k 5 "$patience" python3 - << 'PYTHON'
import fcntl, sys, time

with open("/shared/free", "a") as stream:
    while True:  # the shell has the patience
        try:
            fcntl.lockf(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(stream, fcntl.LOCK_UN)
        except BlockingIOError:
            print("lock: held by the client")
            sys.exit()
        time.sleep(0.5)  # the shell has the patience
sys.exit("nobody holds the lock")
PYTHON
}

boots() {
  timeout -k 5 "$((2 * patience))" sh -c 'until systemctl is-active --quiet nfs-server; do sleep 1; done' || {
    systemctl --no-pager --failed
    dmesg | tail -40
    false
  }
  limits ' #1001 8192'
}

# No number that the client wrote is missing.
counts() {
  is 'numbers in a row' "$(awk '$1 != NR { exit 1 } END { print NR }' /shared/numbers)" "$(cat /shared/written)"
}

"$1"
