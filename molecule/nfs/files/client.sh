#!/usr/bin/env bash
# Tests the client, one part per call. Usage: patience=SECONDS client.sh uses|fills|scratches|holds|writes|ends|sits|rises|boots|loses
# Each access to a mount has a time limit, because a hard mount waits forever.
set -euo pipefail

is() { # WHAT FOUND PATTERN
  echo "$1: $2"
  # shellcheck disable=SC2053  # a pattern
  [[ $2 == $3 ]] || { echo "wanted: $3" && exit 1; }
}
soon() { timeout -k 5 "$patience" "$@"; }
as_alice=(setpriv --reuid=1000 --regid=100 --clear-groups)
alice() { soon "${as_alice[@]}" "$@"; }
options() { findmnt --noheadings --output OPTIONS --types nfs4 "$1"; }
stays() { systemd-run --quiet --collect --unit="$1" "${@:2}"; }

uses() {
  soon stat /home/. /shared/. > /dev/null
  is 'options of /home' "$(options /home)" '*nosuid*nodev*vers=4.2*hard*nconnect=8*'
  is 'rpcbind' "$(systemctl is-enabled rpcbind.socket)" masked
  is 'read-ahead of /home' "$(cat "/sys/class/bdi/$(mountpoint --fs-devno /home)/read_ahead_kb")" 15360
  is 'a file of the server' "$(alice cat /home/alice/file)" 'from the server'
  alice sh -euc 'echo from the client > /home/alice/reply; touch /shared/free'
  is 'root squash' "$(soon touch /home/root 2>&1)" '*Permission denied*'
  is "root and a user's file" "$(soon cat /home/alice/file 2>&1)" '*Permission denied*'
}

# A user meets the limit of the server. 16 MiB are more than the default, and less than alice has.
fills() {
  mkdir /fills
  soon mount -t nfs4 nfs1:/data /fills
  is 'a user with the default' "$(soon setpriv --reuid=1001 --clear-groups dd if=/dev/zero of=/fills/bob/file bs=1M count=16 conv=fsync 2>&1)" '*Disk quota exceeded*'
  alice dd if=/dev/zero of=/fills/alice/file bs=1M count=16 conv=fsync
  is 'a user with a limit of their own' "$(alice dd if=/dev/zero of=/fills/alice/more bs=1M count=16 conv=fsync 2>&1)" '*Disk quota exceeded*'
  umount /fills
}

scratches() {
  is /scratch "$(findmnt --noheadings --output FSTYPE,SOURCE /scratch)" 'xfs*/dev/md*'
  is 'arrays' "$(grep -c 'active raid0' /proc/mdstat)" 1
  SLURM_JOB_ID=7 SLURM_JOB_UID=1000 /etc/slurm/prolog.d/20-scratch.sh
  is "a job's directory" "$(stat --format='%a %u' /scratch/job-7)" '700 1000'
  is "a job's environment" "$(SLURM_JOB_ID=7 setpriv --reuid=1000 --clear-groups /etc/slurm/task_prolog.d/20-scratch.sh)" 'export SCRATCH=/scratch/job-7'
  SLURM_JOB_ID=7 SLURM_JOB_UID=1000 /etc/slurm/epilog.d/80-scratch.sh
  test ! -e /scratch/job-7
  echo kept > /scratch/kept
  sync -f /scratch/kept
}

# Holds a lock and writes numbers continuously, even while the server is down.
writes() {
  stays holder "${as_alice[@]}" python3 -c 'if True:
    import fcntl, time
    stream = open("/shared/free", "a")
    fcntl.lockf(stream, fcntl.LOCK_EX)
    time.sleep(86400)' # work: holds the lock
  stays writer "${as_alice[@]}" sh -euc 'n=0
    while [ ! -e /run/enough ]; do n=$((n + 1)); echo $n >> /shared/numbers; done
    echo $n > /shared/written'
  grows
}

# Waits until another number is on the server.
grows() {
  timeout -k 5 "$patience" sh -euc 'size() { stat --format=%s /shared/numbers 2>/dev/null || echo 0; }
    before=$(size); while [ "$(size)" -le "$before" ]; do sleep 0.5; done'
  echo 'the writer goes on'
}

ends() {
  grows
  touch /run/enough
  timeout -k 5 "$patience" sh -c 'while systemctl is-active --quiet writer; do sleep 0.5; done'
  is 'numbers written' "$(soon cat /shared/written)" '[1-9]*'
}

lets_go() { systemctl stop holder; }

sits() { stays sitter --working-directory=/shared sleep infinity; }

rises() {
  is 'options in use' "$(options /shared)" '*noexec*nconnect=8*'
  systemctl stop sitter
  mkdir -p /full
  touch /full/file
}

left() {
  is mounted "$(findmnt --noheadings --raw --output TARGET,OPTIONS --types nfs4)" '/home *nconnect=4*'
  is waiting "$(findmnt --noheadings --raw --output TARGET --types autofs | grep -cw -e /shared -e /full || true)" 0
}

# Without the server, the node boots, access to its mounts fails with an error, and the local drives are mounted.
boots() {
  is 'units that failed' "$(systemctl list-units --state=failed --plain --no-legend | grep -c mount || true)" 0
  is 'local drives' "$(cat /scratch/kept)" kept
  is 'a home without its server' "$(soon ls /home 2>&1; echo "exit $?")" '*exit [12]'
}

# Replaces a drive of the array with one that has another file system, and assembles the array as udev does at boot.
loses() {
  umount /scratch
  mdadm --quiet --stop "$(readlink --canonicalize /dev/md/scratch)"
  mdadm --zero-superblock /dev/nvme1n1
  mkfs.ext4 -q -F -L precious /dev/nvme1n1
  mdadm --quiet --incremental /dev/nvme0n1 || true
  is 'what is left' "$(grep -c ' : inactive nvme0n1' /proc/mdstat)" 1
}

"$1"
